"use strict";
/* Addition as tokens: encoder and decoder, on top of engine.js. */
{
  const { addSinusoidal, SEE_ALL, CAUSAL, Transformer, largest } = Engine;

  const PLUS = 10;
  const START = 11;

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
      const sources = new Int32Array(pairs.length * S);
      const targets = new Int32Array(pairs.length * T);
      pairs.forEach(([a, b], row) => {
        const text = String(a).padStart(digits, "0") + "+" + String(b).padStart(digits, "0");
        for (let k = 0; k < S; k++) sources[row * S + k] = text[k] === "+" ? PLUS : Number(text[k]);
        const sum = String(a + b).padStart(T, "0");
        for (let k = 0; k < T; k++) targets[row * T + k] = Number(sum[k]);
      });
      return { sources, targets };
    }

    embedAt(name, tokens, length) {
      const x = this.embed(name, tokens);
      const row = length * this.width;
      for (let k = 0; k < tokens.length * this.width; k++) x[k] += this.positions[k % row];
      return x;
    }

    /** sources [batch · S] -> memory [batch, S, width] */
    encode(sources, hooks) {
      const { S } = this;
      const batch = sources.length / S;
      const x = this.embedAt("source", sources, S);
      for (const n of this.layers) this.encoderLayer(x, `encoder.${n}`, `encoder.${n}`, batch, S, SEE_ALL(S), hooks);
      return this.norm("encoder_norm", x, batch * S);
    }

    /** prefixes [batch · T] and memory -> logits [batch, T, vocabulary] of each next digit */
    decode(prefixes, memory, hooks) {
      const { S, T } = this;
      const batch = prefixes.length / T;
      const rows = batch * T;
      const x = this.embedAt("prefix", prefixes, T);
      for (const n of this.layers) {
        const path = `decoder.${n}`;
        const normed = this.norm(`${path}.self_norm`, x, rows);
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
      for (let answers = guess; ;) {
        const logits = this.decode(this.shifted(answers), memory, hooks);
        const chosen = answers.slice();
        for (let k = 0; k < chosen.length; k++) chosen[k] = largest(logits, k * this.vocabulary, this.vocabulary);
        if (chosen.every((digit, k) => digit === answers[k])) return { answers, logits };
        answers = chosen;
      }
    }
  }

  Object.assign(Engine, { Addition, PLUS, START });
}
