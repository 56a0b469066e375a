"use strict";
/* Sorted or not: an encoder with a position scheme. */
{
  const { exp, sinCos, frequency, addSinusoidal, SEE_ALL, Transformer } = Engine;

  const SPAN = 512; // of the schemes trained at random positions
  const TRAINED = 16; // positions in the longest training row
  const KNOWN = [
    "sinusoidal",
    "learned",
    "none",
    "onehot",
    "rope",
    "t5",
    "alibi",
    "window",
    "randomized",
    "randomized_learned",
    "randomized_rope",
  ];

  class Classifier extends Transformer {
    constructor(settings, weights) {
      super(settings, weights);
      this.scheme = settings.encoding;
      if (!KNOWN.includes(this.scheme)) throw Error(`sorting_model.js does not know ${this.scheme}`);
      this.random = this.scheme.startsWith("randomized");
    }

    /** tokens -> the vote of each position [2 · T] ("not sorted", "sorted"), the logits, and for each head the mean
        weight it gives to the neighbour before, to the token itself and to the neighbour after.
        change: what is done to a sinusoidal code, as in changedCode. */
    run(tokens, change = null) {
      const T = tokens.length;
      const { width, scheme } = this;
      const x = this.embed("tokens", tokens);
      const positions = Float64Array.from(tokens, (_, i) => (this.random ? ((i + 0.5) * SPAN) / T : i));
      for (let i = 0; i < T; i++) {
        if (change) this.changedCode(i, T, change).forEach((value, k) => (x[i * width + k] += value));
        else this.addPosition(x, i * width, positions[i]);
      }
      const rotate = scheme.endsWith("rope") ? (heads) => this.rotate(heads, positions) : null;
      const view = this.view(T);
      const neighbours = {};
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
        const table = this.weights["scheme.table"];
        const row = Math.min(Math.floor(position), table.length / width - 1);
        for (let k = 0; k < width; k++) x[offset + k] += table[row * width + k];
      }
    }

    /** The sinusoidal code of a position among T. squeezed: waves (pairs of dimensions) that get the code of position
        p · 15 / (T - 1), so that none is beyond training. projection: a matrix [width, width] for the whole code. */
    changedCode(position, T, { squeezed = [], projection = null }) {
      const { width } = this;
      const code = new Float64Array(width);
      const inside = (position * (TRAINED - 1)) / (T - 1);
      for (let pair = 0; 2 * pair < width; pair++) {
        const at = squeezed.includes(pair) ? inside : position;
        const [sin, cos] = sinCos(at * frequency(pair, width));
        code[2 * pair] = this.settings.size * sin;
        code[2 * pair + 1] = this.settings.size * cos;
      }
      if (!projection) return code;
      return code.map((_, row) => code.reduce((sum, value, k) => sum + projection[row * width + k] * value, 0));
    }

    /** Pairs of dimensions of each head turned by position · frequency */
    rotate(heads, positions) {
      const { width } = this;
      const d = width / this.heads;
      for (let pair = 0; 2 * pair < d; pair++) {
        for (let i = 0; i < positions.length; i++) {
          const [sin, cos] = sinCos(positions[i] * frequency(pair, d));
          for (let k = i * width + 2 * pair; k < (i + 1) * width; k += d) {
            const first = heads[k];
            const second = heads[k + 1];
            heads[k] = first * cos - second * sin;
            heads[k + 1] = first * sin + second * cos;
          }
        }
      }
    }

    /** Which keys a query sees, and the bias of each distance */
    view(T) {
      const { scheme, heads, weights } = this;
      const bias = new Float64Array(heads * (2 * T - 1));
      const set = (f) => {
        for (let h = 0; h < heads; h++) for (let o = 1 - T; o < T; o++) bias[h * (2 * T - 1) + o + T - 1] = f(h, o);
        return bias;
      };
      const table = weights["scheme.table"];
      const { gain } = this.settings;
      if (scheme === "alibi") {
        const slope = Array.from({ length: heads }, (_, h) => exp((-8 * (h + 1) * Math.LN2) / heads));
        set((h, o) => -Math.abs(o) * slope[h]);
        return { from: (h, i) => (h % 2 ? i : 0), to: (h, i) => (h % 2 ? T : i + 1), bias };
      }
      if (scheme === "t5") {
        const starts = this.settings.bucket_starts;
        const side = starts.length; // the first distance of each bucket
        const bucket = (o) => starts.findLastIndex((start) => start <= Math.abs(o)) + (o > 0 ? side : 0);
        return { ...SEE_ALL(T), bias: set((h, o) => gain * table[bucket(o) * heads + h]) };
      }
      if (scheme === "window") {
        const size = table.length / heads;
        const reach = (size - 1) / 2;
        set((h, o) => gain * table[h * size + Math.max(-reach, Math.min(reach, o)) + reach]);
        return { from: (h, i) => Math.max(0, i - reach), to: (h, i) => Math.min(T, i + reach + 1), bias };
      }
      return SEE_ALL(T);
    }
  }

  Object.assign(Engine, { Classifier });
}
