"use strict";
/* The map of the panel Carry: how far each head, at all positions or at one alone, moves the logit difference. */

/** `state` is the panel's: numbers, patched, map. length(head): its positions; kind(): the kind of pair, if it is of
    one; runs(): the clean and the corrupted run; toggle(head, position, on) switches a cell; changed() draws. */
function carryMap({ model, names, length, state, kind, runs, toggle, changed }) {
  const { T, S, headNames } = model;
  const worker = background(["addition"]);
  const grids = h("div", { class: "sides" });
  const mapNote = h("p", { class: "note" });
  const mapPair = button("this pair", () => setMap("pair"));
  const mapAll = button("mean over all such pairs", () => setMap("all"));
  let effects = {}; // of this pair: head -> {whole, positions}
  const cells = new Map(); // "head@position" -> button

  const shown = () => {
    const group = kind();
    // The mean over all pairs was measured for whole heads alone.
    if (state.map === "all" && group) return (head) => ({ whole: group.moved[head], positions: [] });
    return (head) => effects[head] || { whole: null, positions: [] };
  };

  function drawMap() {
    const group = kind();
    const effect = shown();
    for (const [id, cell] of cells) {
      const [head, position] = id.split("@");
      const { whole, positions } = effect(head);
      const value = position === "all" ? whole : positions[+position];
      const chosen = state.patched.get(head);
      const all = position === "all";
      const on = all ? chosen.size === length(head) : chosen.has(+position);
      const known = value !== null && value !== undefined;
      cell.setAttribute("aria-pressed", String(on));
      cell.style.background =
        known && !on
          ? `color-mix(in srgb, var(--blue) ${Math.round(45 * Math.max(0, Math.min(1, value)))}%, var(--card))`
          : "";
      const text = !known ? "" : Math.abs(value) < 0.005 ? "·" : signed(value, 2);
      put(cell, all && short(head), all ? h("span", {}, text) : text);
      cell.disabled = !all && head.startsWith("decoder") && +position > runs().target; // the target cannot see it
      const where = all
        ? "all positions"
        : head.startsWith("encoder")
          ? `source token ${+position + 1}`
          : `the position that writes the ${names[+position]}`;
      cell.setAttribute(
        "aria-label",
        `${short(head)}, ${where}: ${known ? `moves the logit difference by ${signed(value, 2)}` : "not measured"}`,
      );
    }
    mapPair.setAttribute("aria-pressed", String(state.map === "pair" || !group));
    mapAll.setAttribute("aria-pressed", String(state.map === "all" && Boolean(group)));
    mapAll.disabled = !group;
    mapNote.textContent = group
      ? `This pair is of the kind “carry into the ${group.name}”; ` +
        `the analysis measured whole heads on ${group.pairs} such pairs.`
      : "This pair is of no kind that the analysis has: there one digit of the first number differs, " +
        "and with it one carry, passed on by 9s if at all.";
  }

  let painting = null; // while the pointer is down: whether cells are switched on or off

  function makeGrid(heads, columns) {
    const cell = (head, position) => {
      const made = h("button", { type: "button", "data-cell": `${head}@${position}`, tabindex: -1 });
      cells.set(`${head}@${position}`, made);
      return made;
    };
    const rows = heads.map((head) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, cell(head, "all")),
        columns.map((_, k) => h("td", {}, cell(head, k))),
      ),
    );
    const grid = h(
      "table",
      { class: "grid" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", {}, "head, all positions"),
          columns.map((text) => h("th", { scope: "col" }, text)),
        ),
      ),
      h("tbody", {}, rows),
    );
    grid.querySelector("button").tabIndex = 0;
    grid.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
      const here = event.target.closest("[data-cell]");
      if (!step || !here) return;
      event.preventDefault();
      const table = [...grid.tBodies[0].rows].map((row) => [...row.querySelectorAll("button")]);
      const row = table.findIndex((line) => line.includes(here));
      const column = table[row].indexOf(here);
      const next = (table[row + step[0]] || [])[column + step[1]];
      if (!next || next.disabled) return;
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
    grid.addEventListener(
      "pointerover",
      (event) => painting !== null && event.buttons && paint(event.target.closest("[data-cell]")),
    );
    grid.addEventListener("click", (event) => {
      const here = event.target.closest("[data-cell]");
      if (here && event.detail === 0) {
        // by the keyboard; the pointer has painted already
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
  function makeGrids() {
    const label = (k) => {
      const one = runs().clean.sources[k];
      const other = runs().corrupted.sources[k];
      return one === Engine.PLUS ? "+" : one === other ? String(one) : `${one}→${other}`;
    };
    cells.clear();
    put(
      grids,
      h(
        "div",
        {},
        h("h3", {}, "Decoder: the position that writes a digit"),
        makeGrid(
          headNames.filter((head) => head.startsWith("decoder")),
          names.slice(0, T),
        ),
      ),
      h(
        "div",
        {},
        h("h3", {}, "Encoder: a position in the question"),
        makeGrid(
          headNames.filter((head) => head.startsWith("encoder")),
          [...runs().clean.sources].map((_, k) => label(k)),
        ),
      ),
    );
  }

  /** For a new pair: empty grids, then what each cell does. */
  function restart() {
    effects = {};
    makeGrids();
    drawMap();
    const numbers = state.numbers.map(Number);
    worker.start(
      { task: "patching", clean: numbers.slice(0, 2), corrupted: numbers.slice(2), target: runs().target },
      (found) => (effects[found.head] = found),
      drawMap,
    );
  }

  function setMap(map) {
    state.map = map;
    State.write({ map });
    drawMap();
    announce(`the map shows ${map === "pair" ? "this pair" : "the mean over all such pairs"}`, "map");
  }

  const rows = () => [
    ["head", "whole", ...Array.from({ length: S }, (_, k) => `position ${k}`)],
    ...headNames.map((head) => [head, shown()(head).whole, ...shown()(head).positions]),
  ];

  const picture = () =>
    s(
      "svg",
      { viewBox: `0 0 ${150 + 44 * (S + 1)} ${24 + 18 * headNames.length}` },
      rows().map(([head, ...values], row) => [
        s("text", { x: 0, y: 14 + 18 * row }, row ? short(head) : head),
        values.map((value, k) =>
          row === 0
            ? s("text", { x: 172 + 44 * k, y: 14, "text-anchor": "middle" }, value.replace("position ", ""))
            : value !== null &&
              value !== undefined && [
                s("rect", {
                  class: "cell",
                  x: 151 + 44 * k,
                  y: 2 + 18 * row,
                  width: 42,
                  height: 17,
                  "fill-opacity": Math.max(0, Math.min(1, value)).toFixed(3),
                }),
                s(
                  "text",
                  { class: "strong", x: 172 + 44 * k, y: 14 + 18 * row, "text-anchor": "middle" },
                  value.toFixed(2),
                ),
              ],
        ),
      ]),
    );

  const choice = [
    h(
      "div",
      { class: "row", role: "group", "aria-label": "the map shows" },
      h("span", { class: "note" }, "the map shows"),
      mapPair,
      mapAll,
    ),
    mapNote,
  ];
  return { grids, choice, draw: drawMap, restart, rows, picture };
}
