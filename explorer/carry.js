"use strict";
/* Carry: two sums that differ in a carry. What heads give in one run is put into the other, until the digit flips. */
(() => {
  const { groups, program } = FACTS.addition, model = Engine.load(MODELS.addition), { digits, T, S, vocabulary, headNames } = model;
  const root = document.getElementById("carry"), worker = background(["addition"]);
  const { lowest, highest, names, isOperand, isUnfinished } = operands(digits);
  const sameAnswer = ([a, b, c, d]) => +a + +b === +c + +d;
  const isPair = (text) => {
    const numbers = text.split(/[,+ ]/);
    return numbers.length === 4 && numbers.every(isOperand) && !sameAnswer(numbers);
  };
  const length = (head) => (head.startsWith("encoder") ? S : T);
  const isPatch = (text) => text.split(",").every((part) => {
    const [head, positions] = part.split("@");
    return headNames.includes(head) && /^\d+(\.\d+)*$/.test(positions || "") && positions.split(".").every((p) => +p < length(head));
  });

  // The page opens on the finding: of the straight carries the one that a single head brings best, with that head patched.
  const strongest = (group) => headNames.reduce((x, y) => (group.moved[y] > group.moved[x] ? y : x));
  const straight = groups.filter((group) => group.nines === 0), first = straight.length &&
    straight.reduce((x, y) => (y.moved[strongest(y)] > x.moved[strongest(x)] ? y : x));
  const example = first ? first.example.flat().join(",") : "191,401,691,401";
  const opening = first && !State.values.has("pair") ? `${strongest(first)}@${[...Array(length(strongest(first))).keys()].join(".")}` : "";
  const state = {
    numbers: State.read("pair", example, isPair).split(/[,+ ]/),
    patched: new Map(headNames.map((head) => [head, new Set()])), // head -> positions that come from the other run
    map: State.read("map", "pair", (text) => text === "pair" || text === "all"),
  };
  for (const part of State.read("patch", opening, isPatch).split(",").filter(Boolean)) {
    const [head, positions] = part.split("@");
    for (const position of positions.split(".")) state.patched.get(head).add(+position);
  }

  // --- the two runs ------------------------------------------------------------------------------------------------------

  let runs = null;

  function compute() {
    const [clean, corrupted] = [0, 2].map((k) => {
      const { sources, targets } = model.tokens([[+state.numbers[k], +state.numbers[k + 1]]]), hooks = new Engine.Hooks({}, true);
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
    const start = difference(runs.clean.logits), end = difference(runs.corrupted.logits);
    return { logits, moved: (difference(logits) - start) / (end - start) };
  }

  const written = (logits) => Array.from({ length: T }, (_, k) => Engine.largest(logits, k * vocabulary, vocabulary));

  function drawResult() {
    const { clean, corrupted, target } = runs, [a, b, c, d] = state.numbers;
    const { logits, moved } = patchedRun(), now = written(logits), before = written(clean.logits);
    const count = [...state.patched.values()].filter((positions) => positions.size).length;
    const mark = (row) => row.map((digit, k) => (k === target ? h("span", { class: digit === before[k] ? "" : "flip" }, digit) : digit));
    put(result, 
      table([["run", "sum", "writes"],
        ["clean", `${a} + ${b}`, before.join("")], ["corrupted", `${c} + ${d}`, mark(written(corrupted.logits))],
        [`clean, ${count} ${count === 1 ? "head" : "heads"} patched`, `${a} + ${b}`, h("b", {}, mark(now))]], { class: "runs" }),
      scale(moved));
    const flipped = now[target] === corrupted.targets[target], stays = now[target] === before[target];
    const text = `The ${names[target]} digit ${stays ? `stays ${now[target]}` : flipped ? `flips: ${before[target]} becomes ${now[target]}` :
      `becomes ${now[target]}, neither the clean ${before[target]} nor the corrupted ${corrupted.targets[target]}`}. ` +
      `The logit difference has moved ${percent(moved, 0)} of the way.`;
    put(outcome, h("b", { class: stays ? "" : "bad" }, text));
    if (count) announce(text, "carry");
  }

  const scale = (moved) =>
    s("svg", { viewBox: "0 0 540 44", class: "chart", role: "img", "aria-label": `logit difference: ${percent(moved, 0)} of the way from the clean to the corrupted run` },
      s("line", { class: "axis", x1: 40, x2: 500, y1: 14, y2: 14 }), s("text", { x: 0, y: 36 }, "clean (0)"),
      s("text", { x: 540, y: 36, "text-anchor": "end" }, "corrupted (1)"),
      s("line", { class: "axis", x1: 40, x2: 40, y1: 9, y2: 19 }), s("line", { class: "axis", x1: 500, x2: 500, y1: 9, y2: 19 }),
      s("circle", { class: "mark", cx: 40 + 460 * Math.max(-0.06, Math.min(1.06, moved)), cy: 14, r: 7 }));

  // --- the map: which head, at which position ------------------------------------------------------------------------------

  let effects = {}; // of this pair: head -> {whole, positions}
  const cells = new Map(); // "head@position" -> button

  const shownEffects = () => {
    const group = kind();
    if (state.map === "all" && group) return (head) => ({ whole: group.moved[head], positions: [] }); // by position only this pair is measured
    return (head) => effects[head] || { whole: null, positions: [] };
  };

  function drawMap() {
    const group = kind(), effect = shownEffects();
    for (const [id, cell] of cells) {
      const [head, position] = id.split("@"), { whole, positions } = effect(head), value = position === "all" ? whole : positions[+position];
      const chosen = state.patched.get(head), all = position === "all";
      const on = all ? chosen.size === length(head) : chosen.has(+position), known = value !== null && value !== undefined;
      cell.setAttribute("aria-pressed", String(on));
      cell.style.background = known && !on ? `color-mix(in srgb, var(--blue) ${Math.round(45 * Math.max(0, Math.min(1, value)))}%, var(--card))` : "";
      const text = !known ? "" : Math.abs(value) < 0.005 ? "·" : signed(value, 2);
      put(cell, all && short(head), all ? h("span", {}, text) : text);
      cell.disabled = !all && head.startsWith("decoder") && +position > runs.target; // the target cannot see it
      const where = all ? "all positions" : head.startsWith("encoder") ? `source token ${+position + 1}` : `the position that writes the ${names[+position]}`;
      cell.setAttribute("aria-label", `${short(head)}, ${where}: ${known ? `moves the logit difference by ${signed(value, 2)}` : "not measured"}`);
    }
    mapPair.setAttribute("aria-pressed", String(state.map === "pair" || !group));
    mapAll.setAttribute("aria-pressed", String(state.map === "all" && Boolean(group)));
    mapAll.disabled = !group;
    mapNote.textContent = group
      ? `This pair is of the kind “carry into the ${group.name}”; the analysis measured whole heads on ${group.pairs} such pairs.`
      : "This pair is of no kind that the analysis has: there one digit of the first number differs, and with it one carry, passed on by 9s if at all.";
  }

  function toggle(head, position, on) {
    const chosen = state.patched.get(head), positions = position === "all" ? [...Array(length(head)).keys()] : [+position];
    for (const p of positions) on ? chosen.add(p) : chosen.delete(p);
  }

  function changed() {
    State.write({ patch: [...state.patched].filter(([, p]) => p.size).map(([head, p]) => `${head}@${[...p].sort().join(".")}`).join(",") });
    drawResult();
    drawMap();
  }

  let painting = null; // while the pointer is down: whether cells are switched on or off

  function makeGrid(heads, columns) {
    const cell = (head, position) => {
      const made = h("button", { type: "button", "data-cell": `${head}@${position}`, tabindex: -1 });
      cells.set(`${head}@${position}`, made);
      return made;
    };
    const rows = heads.map((head) => h("tr", {}, h("th", { scope: "row" }, cell(head, "all")), columns.map((_, k) => h("td", {}, cell(head, k)))));
    const grid = h("table", { class: "grid" }, h("thead", {}, h("tr", {}, h("th", {}, "head, all positions"), columns.map((text) => h("th", { scope: "col" }, text)))), h("tbody", {}, rows));
    grid.querySelector("button").tabIndex = 0;
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      const here = event.target.closest("[data-cell]");
      if (!step || !here) return;
      event.preventDefault();
      const table = [...grid.tBodies[0].rows].map((row) => [...row.querySelectorAll("button")]);
      const row = table.findIndex((line) => line.includes(here)), column = table[row].indexOf(here);
      const next = (table[row + step[0]] || [])[column + step[1]];
      if (!next) return;
      here.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    grid.addEventListener("pointerdown", (event) => {
      const here = event.target.closest("[data-cell]");
      if (!here) return;
      painting = here.getAttribute("aria-pressed") !== "true";
      if (here.hasPointerCapture(event.pointerId)) here.releasePointerCapture(event.pointerId); // a finger may move on
      paint(here);
    });
    grid.addEventListener("pointerover", (event) => painting !== null && event.buttons && paint(event.target.closest("[data-cell]")));
    grid.addEventListener("click", (event) => {
      const here = event.target.closest("[data-cell]");
      if (here && event.detail === 0) { // by the keyboard; the pointer has painted already
        toggle(...here.dataset.cell.split("@"), here.getAttribute("aria-pressed") !== "true");
        changed();
      }
    });
    return h("div", { class: "scroll" }, grid);
  }

  function paint(cell) {
    if (!cell) return;
    toggle(...cell.dataset.cell.split("@"), painting);
    changed();
  }
  addEventListener("pointerup", () => (painting = null));

  function clear() {
    for (const positions of state.patched.values()) positions.clear();
  }

  function patchHeads(heads) {
    clear();
    for (const head of heads) toggle(head, "all", true);
    changed();
  }

  // --- a new pair ------------------------------------------------------------------------------------------------------------

  function changePair(event) {
    const texts = inputs.map((input) => input.value.trim()), wrong = texts.filter((text) => !isOperand(text));
    let sentence = "";
    if (wrong.length) sentence = `Each of the four must be a number of ${digits} digits, ${lowest} to ${highest}${wrong[0] ? `, not “${wrong[0].slice(0, 20)}”` : ""}.`;
    else if (sameAnswer(texts)) sentence = "These two sums have the same answer, so nothing can flip: change a digit of one of them.";
    refuse(problem, results, sentence, event?.type === "input" && wrong.length && wrong.every(isUnfinished));
    if (sentence || event?.type === "change") return; // what is right has been shown at its last input
    state.numbers = texts;
    State.write({ pair: texts.join(",") });
    showPair();
  }

  function showPair() {
    const texts = state.numbers;
    compute();
    effects = {};
    const group = kind();
    circuit.disabled = !group;
    const size = group && group.circuit.heads.length;
    circuit.textContent = group ? `Patch the ${size === 1 ? "head" : `${size} heads`} of the report's circuit` : "The report has no circuit for this pair";
    makeGrids();
    drawResult();
    drawMap();
    worker.start({ task: "patching", clean: texts.slice(0, 2).map(Number), corrupted: texts.slice(2).map(Number), target: runs.target },
      (found) => (effects[found.head] = found), drawMap);
  }

  function makeGrids() {
    const label = (k) => {
      const one = runs.clean.sources[k], other = runs.corrupted.sources[k];
      return one === Engine.PLUS ? "+" : one === other ? String(one) : `${one}→${other}`;
    };
    cells.clear();
    put(grids, 
      h("div", {}, h("h3", {}, "Decoder: the position that writes a digit"), makeGrid(headNames.filter((head) => head.startsWith("decoder")), names.slice(0, T))),
      h("div", {}, h("h3", {}, "Encoder: a position in the question"), makeGrid(headNames.filter((head) => head.startsWith("encoder")), [...runs.clean.sources].map((_, k) => label(k)))));
  }

  const inputs = state.numbers.map((value, k) => h("input", { class: "number", value, inputmode: "numeric", autocomplete: "off", oninput: changePair, onchange: changePair,
    "aria-label": `${k < 2 ? "clean" : "corrupted"} sum, ${k % 2 ? "second" : "first"} number` }));
  const problem = h("p", { class: "problem", role: "alert" }), result = h("div", { class: "scroll" }), outcome = h("p"), grids = h("div", { class: "sides" }), mapNote = h("p", { class: "note" }), choices = h("div"), results = [result, outcome, choices, grids];
  const circuit = button("", () => kind() && patchHeads(kind().circuit.heads), { class: "main" });
  const mapPair = button("this pair", () => setMap("pair")), mapAll = button("mean over all such pairs", () => setMap("all"));
  const preset = (group) => button(group.name, () => {
    group.example.flat().forEach((text, k) => (inputs[k].value = text));
    clear();
    changed();
    changePair();
  });

  function setMap(map) {
    state.map = map;
    State.write({ map });
    drawMap();
    announce(`the map shows ${map === "pair" ? "this pair" : "the mean over all such pairs"}`, "map");
  }

  const shares = straight.map((group, k) => [k ? "; " : "", `into the ${group.digit} `, h("b", {}, short(strongest(group))), `, ${percent(group.moved[strongest(group)], 0)} of the way to the other digit`]);
  const jointly = straight.map((group) => `${group.circuit.heads.length} (${group.digit}: ${percent(group.circuit.sufficiency.share)}, all other heads ${percent(group.circuit.complement.share)})`);
  const sentence = straight.length > 0 && ["Which head brings the carry? Patched alone, the strongest are: ", shares, "."];
  const more = straight.length > 0 && `Cross-attention heads that bring a straight carry together, and how often the digit flips: ${jointly.join(", ")}; measured on pairs that did not choose them.`;
  const exported = () => [["head", "whole", ...Array.from({ length: S }, (_, k) => `position ${k}`)], ...headNames.map((head) => [head, shownEffects()(head).whole, ...shownEffects()(head).positions])];
  put(choices,
    h("div", { class: "row" }, circuit, button("Patch all heads", () => patchHeads(headNames)), button("Patch none", () => { clear(); changed(); })),
    h("div", { class: "row", role: "group", "aria-label": "the map shows" }, h("span", { class: "note" }, "the map shows"), mapPair, mapAll), mapNote);
  put(root,
    h("h2", { id: "carry-title" }, "Carry"), h("p", { class: "finding" }, sentence), h("p", { class: "note" }, more),
    h("p", { class: "note" }, "Two sums differ in a carry. Press cells of the map, drag over several, or use the arrow keys and Enter: there the clean run gets the head's output from the corrupted run. " +
      "Does the digit that the carry goes into flip? The number in a cell: how far this cell alone moves the logit difference, from 0 (clean) to 1 (corrupted)."),
    h("div", { class: "row", role: "group", "aria-label": "examples: carry into the" }, h("span", { class: "note" }, "carry into the"), groups.map(preset)),
    h("div", { class: "row" }, h("label", {}, "clean"), inputs[0], "+", inputs[1], h("label", {}, "corrupted"), inputs[2], "+", inputs[3]),
    problem, result, outcome, choices, grids,
    program.length > 0 && h("details", {}, h("summary", {}, "The program that was read from this model, in words"), h("ol", {}, program.map((line) => h("li", {}, line.replace(/\b(en|de)coder\.\d+\.(self|cross)\.head\d+/g, short))))),
    exports("carry-map", () => mapPicture(exported()), exported));

  const mapPicture = (rows) => s("svg", { viewBox: `0 0 ${150 + 44 * (S + 1)} ${24 + 18 * headNames.length}` }, rows.map(([head, ...values], row) => [
    s("text", { x: 0, y: 14 + 18 * row }, row ? short(head) : head), values.map((value, k) => row === 0 ? s("text", { x: 172 + 44 * k, y: 14, "text-anchor": "middle" }, value.replace("position ", "")) :
      value !== null && value !== undefined && [s("rect", { class: "cell", x: 151 + 44 * k, y: 2 + 18 * row, width: 42, height: 17, "fill-opacity": Math.max(0, Math.min(1, value)).toFixed(3) }),
        s("text", { class: "strong", x: 172 + 44 * k, y: 14 + 18 * row, "text-anchor": "middle" }, value.toFixed(2))])]));

  showPair(); // the address stays as it was opened
})();
