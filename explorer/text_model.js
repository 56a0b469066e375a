"use strict";
/* Addition as text: a symbol depends on six others, its local context. */
{
  const { SEE_ALL, Transformer, largest, margin } = Engine;

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
      const offsets = this.weights[`${name}.offsets`];
      const { width, heads } = this;
      const d = width / heads;
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
        const memory = this.norm("encoder_norm", x, 2);
        const cross = "decoder.0.cross_attention";
        const [keys, values] = ["key", "value"].map((part) => this.apply(`${cross}.${part}`, memory, 2).slice());
        this.memory[code] = { keys, values };
      }
      return this.memory[code];
    }

    /** The last two symbols written */
    writtenState(last, before) {
      const code = 16 * last + before;
      const self = "decoder.0.self_attention";
      const { width } = this;
      if (!this.written[code]) {
        const x = this.embed("written", [before, last]);
        const normed = this.norm("decoder.0.self_norm", x, 2);
        const query = this.apply(`${self}.query`, normed.subarray(width), 1);
        const keys = this.apply(`${self}.key`, normed, 2);
        const values = this.apply(`${self}.value`, normed, 2);
        this.addOffsets(keys, self, 2);
        const view = { from: () => (before === TEXT.ABSENT ? 1 : 0), to: () => 2, bias: null };
        const state = x.slice(width, 2 * width);
        this.attendAndAdd(state, self, "decoder.0.self", query, keys, values, 1, 1, 2, view, null);
        const crossQuery = this.apply(
          "decoder.0.cross_attention.query",
          this.norm("decoder.0.cross_norm", state, 1),
          1,
        );
        this.written[code] = { state, query: crossQuery.slice() };
      }
      return this.written[code];
    }

    /** [a, b, a below, b below, last, before last] -> the logits of the next symbol */
    contextLogits(a, b, aBelow, bBelow, last, before, hooks = null) {
      const { width } = this;
      const cross = "decoder.0.cross_attention";
      const first = aBelow === TEXT.ABSENT;
      const here = this.positionMemory(a, b);
      const below = first ? here : this.positionMemory(aBelow, bBelow);
      const keys = this.array("window keys", 4 * width);
      const values = this.array("window values", 4 * width);
      for (let k = 0; k < 2 * width; k++) {
        keys[k] = below.keys[k];
        keys[2 * width + k] = here.keys[k];
        values[k] = below.values[k];
        values[2 * width + k] = here.values[k];
      }
      this.addOffsets(keys, cross, 4);
      const { state, query } = this.writtenState(last, before);
      const x = this.array("state", width);
      for (let k = 0; k < width; k++) x[k] = state[k];
      const view = first ? SEE_UPPER : SEE_FOUR;
      this.attendAndAdd(x, cross, "decoder.0.cross", query, keys, values, 1, 1, 4, view, hooks);
      this.feedForward(x, "decoder.0", 1);
      return this.apply("output", this.norm("decoder_norm", x, 1), 1);
    }

    /** Decimal strings -> what the model writes: for each position, units first, its context, symbol and margin. */
    add(a, b) {
      const digit = (text, t) =>
        t < 0 ? TEXT.ABSENT : t < text.length ? Number(text[text.length - 1 - t]) : TEXT.BLANK;
      const steps = [];
      const written = [TEXT.START];
      const { vocabulary } = this;
      for (let t = 0; t < Math.max(a.length, b.length) + 2; t++) {
        const before = t ? written[t - 1] : TEXT.ABSENT;
        const context = [digit(a, t), digit(b, t), digit(a, t - 1), digit(b, t - 1), written[t], before];
        const logits = this.contextLogits(...context);
        const symbol = largest(logits, 0, vocabulary);
        steps.push({ context, symbol, margin: margin(logits, 0, vocabulary, symbol) });
        if (symbol === TEXT.END) break;
        written.push(symbol);
      }
      return steps;
    }
  }

  const SEE_FOUR = SEE_ALL(4);
  const SEE_UPPER = { from: () => 2, to: () => 4, bias: null };

  /** Every local context that a sum of two whole numbers can have, in the order of beyond/any_length/local_contexts.py:
      visit(a, b, a below, b below, last, before last, right symbol). Sums are grown from the units upwards. */
  function everyLocalContext(visit) {
    const { BLANK, START, END, ABSENT } = TEXT;
    const contexts = new Set();
    const known = new Set();
    const queue = [];
    const reach = (a, b, aBelow, bBelow, last, before, carry) => {
      const total = carry + (a === BLANK ? 0 : a) + (b === BLANK ? 0 : b);
      const over = a === BLANK && b === BLANK;
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

  Object.assign(Engine, { TextAddition, TEXT, everyLocalContext });
}
