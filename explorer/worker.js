"use strict";
/* Longer computations, beside the page so that typing never waits. Each task is a generator: what it yields is sent to
   the page, and a newer task of the page ends it. */
const models = {};

const tasks = {
  /** Which of the rows are answered right with some heads off: 100 more with each message. */
  *accuracy({ rows, interventions }) {
    const hooks = new Engine.Hooks(interventions);
    const right = [];
    for (let start = 0; start < rows.length; start += 100) {
      const { sources, targets } = models.addition.tokens(rows.slice(start, start + 100));
      const { T, vocabulary } = models.addition;
      const logits = models.addition.forced(sources, targets, hooks);
      for (let row = 0; row < targets.length / T; row++) {
        let all = true;
        for (let k = row * T; k < (row + 1) * T; k++) {
          all = all && Engine.largest(logits, k * vocabulary, vocabulary) === targets[k];
        }
        right.push(all);
      }
      yield right;
    }
  },

  /** Activation patching of one pair: how far each head, alone and at each position alone, moves the logit difference
      at the target digit from that of the clean sum (0) to that of the corrupted one (1). */
  *patching({ clean, corrupted, target }) {
    const model = models.addition;
    const hooks = new Engine.Hooks({}, true);
    const a = model.tokens([clean]);
    const b = model.tokens([corrupted]);
    const difference = (logits) => {
      const at = target * model.vocabulary;
      return logits[at + b.targets[target]] - logits[at + a.targets[target]];
    };
    const end = difference(model.forced(b.sources, b.targets, hooks));
    const start = difference(model.forced(a.sources, a.targets, null));
    for (const head of model.headNames) {
      const value = hooks.outputs[head];
      const count = head.startsWith("encoder") ? model.S : target + 1;
      const moved = [null, ...Array(count).keys()].map((position) => {
        const positions = position === null ? null : [position];
        const logits = model.forced(a.sources, a.targets, new Engine.Hooks({ [head]: { value, positions } }));
        return (difference(logits) - start) / (end - start);
      });
      yield { head, whole: moved[0], positions: moved.slice(1) };
    }
  },

  /** The model on every local context: how many are wrong, and the thinnest margin. */
  *prove() {
    const model = models.text;
    const contexts = [];
    Engine.everyLocalContext((...context) => contexts.push(context));
    const counts = {};
    let thinnest = Infinity;
    let at = null;
    let wrong = 0;
    for (let k = 0; k < contexts.length; k++) {
      const right = contexts[k][6];
      const context = contexts[k].slice(0, 6);
      const margin = Engine.margin(model.contextLogits(...context), 0, model.vocabulary, right);
      wrong += margin <= 0;
      counts[Math.floor(margin)] = (counts[Math.floor(margin)] || 0) + 1;
      if (margin < thinnest) [thinnest, at] = [margin, contexts[k]];
      if (k % 2000 === 0) yield { done: k, contexts: contexts.length, wrong, thinnest, at, counts };
    }
    yield { done: contexts.length, contexts: contexts.length, wrong, thinnest, at, counts };
  },

  /** One sequence, every scheme; and what each says of an other sequence, if there is one */
  *classify({ names, tokens, other }) {
    for (const name of names) {
      yield { name, ...models[name].run(tokens), other: other && models[name].run(other).logits };
    }
  },

  /** Fresh sequences, half of them sorted: for each length, how many each scheme gets right */
  *lengths({ names, lengths, count, seed, disorder }) {
    for (const length of lengths) {
      const draw = Tools.random(seed * 100003 + length);
      const right = Object.fromEntries(names.map((name) => [name, 0]));
      for (let k = 0; k < count; k++) {
        const values = Tools.sampleSequence(draw, length, k % 2 ? disorder : "none");
        for (const name of names) {
          const [unsorted, sorted] = models[name].run(values).logits;
          right[name] += sorted > unsorted === Tools.isSorted(values);
        }
        yield { length, count: k + 1, right };
      }
    }
  },

  /** Fresh sequences, every second one sorted, for a model whose position codes are changed: after each round, for each
      length how many it gets right and how many it calls sorted. The same rows for every change. */
  *waves({ name, lengths, count, seed, change }) {
    const rows = lengths.map((length) => ({ length, draw: Tools.random(seed * 100003 + length), right: 0, sorted: 0 }));
    for (let k = 0; k < count; k++) {
      for (const row of rows) {
        const values = Tools.sampleSequence(row.draw, row.length, k % 2 ? "swaps" : "none");
        const [no, yes] = models[name].run(values, change).logits;
        row.right += yes > no === Tools.isSorted(values);
        row.sorted += yes > no;
      }
      yield { count: k + 1, rows: rows.map(({ length, right, sorted }) => ({ length, right, sorted })) };
    }
  },
};

let current = 0;

function step(work, job) {
  if (job !== current) return;
  const { value, done } = work.next();
  postMessage({ job, value, done });
  if (!done) setTimeout(step, 0, work, job);
}

if (typeof document === "undefined") {
  globalThis.onmessage = ({ data }) => {
    for (const [name, packed] of Object.entries(data.load || {})) models[name] = Engine.load(packed);
    current = data.job;
    if (data.task) step(tasks[data.task](data), data.job);
  };
}
