"use strict";
/* A transformer in plain JavaScript, in double precision: the same formulas as problem1/attention.py and model.py.
   addition_model.js, text_model.js and sorting_model.js build the project's models from it.

   Every browser computes the same bits: ECMAScript fixes + - * / and Math.sqrt to IEEE 754, and in which order things
   are added is written here. Math.exp and Math.sin are not fixed, so this file has its own.

   Everything is a flat Float64Array, row after row: x[row * width + column]. Work arrays are made once and reused.
   Heads have the names of lab/hooks.py: "encoder.0.self.head1". */
const Engine = (() => {
  // --- elementary functions ----------------------------------------------------------------------------------------

  const POWERS = new Float64Array(1075); // 2^-k, exact
  POWERS[0] = 1;
  for (let k = 1; k < POWERS.length; k++) POWERS[k] = POWERS[k - 1] / 2;
  const FACTORIALS = [1]; // 1 / n!
  for (let n = 1; n < 14; n++) FACTORIALS[n] = FACTORIALS[n - 1] / n;
  const LN2_HIGH = 6.9314718036912381649e-1;
  const LN2_LOW = 1.90821492927058770002e-10;
  const LOG2_E = 1.442695040888963387;

  /** e^x. For x <= 0: x = r - k ln 2 with |r| <= ln 2 / 2, then the Taylor series of e^r, then times 2^-k. */
  function exp(x) {
    if (x > 0) return 1 / exp(-x);
    if (x < -745) return 0;
    const k = Math.floor(0.5 - x * LOG2_E);
    const r = x + k * LN2_HIGH + k * LN2_LOW;
    let sum = FACTORIALS[13];
    for (let n = 12; n >= 0; n--) sum = FACTORIALS[n] + r * sum;
    return sum * POWERS[k];
  }

  // π/2 in three parts: whole multiples of the first two are exact.
  const HALF_PI = [1.57079632673412561417, 6.0771005063039659766e-11, 2.02226624879595063154e-21];

  /** [sin x, cos x] for 0 <= x < 10^5: x = r + n π/2 with |r| <= π/4, then the Taylor series of r. */
  function sinCos(x) {
    const n = Math.floor(x / HALF_PI[0] + 0.5);
    const r = x - n * HALF_PI[0] - n * HALF_PI[1] - n * HALF_PI[2];
    const square = r * r;
    let sin = 1;
    let cos = 1;
    for (let k = 18; k > 0; k -= 2) {
      sin = 1 - (square * sin) / (k * (k + 1));
      cos = 1 - (square * cos) / (k * (k - 1));
    }
    sin *= r;
    return [
      [sin, cos],
      [cos, -sin],
      [-sin, -cos],
      [-cos, sin],
    ][n % 4];
  }

  /** Vaswani et al. 2017, section 3.5: how many radians a position turns each pair of dimensions by */
  const frequency = (pair, size) => exp((-2 * pair * 9.210340371976184) / size); // ln 10000

  /** position -> its sines and cosines, `size` times as large, added to `x` at `offset` */
  function addSinusoidal(x, offset, width, position, size = 1) {
    for (let pair = 0; 2 * pair < width; pair++) {
      const [sin, cos] = sinCos(position * frequency(pair, width));
      x[offset + 2 * pair] += size * sin;
      x[offset + 2 * pair + 1] += size * cos;
    }
  }

  // --- layers ------------------------------------------------------------------------------------------------------

  /** out[rows, outputs] = x[rows, inputs] Wᵀ + b. Two rows and two outputs at a time: a number read is used twice. */
  function linear(out, x, rows, { weight, bias }) {
    const outputs = bias.length;
    const inputs = weight.length / outputs;
    for (let row = 0; row < rows; row += 2) {
      const x0 = row * inputs;
      const x1 = row + 1 < rows ? x0 + inputs : x0; // an odd last row is computed twice
      const y0 = row * outputs;
      const y1 = row + 1 < rows ? y0 + outputs : y0;
      for (let o = 0; o < outputs; o += 2) {
        const w0 = o * inputs;
        const p = o + 1 < outputs ? o + 1 : o;
        const w1 = p * inputs;
        let a = 0;
        let b = 0;
        let c = 0;
        let d = 0;
        for (let k = 0; k < inputs; k++) {
          const u = x[x0 + k];
          const v = x[x1 + k];
          const s = weight[w0 + k];
          const t = weight[w1 + k];
          a += u * s;
          b += u * t;
          c += v * s;
          d += v * t;
        }
        out[y0 + o] = a + bias[o];
        out[y0 + p] = b + bias[p];
        out[y1 + o] = c + bias[o];
        out[y1 + p] = d + bias[p];
      }
    }
    return out;
  }

  /** Each row to mean 0 and variance 1, then times weight plus bias. */
  function layerNorm(out, x, rows, { weight, bias }) {
    const width = weight.length;
    for (let row = 0; row < rows; row++) {
      const start = row * width;
      let mean = 0;
      let variance = 0;
      for (let k = 0; k < width; k++) mean += x[start + k];
      mean /= width;
      for (let k = 0; k < width; k++) variance += (x[start + k] - mean) * (x[start + k] - mean);
      const scale = 1 / Math.sqrt(variance / width + 1e-5);
      for (let k = 0; k < width; k++) out[start + k] = (x[start + k] - mean) * scale * weight[k] + bias[k];
    }
    return out;
  }

  /** x += y over `count` numbers */
  function add(x, y, count) {
    for (let k = 0; k < count; k++) x[k] += y[k];
  }

  /** row[from … to - 1] -> its softmax */
  function softmax(row, from, to) {
    let top = -Infinity;
    let total = 0;
    for (let j = from; j < to; j++) if (row[j] > top) top = row[j];
    for (let j = from; j < to; j++) total += row[j] = exp(row[j] - top);
    for (let j = from; j < to; j++) row[j] /= total;
  }

  /** Attention(Q, K, V) = softmax(Q Kᵀ / √d + bias) V, for `batch` sequences and all heads side by side.

      Q [batch, Tq, width], K and V [batch, Tk, width] -> out [batch, Tq, width].
      view.from(head, i) and view.to(head, i): query i sees the keys from … to - 1 (all masks here are of this kind)
      view.bias: null, or for each head a number for each distance j - i from -(Tk - 1) to Tk - 1
      visit(sequence, head, i, weights, from, to): gets the weights of each query */
  function attend(out, Q, K, V, { batch, Tq, Tk, heads, width }, view, row, visit) {
    const d = width / heads;
    const scale = Math.sqrt(d);
    for (let b = 0; b < batch; b++) {
      for (let h = 0; h < heads; h++) {
        for (let i = 0; i < Tq; i++) {
          const q = (b * Tq + i) * width + h * d;
          const from = view.from(h, i);
          const to = view.to(h, i);
          for (let j = from; j < to; j++) {
            const k = (b * Tk + j) * width + h * d;
            let sum = 0;
            for (let c = 0; c < d; c++) sum += Q[q + c] * K[k + c];
            row[j] = sum / scale;
            if (view.bias) row[j] += view.bias[h * (2 * Tk - 1) + j - i + Tk - 1];
          }
          softmax(row, from, to);
          for (let c = 0; c < d; c++) out[q + c] = 0;
          for (let j = from; j < to; j++) {
            const weight = row[j];
            const v = (b * Tk + j) * width + h * d;
            for (let c = 0; c < d; c++) out[q + c] += weight * V[v + c];
          }
          if (visit) visit(b, h, i, row, from, to);
        }
      }
    }
    return out;
  }

  const SEE_ALL = (keys) => ({ from: () => 0, to: () => keys, bias: null });
  const CAUSAL = { from: () => 0, to: (head, i) => i + 1, bias: null };

  /** What all models share: weights by name, work arrays, and the two kinds of sublayer. */
  class Transformer {
    constructor(settings, weights) {
      Object.assign(this, { settings, weights, width: settings.d_model, heads: settings.num_heads });
      this.arrays = new Map();
      this.parts = new Map();
    }

    /** A work array of at least `size` numbers: the same one each time for the same name. */
    array(name, size) {
      let found = this.arrays.get(name);
      if (!found || found.length < size) this.arrays.set(name, (found = new Float64Array(size)));
      return found;
    }

    /** A linear layer or a layer norm by its name in the checkpoint */
    part(name) {
      let found = this.parts.get(name);
      if (!found) {
        found = { weight: this.weights[`${name}.weight`], bias: this.weights[`${name}.bias`] };
        this.parts.set(name, found);
      }
      return found;
    }

    norm(name, x, rows) {
      return layerNorm(this.array(`norm ${name}`, rows * this.width), x, rows, this.part(name));
    }

    apply(name, x, rows) {
      const part = this.part(name);
      return linear(this.array(`linear ${name}`, rows * part.bias.length), x, rows, part);
    }

    /** tokens -> rows of the embedding times √width */
    embed(name, tokens) {
      const { width } = this;
      const table = this.weights["embedding.weight"];
      const scale = Math.sqrt(width);
      const x = this.array(`embedded ${name}`, tokens.length * width);
      for (let t = 0; t < tokens.length; t++) {
        for (let k = 0; k < width; k++) x[t * width + k] = table[tokens[t] * width + k] * scale;
      }
      return x;
    }

    /** x += attention of the rows `queries` to the rows `memory`. `path`: its weights; `name`: that of its heads. */
    attention(x, path, name, queries, memory, batch, Tq, Tk, view, hooks, rotate) {
      const Q = this.apply(`${path}.query`, queries, batch * Tq);
      const K = this.apply(`${path}.key`, memory, batch * Tk);
      const V = this.apply(`${path}.value`, memory, batch * Tk);
      if (rotate) [Q, K].forEach(rotate);
      this.attendAndAdd(x, path, name, Q, K, V, batch, Tq, Tk, view, hooks);
    }

    attendAndAdd(x, path, name, Q, K, V, batch, Tq, Tk, view, hooks) {
      const { width, heads } = this;
      const shape = { batch, Tq, Tk, heads, width };
      const visit = hooks && hooks.visit && hooks.visit(name, shape);
      const out = attend(this.array("heads", batch * Tq * width), Q, K, V, shape, view, this.array("row", Tk), visit);
      if (hooks) hooks.intervene(name, out, shape);
      add(x, this.apply(`${path}.output`, out, batch * Tq), batch * Tq * width);
    }

    /** x += feed-forward of its layer norm */
    feedForward(x, path, rows) {
      const inner = this.apply(`${path}.feed_forward.inner`, this.norm(`${path}.feed_forward_norm`, x, rows), rows);
      const count = rows * this.part(`${path}.feed_forward.inner`).bias.length;
      for (let k = 0; k < count; k++) if (inner[k] < 0) inner[k] = 0;
      add(x, this.apply(`${path}.feed_forward.outer`, inner, rows), rows * this.width);
    }

    /** One encoder layer, in place */
    encoderLayer(x, path, name, batch, length, view, hooks, rotate) {
      const normed = this.norm(`${path}.attention_norm`, x, batch * length);
      this.attention(
        x,
        `${path}.attention`,
        `${name}.self`,
        normed,
        normed,
        batch,
        length,
        length,
        view,
        hooks,
        rotate,
      );
      this.feedForward(x, path, batch * length);
    }
  }

  /** Records what heads do, and changes it.

      interventions: {"decoder.0.cross.head1": {value, positions}}. value: null for zeros, [Tq · d] for the same numbers
      in each sequence, or [batch · Tq · d]; positions: null for all, or a list of those that change.
      patterns[head]: [batch, Tq, Tk]; outputs[head]: [batch, Tq, d], after the interventions. */
  class Hooks {
    constructor(interventions = {}, record = false) {
      Object.assign(this, { interventions, record, patterns: {}, outputs: {} });
    }

    visit(name, { batch, Tq, Tk, heads }) {
      if (!this.record) return null;
      const patterns = [];
      for (let h = 0; h < heads; h++) {
        patterns.push((this.patterns[`${name}.head${h}`] = new Float64Array(batch * Tq * Tk)));
      }
      return (b, h, i, row, from, to) => {
        for (let j = from; j < to; j++) patterns[h][(b * Tq + i) * Tk + j] = row[j];
      };
    }

    intervene(name, out, { batch, Tq, heads, width }) {
      const d = width / heads;
      for (let h = 0; h < heads; h++) {
        const head = `${name}.head${h}`;
        const change = this.interventions[head];
        if (change) {
          const shared = change.value && change.value.length === Tq * d;
          for (let b = 0; b < batch; b++) {
            for (let i = 0; i < Tq; i++) {
              if (change.positions && !change.positions.includes(i)) continue;
              for (let c = 0; c < d; c++) {
                const taken = ((shared ? 0 : b * Tq) + i) * d + c;
                out[(b * Tq + i) * width + h * d + c] = change.value ? change.value[taken] : 0;
              }
            }
          }
        }
        if (this.record) {
          const copy = (this.outputs[head] = new Float64Array(batch * Tq * d));
          for (let row = 0; row < batch * Tq; row++) {
            for (let c = 0; c < d; c++) copy[row * d + c] = out[row * width + h * d + c];
          }
        }
      }
    }
  }

  // --- reading logits ----------------------------------------------------------------------------------------------

  /** The index, from `offset` on, of the largest of `count` numbers */
  function largest(numbers, offset, count) {
    let best = 0;
    for (let k = 1; k < count; k++) if (numbers[offset + k] > numbers[offset + best]) best = k;
    return best;
  }

  /** How far the logit of `token` lies above the best other one */
  function margin(logits, offset, count, token) {
    let other = -Infinity;
    for (let k = 0; k < count; k++) if (k !== token && logits[offset + k] > other) other = logits[offset + k];
    return logits[offset + token] - other;
  }

  /** The probability of each token */
  function probabilities(logits, offset, count) {
    const out = Float64Array.from(logits.subarray(offset, offset + count));
    softmax(out, 0, count);
    return out;
  }

  return { exp, sinCos, frequency, addSinusoidal, SEE_ALL, CAUSAL, Transformer, Hooks, largest, margin, probabilities };
})();
