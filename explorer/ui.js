"use strict";
/* What all panels use: elements, the state in the address, messages, background work, and export. */

const MODELS = JSON.parse(document.getElementById("models").textContent);
const FACTS = JSON.parse(document.getElementById("facts").textContent);
const SOURCE = document.documentElement.outerHTML; // before any panel has drawn: what "save" writes

// --- elements ------------------------------------------------------------------------------------------------------

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** h("p", {class: "finding"}, "text", h("b", {}, "more")) */
const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/** The same for SVG */
const s = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

/** The element with other children */
const put = (element, ...children) => {
  element.replaceChildren();
  return fill(element, {}, children);
};

const button = (text, onclick, attributes = {}) => h("button", { type: "button", onclick, ...attributes }, text);

/** Shows which button of {key: button} is chosen. */
function press(buttons, chosen) {
  for (const [key, made] of Object.entries(buttons)) made.setAttribute("aria-pressed", String(key === chosen));
}

/** {key: text} -> {key: a button that calls set(key)} */
const choices = (options, set) =>
  Object.fromEntries(Object.entries(options).map(([key, text]) => [key, button(text, () => set(key))]));

/** A table from rows of cells; the first row and each first cell are headers. */
function table(rows, attributes = {}) {
  const cells = (row, n) =>
    row.map((cell, k) =>
      h(n === 0 || k === 0 ? "th" : "td", { scope: n === 0 ? "col" : k === 0 ? "row" : null }, cell),
    );
  const [head, ...body] = rows.map((row, n) => h("tr", {}, cells(row, n)));
  return h("table", attributes, h("thead", {}, head), h("tbody", {}, body));
}

const percent = (share, digits = 1) => (share === 1 ? "100%" : `${(100 * share).toFixed(digits)}%`);
const signed = (x, digits = 1) => (x < 0 ? "−" : "") + Math.abs(x).toFixed(digits);
const whole = (n) => n.toLocaleString("en-US");
const count = (n, thing) => `${whole(n)} ${thing}${n === 1 ? "" : "s"}`;

/** As the report writes heads: "encoder.1.self.head3" -> "E1.3", "decoder.1.cross.head3" -> "D1.cross.3" */
function short(head) {
  const [side, layer, module, number] = head.replace("head", "").split(".");
  return `${side[0].toUpperCase()}${layer}.${side === "encoder" ? "" : `${module}.`}${number}`;
}

/** One sentence on what to try, with the button that does it */
const tryIt = (...children) => h("p", { class: "try" }, h("b", {}, "Try: "), children);

// --- words ---------------------------------------------------------------------------------------------------------

const WORDS = {
  head: "A part of an attention layer. It looks at some tokens and adds what it finds there to the token that looks.",
  margin: "How far the logit of the right digit stands above the best other one. Below 0, the digit is wrong.",
  ablation: "Zero: the head's output is set to 0. Mean: to its mean over the test sums.",
  patch: "A head's output is replaced by what the same head gave in another run; all else stays as it is.",
  "logit difference": "Of the digit: the logit of the corrupted sum's digit minus that of the clean sum's.",
  "local context": "All that the model sees for one digit: two digits of each number and the last two symbols written.",
  "position scheme": "How a model is told where in the sequence a token stands.",
  wave: "A pair of dimensions of the position code: sine and cosine of the position at one frequency.",
};
let terms = 0;

/** A word of the field; pressed, it tells what it means. */
function term(word, text = word) {
  const id = `word-${++terms}`;
  return [
    h("button", { type: "button", class: "term", popovertarget: id }, text),
    h("span", { id, popover: "auto", class: "meaning" }, h("b", {}, word), h("br"), WORDS[word]),
  ];
}

// --- messages ------------------------------------------------------------------------------------------------------

const news = new Map(); // topic -> what has changed there

/** Tells a screen reader what has changed; of quick changes of one topic only the last. */
function announce(text, topic = "") {
  if (!news.size) {
    setTimeout(() => {
      document.getElementById("status").textContent = [...news.values()].join(". ");
      news.clear();
    }, 300);
  }
  news.set(topic, text);
}

/** One sentence about something the reader can put right; an empty text takes it away. */
function complain(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** What was typed cannot be used: says so, and puts the results of what stood there before out of reach. While a field
    is being typed in, what is merely unfinished gets no sentence yet. An empty sentence: all is well. */
function refuse(element, results, sentence, unfinished = false) {
  complain(element, unfinished ? "" : sentence);
  for (const result of results) result.inert = sentence !== "";
}

/** What the panels Add and Carry ask of a number, and the names of the answer's digits */
function operands(digits) {
  const names = Array.from(
    { length: digits + 1 },
    (_, k) => ["ones", "tens", "hundreds", "thousands"][digits - k] || `10^${digits - k}`,
  );
  return {
    names,
    lowest: 10 ** (digits - 1),
    highest: 10 ** digits - 1,
    isOperand: (text) => /^[1-9]\d*$/.test(text) && text.length === digits,
    isUnfinished: (text) => /^\d*$/.test(text) && text.length < digits,
  };
}

// --- the state in the address --------------------------------------------------------------------------------------

const PANELS = [...document.querySelectorAll("nav [data-jump]")].map((link) => link.dataset.jump);
const ADDRESS = location.hash.slice(1) || document.documentElement.dataset.state || "";

const State = {
  values: new URLSearchParams(PANELS.includes(ADDRESS) ? `at=${ADDRESS}` : ADDRESS),
  problems: [],
  known: new Set(), // keys that some panel reads
  tooLong: new Map(), // panel -> what a link leaves out

  /** The value of a key if it `fits`, else `otherwise`; what does not fit is named on top of the page. */
  read(key, otherwise, fits) {
    this.known.add(key);
    const value = this.values.get(key);
    if (value === null) return otherwise;
    if (fits(value)) return value;
    this.values.delete(key);
    this.problems.push(`“${key}=${value.slice(0, 40)}”`);
    return otherwise;
  },

  /** null or "" removes a key. */
  write(changes) {
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "") this.values.delete(key);
      else this.values.set(key, value);
    }
    const text = this.values.toString();
    document.documentElement.dataset.state = text; // a saved page opens where it was
    history.replaceState(null, "", "#" + text);
  },
};

// --- work beside the page ------------------------------------------------------------------------------------------

/** A worker with some of the models. start(task, message, end): a newer task ends the one before. */
function background(names) {
  const code = ["engine", "tools", "worker"].map((id) => document.getElementById(id).textContent).join("\n");
  let worker = null;
  let job = 0;
  return {
    start(task, message, end = () => {}) {
      job += 1;
      if (!worker) {
        worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
        task = { ...task, load: Object.fromEntries(names.map((name) => [name, MODELS[name]])) };
      }
      worker.onmessage = ({ data }) => {
        if (data.job !== job) return;
        if (data.value !== undefined) message(data.value);
        if (data.done) end();
      };
      worker.postMessage({ ...task, job });
    },
    stop() {
      job += 1;
      if (worker) worker.postMessage({ job });
    },
  };
}

// --- export --------------------------------------------------------------------------------------------------------

function download(name, text, type) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A picture as a file of its own: the page's rules for pictures go with it, in the colours of now. */
function standalone(picture) {
  const copy = picture.cloneNode(true);
  const styles = getComputedStyle(document.documentElement);
  const rules = document.querySelector("style").textContent.split("/* pictures */")[1];
  const text = rules.replace(/var\((--[a-z-]+)\)/g, (_, name) => styles.getPropertyValue(name).trim());
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.prepend(s("style", {}, text));
  return new XMLSerializer().serializeToString(copy);
}

const csv = (rows) =>
  rows
    .map((row) => row.map((cell) => (/[",\n]/.test(cell) ? JSON.stringify(String(cell)) : cell)).join(","))
    .join("\n") + "\n";

/** Buttons that write a picture (made anew when asked for) and its numbers. */
function exports(name, picture, rows) {
  const label = `of ${name.replaceAll("-", " ")}`;
  return h(
    "p",
    { class: "exports" },
    picture &&
      button("SVG", () => download(`${name}.svg`, standalone(picture()), "image/svg+xml"), {
        "aria-label": `SVG ${label}`,
      }),
    button("CSV", () => download(`${name}.csv`, csv(rows()), "text/csv"), { "aria-label": `CSV ${label}` }),
  );
}

// --- a chart of lines ----------------------------------------------------------------------------------------------

/** lines: [{name, points: [[x, y], …], kind}], y from 0 to 1. x is drawn by `across` (0 to 1). */
function chart({ lines, across, ticks, xlabel, label, mark }) {
  const W = 560;
  const H = 240;
  const left = 54;
  const top = 26;
  const width = W - left - 20;
  const height = H - top - 38;
  const X = (x) => left + width * across(x);
  const Y = (y) => top + height * (1 - y);
  const named = lines.filter((line) => line.points.length && line.name); // at most two: their names stand above
  return s(
    "svg",
    { viewBox: `0 0 ${W} ${H}`, class: "chart", role: "img", "aria-label": label },
    [0, 0.25, 0.5, 0.75, 1].map((y) => [
      s("line", { class: "grid", x1: left, x2: left + width, y1: Y(y), y2: Y(y) }),
      s("text", { class: "tick", x: left - 6, y: Y(y) + 4, "text-anchor": "end" }, `${100 * y}%`),
    ]),
    ticks.map((x) => s("text", { class: "tick", x: X(x), y: H - 22, "text-anchor": "middle" }, x)),
    s("text", { class: "tick", x: left + width / 2, y: H - 5, "text-anchor": "middle" }, xlabel),
    lines.map((line) => [
      s("polyline", { class: `line ${line.kind}`, points: line.points.map(([x, y]) => `${X(x)},${Y(y)}`).join(" ") }),
      line.kind.includes("dots") &&
        line.points.map(([x, y]) => s("circle", { class: line.kind, cx: X(x), cy: Y(y), r: 3 })),
    ]),
    named.map((line, k) =>
      s(
        "text",
        { class: `name ${line.kind}`, x: k ? left + width : left, y: 13, "text-anchor": k ? "end" : "start" },
        line.name,
      ),
    ),
    mark && s("circle", { class: "mark", cx: X(mark[0]), cy: Y(mark[1]), r: 5 }),
  );
}
