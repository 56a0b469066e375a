"use strict";
/* Accuracy against length: as it was committed, and measured here on fresh sequences. */

const DISORDERS = { swaps: "any two positions swapped, several times", neighbours: "one swap of two neighbours" };

/** `state` is the panel's: protocol, disorder, scheme. trained: names of the models in the page; shown(): of these the
    ones of this protocol; label(name): how the page calls one. */
function lengthsPart(facts, state, trained, shown, label) {
  const LIVE_LENGTHS = [16, 32, 64, 128, 256];
  const SETS = { swaps: "extrapolation", neighbours: "adjacent" };
  const EACH = 20; // fresh sequences of each length
  const worker = background(trained);
  const curve = h("div");
  const lengthTable = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "accuracy by length" });
  const ended = h("p", { class: "note" });
  const bar = h("progress", { value: 0, max: 1, hidden: true, "aria-label": "progress of the measurement" });
  const disorderButtons = choices(DISORDERS, setDisorder);
  let live = {}; // name -> {length: {right, count}}

  const lengths = () => (state.protocol === "strict" ? [16, 32, 64, 128, 256, 512, 1024] : [16, 32, 64, 128, 256]);

  /** [[length, accuracy], …]: the test rows (8 to 16 values) stand at 16 */
  function committed(name) {
    const sets = facts.committed[name];
    const at = (n) => (n === 16 && state.disorder === "swaps" ? sets.test : sets[`${SETS[state.disorder]}/${n}`]);
    return lengths()
      .map((n) => [n, at(n)])
      .filter(([, share]) => share !== undefined);
  }

  const measured = (name) => Object.entries(live[name] || {}).map(([n, { right, count }]) => [+n, right / count]);

  function curvePicture() {
    const names = Object.keys(facts.committed).filter((name) => name.startsWith(`${state.protocol}/`));
    const chosen = names.includes(state.scheme) ? state.scheme : names[0];
    return chart({
      across: (n) => Math.log2(n / 16) / Math.log2(lengths().at(-1) / 16),
      ticks: lengths(),
      xlabel: "length (training: 8 to 16)",
      label: `accuracy against length; ${label(chosen)}: ${committed(chosen)
        .map(([n, share]) => `${n}: ${percent(share)}`)
        .join(", ")}`,
      lines: [
        ...names
          .filter((name) => name !== chosen)
          .map((name) => ({ name: "", kind: "faint", points: committed(name) })),
        { name: `${label(chosen)}, committed`, kind: "one", points: committed(chosen) },
        { name: measured(chosen).length ? "measured here" : "", kind: "two dashed dots", points: measured(chosen) },
      ],
    });
  }

  function draw() {
    put(curve, curvePicture());
    const rows = shown().map((name) => [
      label(name),
      ...LIVE_LENGTHS.map((n) => {
        const before = committed(name).find(([length]) => length === n);
        const now = (live[name] || {})[n];
        return `${before ? percent(before[1], 0) : "–"}${now === undefined ? "" : ` / ${now.right} of ${now.count}`}`;
      }),
    ]);
    put(lengthTable, table([["committed / measured here", ...LIVE_LENGTHS], ...rows]));
    press(disorderButtons, state.disorder);
  }

  function measure() {
    live = {};
    ended.textContent = "";
    const names = shown();
    const all = LIVE_LENGTHS.length * EACH;
    let done = 0;
    bar.hidden = false;
    bar.max = all;
    worker.start(
      { task: "lengths", names, lengths: LIVE_LENGTHS, count: EACH, seed: 641, disorder: state.disorder },
      ({ length, count, right }) => {
        bar.value = ++done;
        for (const name of names) (live[name] = live[name] || {})[length] = { right: right[name], count };
        if (count % 5 === 0) draw();
      },
      () => {
        bar.hidden = true;
        announce(`measured ${all} fresh sequences`, "measured");
      },
    );
  }

  function setDisorder(disorder) {
    state.disorder = disorder;
    State.write({ disorder });
    reset();
  }

  function reset() {
    ended.textContent = bar.hidden ? "" : "The measurement was ended, as other rows were chosen.";
    worker.stop();
    live = {};
    bar.hidden = true;
    draw();
  }

  const elements = [
    h("h3", {}, "Accuracy against length"),
    h(
      "div",
      { class: "row", role: "group", "aria-label": "how unsorted rows are made" },
      h("span", { class: "note" }, "unsorted rows:"),
      Object.values(disorderButtons),
    ),
    h(
      "div",
      { class: "sides" },
      h(
        "div",
        {},
        curve,
        h(
          "p",
          { class: "note" },
          "Blue: the scheme chosen above, on the committed test sets. Grey: the others. Half of the rows are sorted, " +
            "so one constant answer is right in about 50%.",
        ),
        exports("accuracy-by-length", curvePicture, () => [
          ["model", "length", "committed", "right here", "of"],
          ...shown().flatMap((name) =>
            committed(name).map(([n, share]) => [
              name,
              n,
              share,
              live[name]?.[n]?.right ?? "",
              live[name]?.[n]?.count ?? "",
            ]),
          ),
        ]),
      ),
      h(
        "div",
        {},
        lengthTable,
        h(
          "div",
          { class: "row" },
          button(`Measure here: ${EACH} fresh sequences of each length`, measure, { class: "main" }),
        ),
        bar,
        ended,
      ),
    ),
  ];
  return { elements, draw, reset };
}
