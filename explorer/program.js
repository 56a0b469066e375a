"use strict";
/* The program that was read from the addition model, as a grid that lights up for one sum: what each column tells each
   digit of the answer, and which column decides its carry. */

/** What a column with this sum of two digits tells, by the name of the variable in beyond/program. */
const TELLS = {
  nothing: () => "–",
  "sum > 9": (sum) => (sum > 9 ? "> 9" : "≤ 9"),
  "sum < 9, = 9, > 9": (sum) => (sum === 9 ? "9" : sum > 9 ? "> 9" : "< 9"),
  "last digit of sum": (sum) => String(sum % 10),
  sum: String,
};

/** facts: tells, for each digit of the answer the variable of each column; lines: the program in words. names: those of
    the answer's digits; examples: buttons for sums to try. -> the part of the panel, and draw(run), where a run has sources, targets and answers. */
function programPart({ facts, names, examples }) {
  const columns = names.slice(1);
  const grid = h("div", { class: "scroll" });
  const words = facts.lines;

  /** Carry look-ahead: from the column below on, columns that sum to 9 hand on, and the first other one decides. */
  function carryInto(digit, sums) {
    let at = digit;
    while (at < sums.length - 1 && sums[at] === 9) at += 1;
    return at < sums.length ? { from: at, carry: sums[at] > 9 ? 1 : 0 } : { from: null, carry: 0 };
  }

  function row(digit, sums, answers) {
    const own = digit - 1; // the column whose sum it writes; -1: the first digit is the carry alone
    const { from, carry } = carryInto(digit, sums);
    const kind = (k) => {
      if (k === own) return "own";
      if (k === from) return "decides";
      return digit <= k && k < from ? "hands" : null;
    };
    const parts = [];
    if (own >= 0) parts.push(sums[own] % 10);
    if (from !== null) parts.push(carry);
    const result = parts.reduce((x, y) => x + y) % 10;
    return [
      names[digit],
      ...sums.map((sum, k) => {
        const variable = facts.tells[digit][k];
        const tells = TELLS[variable] || (() => "?");
        return h("span", { class: kind(k), "data-cell": `${names[digit]}-${columns[k]}`, title: variable }, tells(sum));
      }),
      parts.length > 1 ? `${parts.join("+")} → ${result}` : result,
      h("b", { class: answers[digit] === result ? null : "bad" }, answers[digit]),
    ];
  }

  function draw({ sources, answers }) {
    const sums = columns.map((_, k) => sources[k] + sources[columns.length + 1 + k]);
    put(
      grid,
      table([["writes", ...columns, "program", "model"], ...names.map((_, digit) => row(digit, sums, answers))], {
        class: "lights",
      }),
    );
  }

  const element = h(
    "section",
    { id: "program", "aria-labelledby": "program-title", tabindex: -1 },
    h("h3", { id: "program-title" }, "Its program: carry look-ahead"),
    h(
      "p",
      { class: "note" },
      "Each digit asks every column below it: less than 9, 9, or more? ",
      h("span", { class: "decides" }, "This"),
      " column decides the carry, ",
      h("span", { class: "hands" }, "9"),
      " hands it on, ",
      h("span", { class: "own" }, "this"),
      " one is added.",
    ),
    tryIt(examples, " and follow the carry."),
    h(
      "div",
      { class: "sides" },
      grid,
      h(
        "ol",
        { class: "note" },
        words.map((line) => h("li", {}, line)),
      ),
    ),
  );
  return { element, draw };
}
