"use strict";
/* Any length: numbers of thousands of digits, and the proof that covers them all. */
(() => {
  const facts = FACTS.text;
  const model = Engine.load(MODELS.text);
  const root = document.getElementById("length");
  const MOST = 20000;
  const SHORT = 2000;
  const SYMBOLS = [..."0123456789", "+", "=", "␣", "start", "end", "–"];
  const theorem = facts.rounding && facts.rounding.float64;
  const isNumber = (text) => /^\d+$/.test(text) && text.length <= MOST;
  const isShort = (text) => isNumber(text) && text.length <= SHORT; // what an address can hold
  const state = {
    x: State.read("x", "98765432109876543210", isShort),
    y: State.read("y", "1234567890123456790", isShort),
    t: +State.read("t", "3", (text) => /^\d{1,5}$/.test(text)),
  };
  let steps = [];

  /** The sum as at school, in blocks of ten digits */
  function rightSum(a, b) {
    let carry = 0;
    let out = "";
    for (let end = 0; end < Math.max(a.length, b.length) || carry; end += 10) {
      const part = (text) => +text.slice(Math.max(0, text.length - end - 10), Math.max(0, text.length - end)) || 0;
      const total = part(a) + part(b) + carry;
      carry = total >= 1e10 ? 1 : 0;
      out = String(total % 1e10).padStart(10, "0") + out;
    }
    return out.replace(/^0+(?=\d)/, "");
  }

  function sentence(wrong) {
    if (wrong === undefined) return "";
    if (wrong === "") return "Type two whole numbers.";
    if (/^\d+$/.test(wrong)) return `That has ${whole(wrong.length)} digits; this page shows up to ${whole(MOST)}.`;
    return `“${wrong.slice(0, 30)}” is not a whole number: only the digits 0 to 9.`;
  }

  function compute(event) {
    // Long numbers may have line breaks.
    const texts = [inputX.value, inputY.value].map((text) => text.replace(/\s/g, ""));
    const wrong = texts.find((text) => !isNumber(text));
    refuse(problem, [verdict, columns, oneDigit], sentence(wrong), wrong === "" && event?.type === "input");
    if (wrong !== undefined || event?.type === "change") return; // what is right has been shown at its last input
    [state.x, state.y] = texts.map((text) => text.replace(/^0+(?=\d)/, ""));
    State.write({ x: isShort(state.x) ? state.x : null, y: isShort(state.y) ? state.y : null });
    if (isShort(state.x) && isShort(state.y)) State.tooLong.delete("length");
    else State.tooLong.set("length", `numbers of more than ${whole(SHORT)} digits`);
    const started = performance.now();
    steps = model.add(state.x, state.y);
    const ended = steps.at(-1).symbol === Engine.TEXT.END;
    const answer = steps
      .filter(({ symbol }) => symbol < 10)
      .map(({ symbol }) => symbol)
      .reverse()
      .join("");
    const right = ended && answer === rightSum(state.x, state.y);
    const thinnest = Math.min(...steps.map(({ margin }) => margin));
    const size = `${count(answer.length, "digit")} in ${count(steps.length, "step")}`;
    const text = `${right ? "Right" : "Wrong"}: ${size}, smallest margin ${signed(thinnest, 2)}.`;
    put(
      verdict,
      h("b", { class: right ? "good" : "bad" }, text),
      ` (${Math.max(1, Math.round(performance.now() - started))} ms)`,
    );
    announce(text, "sum");
    state.t = Math.min(state.t, steps.length - 1);
    position.max = steps.length - 1;
    drawColumns();
    show(state.t);
  }

  /** Blocks of 60 positions, the highest on top: both operands and the answer, one below the other */
  function drawColumns() {
    const blocks = [];
    for (let start = 0; start < steps.length; start += 60) {
      const part = steps
        .slice(start, start + 60)
        .map((step, k) => ({ ...step, t: start + k }))
        .reverse();
      const line = (side) =>
        h(
          "div",
          { style: "margin:0" },
          part.map(({ context, t }) =>
            h("span", { "data-t": t, "data-row": side }, context[side] < 10 ? context[side] : " "),
          ),
        );
      blocks.unshift(
        h(
          "div",
          {},
          line(0),
          line(1),
          h(
            "div",
            { style: "margin:0;font-weight:700" },
            part.map(({ symbol, t }) =>
              h("span", { "data-t": t, "data-row": 2 }, symbol < 10 ? symbol : symbol === Engine.TEXT.END ? "▸" : "?"),
            ),
          ),
        ),
      );
    }
    put(columns, blocks);
  }

  function show(t, announced = false) {
    state.t = Math.max(0, Math.min(steps.length - 1, t));
    State.write({ t: String(state.t) });
    position.value = state.t;
    const { context, symbol, margin } = steps[state.t];
    const name = (code) => SYMBOLS[code];
    for (const old of columns.querySelectorAll(".here, .seen")) old.className = "";
    for (const [row, back] of [
      [0, 0],
      [1, 0],
      [0, 1],
      [1, 1],
      [2, 1],
      [2, 2],
    ]) {
      const cell = columns.querySelector(`[data-t="${state.t - back}"][data-row="${row}"]`);
      if (cell) cell.className = "seen";
    }
    const here = columns.querySelector(`[data-t="${state.t}"][data-row="2"]`);
    here.className = "here";
    if (announced) columns.scrollTop += here.getBoundingClientRect().top - columns.getBoundingClientRect().top - 100;
    const [a, b, c, d, last, before] = context.map(name);
    put(
      contextTable,
      table(
        [
          ["", state.t ? `position ${state.t - 1}` : "below", `position ${state.t}`],
          ["first number", c, a],
          ["second number", d, b],
          ["answer read", before, last],
          ["writes", "", h("b", {}, name(symbol))],
          ["margin", "", margin.toFixed(4)],
        ],
        { class: "context" },
      ),
    );
    if (announced) {
      announce(
        `position ${state.t} writes ${name(symbol)}, from ${a} and ${b}, below ${c} and ${d}, ` +
          `last written ${last}; margin ${margin.toFixed(2)}`,
        "position",
      );
    }
  }

  const area = (label, value) =>
    h("textarea", { rows: 2, "aria-label": label, oninput: compute, onchange: compute, spellcheck: "false" }, value);
  const proof = proofPart(facts, SYMBOLS);
  const inputX = area("first number, of any length", state.x);
  const inputY = area("second number, of any length", state.y);
  const problem = h("p", { class: "problem", role: "alert" });
  const verdict = h("p");
  const contextTable = h("div");
  const oneDigit = h("div");
  const columns = h("div", {
    class: "columns",
    tabindex: 0,
    role: "group",
    "aria-label": "the sum, position by position: arrow keys move",
    onclick: (event) => event.target.dataset.t && show(+event.target.dataset.t),
    onkeydown: (event) => {
      const step = { ArrowLeft: 1, ArrowRight: -1, ArrowUp: 60, ArrowDown: -60, Home: Infinity, End: -Infinity }[
        event.key
      ];
      if (step) {
        event.preventDefault();
        show(state.t + step, true);
      }
    },
  });
  const position = h("input", {
    type: "number",
    min: 0,
    "aria-label": "position, 0 for the units",
    onchange: () => show(Math.floor(+position.value) || 0, true),
  });

  function draw(digits, chain) {
    const random = Tools.random(digits + (chain ? 7 : 0));
    const digit = () => Math.floor(random() * 10);
    const x = Array.from({ length: digits }, (_, k) => (k ? digit() : 1 + Math.floor(random() * 8)));
    const y = x.map((value, k) => (chain ? 9 - value : k ? digit() : 1 + (digit() % 9)));
    if (chain) x[digits - 1] = Math.max(1, x[digits - 1]);
    if (chain) y[digits - 1] = 10 - x[digits - 1];
    [inputX.value, inputY.value] = [x.join(""), y.join("")];
    compute();
  }

  put(
    oneDigit,
    h("h3", {}, "What one digit was written from"),
    h(
      "div",
      { class: "row" },
      h("label", {}, "position "),
      position,
      button("‹ higher", () => show(state.t + 1, true)),
      button("lower ›", () => show(state.t - 1, true)),
    ),
    contextTable,
    exports("steps", null, () => [
      ["position", "a", "b", "a below", "b below", "last", "before last", "writes", "margin"],
      ...steps.map(({ context, symbol, margin }, t) => [t, ...context.map((c) => SYMBOLS[c]), SYMBOLS[symbol], margin]),
    ]),
  );
  put(
    root,
    h("h2", { id: "length-title" }, "Any length"),
    h(
      "p",
      { class: "finding" },
      "A second model writes a digit from six symbols: two digits of each number and the last two symbols it wrote. " +
        "There are only ",
      h("b", {}, whole(facts.local_contexts)),
      " such ",
      term("local context", "contexts"),
      facts.proven
        ? ", and it is right in every one, by a logit margin of at least "
        : `, and it is wrong in ${whole(facts.failures)} of them; smallest logit margin `,
      h("b", {}, facts.smallest_margin.toFixed(2)),
      facts.proven ? ". So it adds right at every length." : ".",
    ),
    tryIt(proof.button, " and watch all of them being tried on your machine."),
    proof.element,
    inputX,
    inputY,
    h(
      "div",
      { class: "row" },
      [20, 200, 2000].map((n) => button(`${whole(n)} random digits`, () => draw(n, false))),
      button("a carry through 1,000 digits", () => draw(1000, true)),
    ),
    problem,
    verdict,
    columns,
    oneDigit,
    h(
      "p",
      { class: "note" },
      "Every browser computes the same bits: double precision, and an exponential function of the page's own.",
      theorem && theorem.holds && ` No difference of logits is off by more than ${theorem.largest_radius}.`,
    ),
  );
  compute();
})();
