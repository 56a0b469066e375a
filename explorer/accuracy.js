"use strict";
/* Accuracy of the addition model over the test sums, with all heads on and as they are now; and greedy pruning. */

/** `state` is the panel's: off, a Map of heads to "zero" or "mean". setOff(off) switches heads; tell(text) gets the share
    of sums that are right. */
function accuracyPart({ facts, state, interventions, setOff, tell }) {
  const ROWS = facts.rows;
  const { order, exact_match } = facts.pruning;
  const worker = background(["addition"]);
  const result = h("div", { class: "accuracy" });
  const curve = h("div");
  const steps = h("span", { class: "note" });
  const slider = h("input", {
    type: "range",
    min: 0,
    max: order.length,
    value: 0,
    "aria-label": "heads removed in greedy order",
    oninput: () => {
      stop();
      prune(+slider.value);
    },
  });

  let baseline = null;

  /** [right, rows] for all rows and for each carry class */
  function byClass(right) {
    const counts = [[0, 0], ...facts.class_names.map(() => [0, 0])];
    right.forEach((ok, row) => {
      for (const k of [0, 1 + facts.classes[row]]) {
        counts[k][0] += ok;
        counts[k][1] += 1;
      }
    });
    return counts;
  }

  /** First the model with all heads on, once; then as it is now. */
  function measure() {
    if (!baseline && state.off.size) {
      const nothing = () => {};
      return evaluate({}, nothing, (right) => {
        baseline = right;
        measure();
      });
    }
    drawAccuracy([]);
    evaluate(interventions(), drawAccuracy, (right) => {
      if (!state.off.size) baseline = right;
      drawAccuracy(right);
      announce(`accuracy over ${whole(ROWS.length)} sums: ${percent(byClass(right)[0][0] / ROWS.length)}`, "accuracy");
    });
  }

  function evaluate(interventions, show, end) {
    let right = [];
    const message = (found) => show((right = found));
    worker.start({ task: "accuracy", rows: ROWS, interventions }, message, () => end(right));
  }

  let lastRight = [];

  function drawAccuracy(right) {
    lastRight = right;
    const now = byClass(right);
    const before = byClass(baseline || []);
    const part = right.length < ROWS.length;
    const share = ([ok, n]) => (n ? percent(ok / n) : "…");
    tell(`${share(now[0])} of ${part ? `${right.length} so far` : whole(ROWS.length)}`);
    put(
      result,
      table([
        ["sums", "all heads on", part ? `now (${right.length} so far)` : "now"],
        ...["all", ...facts.class_names].map((name, k) => [
          `${name} (${k ? facts.classes.filter((c) => c === k - 1).length : ROWS.length})`,
          share(before[k]),
          h(
            "span",
            { class: baseline && now[k][1] && now[k][0] / now[k][1] < before[k][0] / before[k][1] ? "bad" : "" },
            share(now[k]),
          ),
        ]),
      ]),
    );
  }

  function drawCurve() {
    const on = order.findIndex((head) => state.off.get(head) !== "zero");
    const off = on < 0 ? order.length : on; // in this order
    const others = state.off.size - off;
    slider.value = off;
    steps.textContent =
      (off ? `${count(off, "head")} off, the last ${short(order[off - 1])}` : "no head off in this order") +
      (others ? `, and ${count(others, "other")} off` : "");
    put(curve, curvePicture(others ? null : off));
  }

  const curvePicture = (removed) =>
    chart({
      lines: [{ name: "exact match", kind: "one", points: exact_match.map((share, k) => [k, share]) }],
      across: (k) => k / order.length,
      ticks: [0, 4, 8, 12, 16, 20, 24].filter((k) => k <= order.length),
      xlabel: "heads removed, in greedy order",
      label: "Exact match on the test rows against the number of heads removed",
      mark: removed === null ? null : [removed, exact_match[removed]],
    });

  let playing = null;

  function prune(removed) {
    setOff(new Map(order.slice(0, removed).map((head) => [head, "zero"])));
  }

  function play() {
    stop();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const last = exact_match.findLastIndex((share) => share >= 0.5) + 1;
    if (calm) return prune(last);
    let removed = 0;
    playing = setInterval(() => {
      prune(removed);
      if (removed++ >= last) stop();
    }, 700);
  }

  const stop = () => clearInterval(playing);

  const element = h(
    "div",
    { class: "sides" },
    h(
      "div",
      {},
      h("h3", {}, `Accuracy over ${whole(ROWS.length)} test sums`),
      result,
      exports("accuracy", null, () => [
        ["class", "right", "sums"],
        ...["all", ...facts.class_names].map((name, k) => [name, ...byClass(lastRight)[k]]),
      ]),
    ),
    h(
      "div",
      {},
      h("h3", {}, "Prune greedily"),
      curve,
      h("div", { class: "row" }, button("Play", play), slider, steps),
      exports(
        "pruning",
        () => curvePicture(null),
        () => [["removed", "head", "exact match"], ...exact_match.map((share, k) => [k, k ? order[k - 1] : "", share])],
      ),
    ),
  );
  return { element, measure, drawCurve, stop };
}
