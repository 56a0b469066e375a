"use strict";
/* The three models of the project on top of engine.js, and how their weights are read. */
Object.assign(Engine, (() => {
  const { exp, sinCos, frequency, addSinusoidal, SEE_ALL, CAUSAL, Transformer, largest, margin } = Engine;

  // --- addition as tokens: encoder and decoder -------------------------------------------------------------------

  const PLUS = 10, START = 11;

  class Addition extends Transformer {
    constructor(settings, weights) {
      super(settings, weights);
      this.digits = settings.num_digits;
      this.S = 2 * this.digits + 1; // source tokens
      this.T = this.digits + 1; // answer tokens
      this.vocabulary = weights["output.bias"].length;
      this.layers = [...Array(settings.num_layers).keys()];
      const modules = this.layers.map((n) => `encoder.${n}.self`);
      for (const n of this.layers) modules.push(`decoder.${n}.self`, `decoder.${n}.cross`);
      this.modules = modules;
      this.headNames = modules.flatMap((name) => [...Array(this.heads).keys()].map((h) => `${name}.head${h}`));
      this.positions = new Float64Array(this.S * this.width);
      for (let p = 0; p < this.S; p++) addSinusoidal(this.positions, p * this.width, this.width, p);
    }

    /** pairs [[a, b], …] -> tokens: sources [N · S], targets [N · T] */
    tokens(pairs) {
      const { digits, S, T } = this;
      const sources = new Int32Array(pairs.length * S), targets = new Int32Array(pairs.length * T);
      pairs.forEach(([a, b], row) => {
        const text = String(a).padStart(digits, "0") + "+" + String(b).padStart(digits, "0");
        for (let k = 0; k < S; k++) sources[row * S + k] = text[k] === "+" ? PLUS : Number(text[k]);
        const sum = String(a + b).padStart(T, "0");
        for (let k = 0; k < T; k++) targets[row * T + k] = Number(sum[k]);
      });
      return { sources, targets };
    }

    embedAt(name, tokens, length) {
      const x = this.embed(name, tokens), row = length * this.width;
      for (let k = 0; k < tokens.length * this.width; k++) x[k] += this.positions[k % row];
      return x;
    }

    /** sources [batch · S] -> memory [batch, S, width] */
    encode(sources, hooks) {
      const { S } = this, batch = sources.length / S, x = this.embedAt("source", sources, S);
      for (const n of this.layers) this.encoderLayer(x, `encoder.${n}`, `encoder.${n}`, batch, S, SEE_ALL(S), hooks);
      return this.norm("encoder_norm", x, batch * S);
    }

    /** prefixes [batch · T] and memory -> logits [batch, T, vocabulary] of each next digit */
    decode(prefixes, memory, hooks) {
      const { S, T } = this, batch = prefixes.length / T, rows = batch * T, x = this.embedAt("prefix", prefixes, T);
      for (const n of this.layers) {
        const path = `decoder.${n}`, normed = this.norm(`${path}.self_norm`, x, rows);
        this.attention(x, `${path}.self_attention`, `${path}.self`, normed, normed, batch, T, T, CAUSAL, hooks);
        const queries = this.norm(`${path}.cross_norm`, x, rows);
        this.attention(x, `${path}.cross_attention`, `${path}.cross`, queries, memory, batch, T, S, SEE_ALL(S), hooks);
        this.feedForward(x, path, rows);
      }
      return this.apply("output", this.norm("decoder_norm", x, rows), rows);
    }

    /** Answers [batch · T] -> what the decoder reads while it writes them: the start token, then all but the last. */
    shifted(answers) {
      return answers.map((_, k) => (k % this.T ? answers[k - 1] : START));
    }

    /** Teacher forcing: logits of each digit, given the digits of `answers` before it. */
    forced(sources, answers, hooks) {
      return this.decode(this.shifted(answers), this.encode(sources, hooks), hooks);
    }

    /** Greedy decoding. The first guess is any answer; then the model's own choice takes its place until it no longer
        changes. As digits depend only on those before, each round makes at least one digit more final. */
    answer(sources, guess, hooks) {
      const memory = this.encode(sources, hooks);
      for (let answers = guess; ; ) {
        const logits = this.decode(this.shifted(answers), memory, hooks), chosen = answers.slice();
        for (let k = 0; k < chosen.length; k++) chosen[k] = largest(logits, k * this.vocabulary, this.vocabulary);
        if (chosen.every((digit, k) => digit === answers[k])) return { answers, logits };
        answers = chosen;
      }
    }
  }

  // --- addition as text: a symbol depends on six others, its local context ------------------------------------------

  const TEXT = { BLANK: 12, START: 13, END: 14, ABSENT: 15 };

  class TextAddition extends Transformer {
    /** With one decoder layer, all that depends on fewer than six symbols is computed once:
        memory[a, b]: keys and values of a position's two digits; written[last, before]: the decoder after its
        self-attention, and its cross-attention's query. */
    constructor(settings, weights) {
      super(settings, weights);
      this.vocabulary = weights["output.bias"].length;
      this.memory = new Array(256);
      this.written = new Array(256);
    }

    /** offsets [heads, 1, window, d] added to keys [window, width] */
    addOffsets(keys, name, window) {
      const offsets = this.weights[`${name}.offsets`], { width, heads } = this, d = width / heads;
      for (let h = 0; h < heads; h++) {
        for (let slot = 0; slot < window; slot++) {
          for (let c = 0; c < d; c++) keys[slot * width + h * d + c] += offsets[(h * window + slot) * d + c];
        }
      }
    }

    /** One position of the operands */
    positionMemory(a, b) {
      const code = 16 * a + b;
      if (!this.memory[code]) {
        const x = this.embed("operands", [a, b]);
        this.encoderLayer(x, "encoder.0", "encoder.0", 1, 2, SEE_ALL(2), null);
        const memory = this.norm("encoder_norm", x, 2), cross = "decoder.0.cross_attention";
        const [keys, values] = ["key", "value"].map((part) => this.apply(`${cross}.${part}`, memory, 2).slice());
        this.memory[code] = { keys, values };
      }
      return this.memory[code];
    }

    /** The last two symbols written */
    writtenState(last, before) {
      const code = 16 * last + before, self = "decoder.0.self_attention", { width } = this;
      if (!this.written[code]) {
        const x = this.embed("written", [before, last]), normed = this.norm("decoder.0.self_norm", x, 2);
        const query = this.apply(`${self}.query`, normed.subarray(width), 1);
        const keys = this.apply(`${self}.key`, normed, 2), values = this.apply(`${self}.value`, normed, 2);
        this.addOffsets(keys, self, 2);
        const view = { from: () => (before === TEXT.ABSENT ? 1 : 0), to: () => 2, bias: null };
        const state = x.slice(width, 2 * width);
        this.attendAndAdd(state, self, "decoder.0.self", query, keys, values, 1, 1, 2, view, null);
        const crossQuery = this.apply("decoder.0.cross_attention.query", this.norm("decoder.0.cross_norm", state, 1), 1);
        this.written[code] = { state, query: crossQuery.slice() };
      }
      return this.written[code];
    }

    /** [a, b, a below, b below, last, before last] -> the logits of the next symbol */
    contextLogits(a, b, aBelow, bBelow, last, before, hooks = null) {
      const { width } = this, cross = "decoder.0.cross_attention", first = aBelow === TEXT.ABSENT;
      const here = this.positionMemory(a, b), below = first ? here : this.positionMemory(aBelow, bBelow);
      const keys = this.array("window keys", 4 * width), values = this.array("window values", 4 * width);
      for (let k = 0; k < 2 * width; k++) {
        keys[k] = below.keys[k];
        keys[2 * width + k] = here.keys[k];
        values[k] = below.values[k];
        values[2 * width + k] = here.values[k];
      }
      this.addOffsets(keys, cross, 4);
      const { state, query } = this.writtenState(last, before), x = this.array("state", width);
      for (let k = 0; k < width; k++) x[k] = state[k];
      const view = first ? SEE_UPPER : SEE_FOUR;
      this.attendAndAdd(x, cross, "decoder.0.cross", query, keys, values, 1, 1, 4, view, hooks);
      this.feedForward(x, "decoder.0", 1);
      return this.apply("output", this.norm("decoder_norm", x, 1), 1);
    }

    /** Decimal strings -> what the model writes: for each position, units first, its context, symbol and margin. */
    add(a, b) {
      const digit = (text, t) => (t < 0 ? TEXT.ABSENT : t < text.length ? Number(text[text.length - 1 - t]) : TEXT.BLANK);
      const steps = [], written = [TEXT.START], { vocabulary } = this;
      for (let t = 0; t < Math.max(a.length, b.length) + 2; t++) {
        const before = t ? written[t - 1] : TEXT.ABSENT;
        const context = [digit(a, t), digit(b, t), digit(a, t - 1), digit(b, t - 1), written[t], before];
        const logits = this.contextLogits(...context), symbol = largest(logits, 0, vocabulary);
        steps.push({ context, symbol, margin: margin(logits, 0, vocabulary, symbol) });
        if (symbol === TEXT.END) break;
        written.push(symbol);
      }
      return steps;
    }
  }

  const SEE_FOUR = SEE_ALL(4), SEE_UPPER = { from: () => 2, to: () => 4, bias: null };

  /** Every local context that a sum of two whole numbers can have, in the order of beyond/any_length/local_contexts.py:
      visit(a, b, a below, b below, last, before last, right symbol). Sums are grown from the units upwards. */
  function everyLocalContext(visit) {
    const { BLANK, START, END, ABSENT } = TEXT, contexts = new Set(), known = new Set(), queue = [];
    const reach = (a, b, aBelow, bBelow, last, before, carry) => {
      const total = carry + (a === BLANK ? 0 : a) + (b === BLANK ? 0 : b), over = a === BLANK && b === BLANK;
      const symbol = over && !carry ? END : total % 10;
      const code = ((((a * 16 + b) * 16 + aBelow) * 16 + bBelow) * 16 + last) * 16 + before;
      if (!contexts.has(code)) {
        contexts.add(code);
        visit(a, b, aBelow, bBelow, last, before, symbol);
      }
      const position = ((a * 16 + b) * 16 + last) * 2 + carry;
      if (!known.has(position) && symbol !== END) {
        known.add(position);
        queue.push({ a, b, last, symbol, carry: total > 9 ? 1 : 0 });
      }
    };
    const above = (digit, last) => {
      if (digit === BLANK) return [BLANK];
      const digits = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
      return digit !== 0 || last === START ? [...digits, BLANK] : digits; // a number does not begin with 0
    };
    for (let a = 0; a < 10; a++) for (let b = 0; b < 10; b++) reach(a, b, ABSENT, ABSENT, START, ABSENT, 0);
    for (let k = 0; k < queue.length; k++) {
      const { a, b, last, symbol, carry } = queue[k];
      for (const c of above(a, last)) for (const d of above(b, last)) reach(c, d, a, b, symbol, last, carry);
    }
    return contexts.size;
  }

  // --- sorted or not: an encoder with a position scheme --------------------------------------------------------------

  const SPAN = 512; // of the schemes trained at random positions

  class Classifier extends Transformer {
    constructor(settings, weights) {
      super(settings, weights);
      this.scheme = settings.encoding;
      this.random = this.scheme.startsWith("randomized");
    }

    /** tokens -> the vote of each position [2 · T] ("not sorted", "sorted"), the logits, and for each head the mean
        weight it gives to the neighbour before, to the token itself and to the neighbour after. */
    run(tokens) {
      const T = tokens.length, { width, scheme } = this, x = this.embed("tokens", tokens);
      const positions = Float64Array.from(tokens, (_, i) => (this.random ? ((i + 0.5) * SPAN) / T : i));
      for (let i = 0; i < T; i++) this.addPosition(x, i * width, positions[i]);
      const rotate = scheme.endsWith("rope") ? (heads) => this.rotate(heads, positions) : null;
      const view = this.view(T), neighbours = {};
      const hooks = {
        intervene: () => {},
        visit: (name, { heads }) => {
          for (let h = 0; h < heads; h++) neighbours[`${name}.head${h}`] = [0, 0, 0];
          return (b, h, i, row, from, to) => {
            const sums = neighbours[`${name}.head${h}`];
            for (let o = -1; o <= 1; o++) if (i + o >= from && i + o < to) sums[o + 1] += row[i + o] / (T - (o !== 0));
          };
        },
      };
      for (let n = 0; n < this.settings.num_layers; n++) {
        this.encoderLayer(x, `layers.${n}`, `encoder.${n}`, 1, T, view, hooks, rotate);
      }
      const votes = this.apply("output", this.norm("norm", x, T), T).slice(0, 2 * T);
      return { votes, logits: this.pool(votes, T), neighbours };
    }

    /** "mean": the mean vote. "max": the strongest vote for "not sorted" decides. */
    pool(votes, T) {
      if (this.settings.pooling === "mean") {
        const sums = [0, 0];
        for (let k = 0; k < 2 * T; k++) sums[k % 2] += votes[k];
        return sums.map((sum) => sum / T);
      }
      let strongest = -Infinity;
      for (let i = 0; i < T; i++) strongest = Math.max(strongest, votes[2 * i] - votes[2 * i + 1]);
      return [strongest / 2, -strongest / 2];
    }

    addPosition(x, offset, position) {
      const { width, scheme } = this;
      if (scheme === "sinusoidal" || scheme === "randomized") {
        addSinusoidal(x, offset, width, position, this.settings.size);
      }
      if (scheme === "onehot") x[offset + (position % width)] += Math.sqrt(width / 2);
      if (scheme.endsWith("learned")) {
        const table = this.weights["scheme.table"], row = Math.min(Math.floor(position), table.length / width - 1);
        for (let k = 0; k < width; k++) x[offset + k] += table[row * width + k];
      }
    }

    /** Pairs of dimensions of each head turned by position · frequency */
    rotate(heads, positions) {
      const { width } = this, d = width / this.heads;
      for (let pair = 0; 2 * pair < d; pair++) {
        for (let i = 0; i < positions.length; i++) {
          const [sin, cos] = sinCos(positions[i] * frequency(pair, d));
          for (let k = i * width + 2 * pair; k < (i + 1) * width; k += d) {
            const first = heads[k], second = heads[k + 1];
            heads[k] = first * cos - second * sin;
            heads[k + 1] = first * sin + second * cos;
          }
        }
      }
    }

    /** Which keys a query sees, and the bias of each distance */
    view(T) {
      const { scheme, heads, weights } = this, bias = new Float64Array(heads * (2 * T - 1));
      const set = (f) => {
        for (let h = 0; h < heads; h++) for (let o = 1 - T; o < T; o++) bias[h * (2 * T - 1) + o + T - 1] = f(h, o);
        return bias;
      };
      const table = weights["scheme.table"], { gain } = this.settings;
      if (scheme === "alibi") {
        const slope = Array.from({ length: heads }, (_, h) => exp((-8 * (h + 1) * Math.LN2) / heads));
        set((h, o) => -Math.abs(o) * slope[h]);
        return { from: (h, i) => (h % 2 ? i : 0), to: (h, i) => (h % 2 ? T : i + 1), bias };
      }
      if (scheme === "t5") {
        const starts = this.settings.bucket_starts, side = starts.length; // the first distance of each bucket
        const bucket = (o) => starts.findLastIndex((start) => start <= Math.abs(o)) + (o > 0 ? side : 0);
        return { ...SEE_ALL(T), bias: set((h, o) => gain * table[bucket(o) * heads + h]) };
      }
      if (scheme === "window") {
        const size = table.length / heads, reach = (size - 1) / 2;
        set((h, o) => gain * table[h * size + Math.max(-reach, Math.min(reach, o)) + reach]);
        return { from: (h, i) => Math.max(0, i - reach), to: (h, i) => Math.min(T, i + reach + 1), bias };
      }
      return this.settings.causal ? CAUSAL : SEE_ALL(T);
    }
  }

  // --- weights as text -------------------------------------------------------------------------------------------

  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const SIXES = Uint8Array.from({ length: 128 }, (_, code) => Math.max(0, ALPHABET.indexOf(String.fromCharCode(code))));

  /** base64 -> an ArrayBuffer */
  function fromBase64(text) {
    const padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0, bytes = new Uint8Array((text.length / 4) * 3);
    for (let k = 0, at = 0; k < text.length; k += 4) {
      const six = (n) => SIXES[text.charCodeAt(k + n)];
      const word = (six(0) << 18) | (six(1) << 12) | (six(2) << 6) | six(3);
      bytes[at++] = word >> 16;
      bytes[at++] = word >> 8;
      bytes[at++] = word;
    }
    return bytes.buffer.slice(0, bytes.length - padding);
  }

  /** base64 of 32-bit numbers -> Float64Array */
  const numbers = (text) => Float64Array.from(new Float32Array(fromBase64(text)));

  /** {kind, settings, tensors: {name: {shape, f32}} or {shape, i8, scale}} -> the model. i8: whole numbers, times a
      scale for each row. */
  function load({ kind, settings, tensors }) {
    const weights = {};
    for (const [name, { shape, f32, i8, scale }] of Object.entries(tensors)) {
      if (f32) weights[name] = numbers(f32);
      else {
        const steps = new Int8Array(fromBase64(i8)), scales = numbers(scale), row = steps.length / shape[0];
        weights[name] = Float64Array.from(steps, (step, k) => step * scales[Math.floor(k / row)]);
      }
    }
    return new { addition: Addition, text: TextAddition, sorting: Classifier }[kind](settings, weights);
  }

  return { load, numbers, everyLocalContext, TEXT, PLUS, START };
})());
