"use strict";
/* The proof that the text model adds right at every length: it runs on every local context that a sum can have. */

/** facts: what Python found; symbols: the text of each code. -> the part of the panel that proves it again here. */
function proofPart(facts, symbols) {
  const worker = background(["text"]);
  const result = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "the proof" });
  const bar = h("progress", { value: 0, max: 1, hidden: true, "aria-label": "progress of the proof" });
  const proveButton = button("Prove it here", prove, { class: "main" });
  let counts = {};

  function prove() {
    const started = performance.now();
    proveButton.disabled = true;
    bar.hidden = element.hidden = false;
    worker.start(
      { task: "prove" },
      (found) => {
        counts = found.counts;
        bar.max = found.contexts;
        bar.value = found.done;
        const lines = [
          ["", "on this machine", "in Python"],
          ["local contexts", `${whole(found.done)} of ${whole(found.contexts)}`, whole(facts.local_contexts)],
          ["wrong", whole(found.wrong), whole(facts.failures)],
          ["thinnest margin", found.thinnest.toFixed(3), facts.smallest_margin.toFixed(3)],
        ];
        const remarks = [h("p", { class: "note" }, `The thinnest margin is at ${contextText(found.at)}.`)];
        let verdict = null;
        if (found.done === found.contexts) {
          const holds = found.wrong === 0 && found.contexts === facts.local_contexts;
          const text = holds
            ? `Proven on this machine: all ${whole(found.contexts)} local contexts are right, ` +
              "so sums of every length are."
            : `Not proven: ${whole(found.wrong)} of ${whole(found.contexts)} local contexts are wrong.`;
          const seconds = ((performance.now() - started) / 1000).toFixed(1);
          verdict = h("p", {}, h("b", { class: holds ? "good" : "bad" }, text), ` (${seconds} s)`);
          announce(text, "proof");
        }
        put(
          result,
          verdict,
          table(lines),
          remarks,
          histogram(),
          exports("margins", histogram, () => [["margin from", "local contexts"], ...bins()]),
        );
      },
      () => (proveButton.disabled = false),
    );
  }

  const contextText = (at) => {
    const [a, b, c, d, last, before, right] = at.map((code) => symbols[code]);
    return `${a} and ${b}, below ${c} and ${d}, written ${before} ${last}; right is ${right}`;
  };

  const bins = () =>
    Object.entries(counts)
      .map(([edge, n]) => [+edge, n])
      .sort((x, y) => x[0] - y[0]);

  function histogram() {
    const found = bins();
    const top = Math.log10(Math.max(...found.map(([, n]) => n)) + 1);
    const last = found.at(-1)[0] + 1;
    const first = Math.min(0, found[0][0]);
    const X = (x) => 34 + (480 * (x - first)) / (last - first);
    const height = (n) => (110 * Math.log10(n + 1)) / top;
    return s(
      "svg",
      {
        viewBox: "0 0 540 170",
        class: "chart",
        role: "img",
        "aria-label": "how many local contexts have which logit margin",
      },
      found.map(([edge, n]) =>
        s(
          "rect",
          {
            class: edge < 0 ? "bar two" : "bar",
            x: X(edge) + 0.5,
            y: 126 - height(n),
            width: X(edge + 1) - X(edge) - 1,
            height: height(n),
          },
          s("title", {}, `${edge} to ${edge + 1}: ${whole(n)}`),
        ),
      ),
      [...new Set([0, ...found.filter((_, k) => k % 2 === 0).map(([edge]) => edge)])].map((edge) =>
        s("text", { x: X(edge), y: 142, "text-anchor": "middle" }, edge),
      ),
      s("line", { class: "axis", x1: X(0), x2: X(0), y1: 12, y2: 130 }),
      s(
        "text",
        { x: 270, y: 162, "text-anchor": "middle" },
        "logit margin of the right symbol (height: logarithm of the count)",
      ),
    );
  }

  const element = h(
    "div",
    { class: "proof", hidden: true },
    bar,
    result,
    h(
      "p",
      { class: "note" },
      "A step sees nothing else: right in all contexts is right at every length, by induction over the positions.",
    ),
  );
  return { element, button: proveButton };
}
