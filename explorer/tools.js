"use strict";
/* What the page needs besides the models: drawing at random, and a fingerprint. */
const Tools = (() => {
  // --- drawing at random, the same from the same seed ----------------------------------------------------------------

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
    const below = (n) => Math.floor(draw() * n), values = sorted.slice(), { length } = values;
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

  const isSorted = (values) => values.every((value, i) => i === 0 || values[i - 1] <= value);

  // --- carries ---------------------------------------------------------------------------------------------------------

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
    const one = carries(a, b), other = carries(c, d), source = changed[0];
    if (one[source] === other[source]) return null;
    let target = source;
    while (target > 0 && one[target - 1] !== other[target - 1]) target -= 1; // the same digits: they add up to 9
    return { target, nines: source - target };
  }

  // --- a fingerprint -----------------------------------------------------------------------------------------------

  /** The fractional part of a square or cube root of the first primes: SHA-256's constants, as whole numbers */
  function primeRoots(count, root) {
    const found = [];
    for (let n = 2; found.length < count; n++) {
      let prime = true;
      for (let k = 2; k * k <= n; k++) prime = prime && n % k !== 0;
      if (prime) found.push(Math.floor((root(n) % 1) * 4294967296));
    }
    return found;
  }

  /** SHA-256 of bytes, in hex (FIPS 180-4). `crypto.subtle` does not exist on every page that is opened from disk. */
  function sha256(bytes) {
    const rotate = (x, n) => (x >>> n) | (x << (32 - n));
    const padded = new Uint8Array(Math.ceil((bytes.length + 9) / 64) * 64), words = new DataView(padded.buffer);
    padded.set(bytes);
    padded[bytes.length] = 128;
    words.setUint32(padded.length - 8, Math.floor(bytes.length / 536870912));
    words.setUint32(padded.length - 4, bytes.length << 3);
    const K = primeRoots(64, cubeRoot), hash = Int32Array.from(primeRoots(8, Math.sqrt)), w = new Int32Array(64);
    for (let block = 0; block < padded.length; block += 64) {
      for (let t = 0; t < 16; t++) w[t] = words.getInt32(block + 4 * t);
      for (let t = 16; t < 64; t++) {
        const s0 = rotate(w[t - 15], 7) ^ rotate(w[t - 15], 18) ^ (w[t - 15] >>> 3);
        const s1 = rotate(w[t - 2], 17) ^ rotate(w[t - 2], 19) ^ (w[t - 2] >>> 10);
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
      }
      let [a, b, c, d, e, f, g, h] = hash;
      for (let t = 0; t < 64; t++) {
        const t1 = h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
        const t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
      }
      [a, b, c, d, e, f, g, h].forEach((value, k) => (hash[k] += value));
    }
    return [...hash].map((value) => (value >>> 0).toString(16).padStart(8, "0")).join("");
  }

  /** By Newton's method, with + - * / alone */
  function cubeRoot(n) {
    let x = n;
    for (let k = 0; k < 60; k++) x -= (x * x * x - n) / (3 * x * x);
    return x;
  }

  return { random, sampleSequence, disordered, isSorted, carryKind, sha256 };
})();
