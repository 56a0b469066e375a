"use strict";
/* What the page needs besides the models: drawing at random, and the kinds of carries. */
const Tools = (() => {
  // --- drawing at random, the same from the same seed --------------------------------------------------------------

  /** Numbers from 0 to 1, by whole-number arithmetic alone (mulberry32) */
  function random(seed) {
    let state = seed | 0;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }

  /** A sequence as the generator of problem 2 draws them, put out of order or not. */
  function sampleSequence(draw, length, disorder) {
    const values = Array.from({ length }, () => Math.floor(draw() * 100)).sort((a, b) => a - b);
    return disordered(draw, values, disorder);
  }

  /** Sorted values put out of order: "none", "swaps" (max(2, L / 3) swaps of any two positions) or "neighbours" (one
      swap of two neighbours that differ) */
  function disordered(draw, sorted, disorder) {
    const below = (n) => Math.floor(draw() * n);
    const values = sorted.slice();
    const { length } = values;
    const swap = (i, j) => ([values[i], values[j]] = [values[j], values[i]]);
    if (disorder === "swaps") {
      for (let k = 0; k < Math.max(2, Math.floor(length / 3)); k++) {
        const i = below(length);
        swap(i, (i + 1 + below(length - 1)) % length);
      }
      if (isSorted(values)) swap(0, length - 1);
    }
    if (disorder === "neighbours") {
      const steps = values.map((_, i) => i).filter((i) => i + 1 < length && values[i] !== values[i + 1]);
      if (steps.length) {
        const i = steps[below(steps.length)];
        swap(i, i + 1);
      }
    }
    return values;
  }

  /** The same values, sorted if these are not, else put out of order; null where all are equal */
  function counterpart(values) {
    const sorted = values.slice().sort((a, b) => a - b);
    const made = isSorted(values) ? disordered(random(values.length), sorted, "swaps") : sorted;
    return made.every((value, k) => value === values[k]) ? null : made;
  }

  const isSorted = (values) => values.every((value, i) => i === 0 || values[i - 1] <= value);

  // --- carries -----------------------------------------------------------------------------------------------------

  /** For each column of two numbers of as many digits, the highest first: 1 if it passes a carry on */
  function carries(a, b) {
    const out = [];
    let carry = 0;
    for (let k = a.length - 1; k >= 0; k--) {
      carry = +a[k] + +b[k] + carry > 9 ? 1 : 0;
      out.unshift(carry);
    }
    return out;
  }

  /** The kind of pair that a + b and c + d are, as problem1/analysis/carry_pairs.py has it: one digit of the first
      number differs, and with it one carry, which `nines` columns that add up to 9 pass on to the answer's position
      `target`. null: of no kind. */
  function carryKind([a, b, c, d]) {
    const changed = [...a].map((digit, k) => (digit !== c[k] ? k : -1)).filter((k) => k >= 0);
    if (b !== d || changed.length !== 1) return null;
    const one = carries(a, b);
    const other = carries(c, d);
    const source = changed[0];
    if (one[source] === other[source]) return null;
    let target = source;
    while (target > 0 && one[target - 1] !== other[target - 1]) target -= 1; // the same digits: they add up to 9
    return { target, nines: source - target };
  }

  return { random, sampleSequence, disordered, counterpart, isSorted, carryKind };
})();
