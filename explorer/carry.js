"use strict";
/* Carry: two sums that differ in a carry. What heads give in one run is put into the other, until the digit flips. */
(() => {
  const { groups } = FACTS.addition;
  const model = Engine.load(MODELS.addition);
  const { digits, T, S, vocabulary, headNames } = model;
  const root = document.getElementById("carry");
  const { lowest, highest, names, isOperand, isUnfinished } = operands(digits);
  const sameAnswer = ([a, b, c, d]) => +a + +b === +c + +d;
  const isPair = (text) => {
    const numbers = text.split(/[,+ ]/);
    return numbers.length === 4 && numbers.every(isOperand) && !sameAnswer(numbers);
  };
  const length = (head) => (head.startsWith("encoder") ? S : T);
  const isPatch = (text) =>
    text.split(",").every((part) => {
      const [head, positions] = part.split("@");
      return (
        headNames.includes(head) &&
        /^\d+(\.\d+)*$/.test(positions || "") &&
        positions.split(".").every((p) => +p < length(head))
      );
    });

  // The page opens on the pair to try: of the straight carries the one that a single head brings best.
  const strongest = (group) => headNames.reduce((x, y) => (group.moved[y] > group.moved[x] ? y : x));
  const straight = groups.filter((group) => group.nines === 0);
  const first = straight.length && straight.reduce((x, y) => (y.moved[strongest(y)] > x.moved[strongest(x)] ? y : x));
  const example = first ? first.example.flat().join(",") : "191,401,691,401";
  const state = {
    numbers: State.read("pair", example, isPair).split(/[,+ ]/),
    patched: new Map(headNames.map((head) => [head, new Set()])), // head -> positions that come from the other run
    map: State.read("map", "pair", (text) => text === "pair" || text === "all"),
  };
  for (const part of State.read("patch", "", isPatch).split(",").filter(Boolean)) {
    const [head, positions] = part.split("@");
    for (const position of positions.split(".")) state.patched.get(head).add(+position);
  }

  // --- the two runs ------------------------------------------------------------------------------------------------

  let runs = null;

  function compute() {
    const [clean, corrupted] = [0, 2].map((k) => {
      const { sources, targets } = model.tokens([[+state.numbers[k], +state.numbers[k + 1]]]);
      const hooks = new Engine.Hooks({}, true);
      return { sources, targets, logits: model.forced(sources, targets, hooks).slice(), outputs: hooks.outputs };
    });
    const target = clean.targets.findIndex((digit, k) => digit !== corrupted.targets[k]);
    runs = { clean, corrupted, target };
  }

  /** The kind of pair that this one is, if the analysis has pairs of it */
  function kind() {
    const found = Tools.carryKind(state.numbers);
    return found && groups.find((group) => group.target === found.target && group.nines === found.nines);
  }

  const difference = (logits) => {
    const at = runs.target * vocabulary;
    return logits[at + runs.corrupted.targets[runs.target]] - logits[at + runs.clean.targets[runs.target]];
  };

  function patchedRun() {
    const interventions = {};
    for (const [head, positions] of state.patched) {
      if (positions.size) interventions[head] = { value: runs.corrupted.outputs[head], positions: [...positions] };
    }
    const logits = model.forced(runs.clean.sources, runs.clean.targets, new Engine.Hooks(interventions));
    const start = difference(runs.clean.logits);
    const end = difference(runs.corrupted.logits);
    return { logits, moved: (difference(logits) - start) / (end - start) };
  }

  const written = (logits) => Array.from({ length: T }, (_, k) => Engine.largest(logits, k * vocabulary, vocabulary));

  function drawResult() {
    const { clean, corrupted, target } = runs;
    const [a, b, c, d] = state.numbers;
    const { logits, moved } = patchedRun();
    const now = written(logits);
    const before = written(clean.logits);
    const heads = [...state.patched.values()].filter((positions) => positions.size).length;
    const mark = (row) =>
      row.map((digit, k) => (k === target ? h("span", { class: digit === before[k] ? "" : "flip" }, digit) : digit));
    put(
      result,
      table(
        [
          ["run", "sum", "writes"],
          ["clean", `${a} + ${b}`, before.join("")],
          ["corrupted", `${c} + ${d}`, mark(written(corrupted.logits))],
          [`clean, ${count(heads, "head")} patched`, `${a} + ${b}`, h("b", {}, mark(now))],
        ],
        { class: "runs" },
      ),
      scale(moved),
    );
    const flipped = now[target] === corrupted.targets[target];
    const stays = now[target] === before[target];
    let becomes = `becomes ${now[target]}, neither the clean ${before[target]}`;
    becomes += ` nor the corrupted ${corrupted.targets[target]}`;
    if (flipped) becomes = `flips: ${before[target]} becomes ${now[target]}`;
    if (stays) becomes = `stays ${now[target]}`;
    const way = `The logit difference has moved ${percent(moved, 0)} of the way.`;
    const text = `The ${names[target]} digit ${becomes}. ${way}`;
    put(outcome, h("b", { class: stays ? "" : "bad" }, text));
    if (first) smuggle.textContent = isSmuggled() ? "Patch none again" : `Patch ${short(strongest(first))}`;
    if (heads) announce(text, "carry");
  }

  const scale = (moved) =>
    s(
      "svg",
      {
        viewBox: "0 0 540 44",
        class: "chart",
        role: "img",
        "aria-label": `logit difference: ${percent(moved, 0)} of the way from the clean to the corrupted run`,
      },
      s("line", { class: "axis", x1: 40, x2: 500, y1: 14, y2: 14 }),
      s("text", { x: 0, y: 36 }, "clean (0)"),
      s("text", { x: 540, y: 36, "text-anchor": "end" }, "corrupted (1)"),
      s("line", { class: "axis", x1: 40, x2: 40, y1: 9, y2: 19 }),
      s("line", { class: "axis", x1: 500, x2: 500, y1: 9, y2: 19 }),
      s("circle", { class: "mark", cx: 40 + 460 * Math.max(-0.06, Math.min(1.06, moved)), cy: 14, r: 7 }),
    );

  function toggle(head, position, on) {
    const chosen = state.patched.get(head);
    const positions = position === "all" ? [...Array(length(head)).keys()] : [+position];
    for (const p of positions) on ? chosen.add(p) : chosen.delete(p);
  }

  function changed() {
    State.write({
      patch: [...state.patched]
        .filter(([, p]) => p.size)
        .map(([head, p]) => `${head}@${[...p].sort().join(".")}`)
        .join(","),
    });
    drawResult();
    map.draw();
  }

  function clear() {
    for (const positions of state.patched.values()) positions.clear();
  }

  function patchHeads(heads) {
    clear();
    for (const head of heads) toggle(head, "all", true);
    changed();
  }

  // --- a new pair --------------------------------------------------------------------------------------------------

  function changePair(event) {
    const texts = inputs.map((input) => input.value.trim());
    const wrong = texts.filter((text) => !isOperand(text));
    const not = wrong[0] ? `, not “${wrong[0].slice(0, 20)}”` : "";
    let sentence = "";
    if (wrong.length) {
      sentence = `Each of the four must be a number of ${digits} digits, ${lowest} to ${highest}${not}.`;
    } else if (sameAnswer(texts)) {
      sentence = "These two sums have the same answer, so nothing can flip: change a digit of one of them.";
    }
    refuse(problem, results, sentence, event?.type === "input" && wrong.length && wrong.every(isUnfinished));
    if (sentence || event?.type === "change") return; // what is right has been shown at its last input
    state.numbers = texts;
    State.write({ pair: texts.join(",") });
    showPair();
  }

  function showPair() {
    compute();
    const group = kind();
    groups.forEach((each, k) => presets[k].setAttribute("aria-pressed", String(each === group)));
    circuit.disabled = !group;
    const size = group && group.circuit.heads.length;
    circuit.textContent = group
      ? `Patch the ${size === 1 ? "head" : `${size} heads`} of the report's circuit`
      : "The report has no circuit for this pair";
    drawResult();
    map.restart();
  }

  const inputs = state.numbers.map((value, k) =>
    h("input", {
      class: "number",
      value,
      inputmode: "numeric",
      autocomplete: "off",
      oninput: changePair,
      onchange: changePair,
      onfocus: (event) => event.target.select(),
      "aria-label": `${k < 2 ? "clean" : "corrupted"} sum, ${k % 2 ? "second" : "first"} number`,
    }),
  );
  const problem = h("p", { class: "problem", role: "alert" });
  const result = h("div", { class: "scroll" });
  const outcome = h("p", { class: "stage" });
  const choices = h("div");
  const map = carryMap({ model, names, length, state, kind, runs: () => runs, toggle, changed });
  const results = [result, outcome, choices, map.grids];
  const circuit = button("", () => kind() && patchHeads(kind().circuit.heads), { class: "main" });
  function showExample(group, heads) {
    group.example.flat().forEach((text, k) => (inputs[k].value = text));
    clear();
    changePair();
    patchHeads(heads);
  }
  const presets = groups.map((group) => button(group.name, () => showExample(group, group.circuit.heads)));

  const isSmuggled = () => {
    const heads = [...state.patched].filter(([, positions]) => positions.size).map(([head]) => head);
    return state.numbers.join() === example && heads.join() === strongest(first);
  };
  const smuggle = button("", () => showExample(first, isSmuggled() ? [] : [strongest(first)]), { class: "main" });

  const shares = straight.map((group, k) => [
    k ? "; " : "",
    `into the ${group.digit} `,
    h("b", {}, short(strongest(group))),
    ` (${percent(group.moved[strongest(group)], 0)} of the way)`,
  ]);
  const jointly = straight.map(
    (group) =>
      `${group.circuit.heads.length} (${group.digit}: ${percent(group.circuit.sufficiency.share)}, ` +
      `all other heads ${percent(group.circuit.complement.share)})`,
  );
  const sentence = straight.length > 0 && ["Which head brings a carry? Patched alone, the strongest: ", shares, "."];
  const more =
    straight.length > 0 &&
    "Cross-attention heads that bring a straight carry together, and how often the digit flips: " +
      `${jointly.join(", ")}.`;
  put(
    choices,
    h(
      "div",
      { class: "row" },
      circuit,
      button("Patch all heads", () => patchHeads(headNames)),
      button("Patch none", () => {
        clear();
        changed();
      }),
    ),
    map.choice,
  );
  put(
    root,
    h("h2", { id: "carry-title" }, "Carry"),
    h("p", { class: "finding" }, sentence),
    first && tryIt(smuggle, `: does ${example.split(",").slice(0, 2).join(" + ")} take over the other sum's carry?`),
    h(
      "div",
      { class: "row", role: "group", "aria-label": "examples: carry into the" },
      h("span", { class: "note" }, "carry into the"),
      presets,
    ),
    h(
      "div",
      { class: "row" },
      h("span", { class: "sum" }, h("label", {}, "clean"), " ", inputs[0], " + ", inputs[1]),
      h("span", { class: "sum" }, h("label", {}, "corrupted"), " ", inputs[2], " + ", inputs[3]),
    ),
    problem,
    result,
    outcome,
    choices,
    h(
      "p",
      { class: "note" },
      "Press a cell, drag over several, or use the arrow keys and Enter to ",
      term("patch"),
      " the clean run with the corrupted one there. The number in a cell: how far it alone moves the ",
      term("logit difference"),
      ", from 0 (clean) to 1 (corrupted).",
    ),
    map.grids,
    more && h("details", {}, h("summary", {}, "Several heads together"), h("p", { class: "note" }, more)),
    exports("carry-map", map.picture, map.rows),
  );

  showPair(); // the address stays as it was opened
})();
