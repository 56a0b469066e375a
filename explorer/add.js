"use strict";
/* Add: one sum through the encoder and decoder, every head's pattern, and what happens when heads are switched off. */
(() => {
  const facts = FACTS.addition, model = Engine.load(MODELS.addition), { digits, T, S, vocabulary, headNames } = model;
  const root = document.getElementById("add"), worker = background(["addition"]);
  const { lowest, highest, names, isOperand, isUnfinished } = operands(digits), ROWS = facts.rows;
  const means = Object.fromEntries(headNames.map((head) => [head, Engine.numbers(facts.means[head].f32)]));
  const isOff = (text) => text.split(",").every((part) => /:[zm]$/.test(part) && headNames.includes(part.slice(0, -2)));
  const isToken = (text) => /^[st]\d+$/.test(text) && +text.slice(1) < (text[0] === "s" ? S : T);

  // The page opens on a sum with a chain of carries that goes wrong without the head that matters most.
  const worst = headNames.reduce((x, y) => (facts.ablation[y].zero < facts.ablation[x].zero ? y : x));
  const needsWorst = (pair, row) => {
    const { sources, targets } = model.tokens([pair]), hooks = new Engine.Hooks({ [worst]: { value: null } });
    return facts.class_names[facts.classes[row]] === "carry chain" && model.answer(sources, targets, hooks).answers.some((digit, k) => digit !== targets[k]);
  };
  const example = (ROWS.find(needsWorst) || ROWS[0]).map(String);

  const state = {
    a: State.read("a", example[0], isOperand),
    b: State.read("b", example[1], isOperand),
    off: new Map(), // head -> "zero" or "mean"
    held: State.read("hold", null, isToken), // "s3": source token 3; "t0": answer digit 0
    hover: null,
    open: false, // the table of where the chosen token looks
  };
  for (const part of State.read("off", "", isOff).split(",").filter(Boolean)) {
    state.off.set(part.slice(0, -2), part.endsWith("z") ? "zero" : "mean");
  }

  const interventions = () =>
    Object.fromEntries([...state.off].map(([head, kind]) => [head, { value: kind === "mean" ? means[head] : null }]));

  // --- one sum ---------------------------------------------------------------------------------------------------------

  let run = null; // the sum shown: its tokens, answer, logits, patterns

  function compute() {
    const { sources, targets } = model.tokens([[+state.a, +state.b]]), hooks = new Engine.Hooks(interventions(), true);
    const { answers, logits } = model.answer(sources, targets, hooks);
    run = { sources, targets, answers, logits: logits.slice(), patterns: hooks.patterns };
  }

  const sourceText = () => [...run.sources].map((token) => (token === Engine.PLUS ? "+" : String(token)));
  const readText = () => ["start", ...run.answers.slice(0, T - 1)].map(String); // what the decoder reads

  // With their places, as two digits may be the same:
  const answerLabels = () => [...run.answers].map((digit, k) => `${digit} (answer, ${names[k]})`);

  const placeInSource = (k) => (k < digits ? `first, ${names[k + 1]}` : `second, ${names[k - digits]}`);
  const sourceLabels = () => sourceText().map((text, k) => (text === "+" ? text : `${text} (${placeInSource(k)})`));

  function drawAnswer() {
    const right = run.answers.every((digit, k) => digit === run.targets[k]);
    const cards = [...run.answers].map((digit, k) => {
      const share = Engine.probabilities(run.logits, k * vocabulary, vocabulary)[digit];
      const margin = Engine.margin(run.logits, k * vocabulary, vocabulary, digit), wrong = digit !== run.targets[k];
      return h("div", { class: wrong ? "digit wrong" : "digit" }, h("small", {}, names[k]), h("strong", {}, digit),
        h("small", {}, `probability ${share > 0.99999 ? "> 99.999%" : percent(share, 3)}`), h("small", {}, `margin ${signed(margin, 2)}`),
        wrong && h("small", { class: "bad" }, `should be ${run.targets[k]}`));
    });
    put(answer, cards);
    const text = `${state.a} + ${state.b} = ${[...run.answers].join("")}, ${right ? "right" : `wrong: ${[...run.targets].join("")}`}`;
    put(verdict, h("b", { class: right ? "good" : "bad" }, right ? "Right. " : "Wrong. "),
      state.off.size ? `${state.off.size} of ${count(headNames.length, "head")} switched off.` : "All heads on.");
    announce(text, "answer");
  }

  // --- patterns --------------------------------------------------------------------------------------------------------

  const queries = (head) => (head.startsWith("encoder") ? sourceText() : [...run.answers].map(String));
  const keys = (head) => (head.startsWith("decoder") && head.includes(".self") ? readText() : sourceText());
  const queryLabels = (head) => (head.startsWith("encoder") ? sourceLabels() : answerLabels());
  const keyLabels = (head) => (head.startsWith("decoder") && head.includes(".self") ? ["start", ...answerLabels().slice(0, T - 1)] : sourceLabels());

  /** Where a token stands among a head's queries and keys; null where it does not. An answer digit is read as a key one
      position after it is written. */
  function place(head, token) {
    const side = token[0], k = +token.slice(1), encoder = head.startsWith("encoder");
    const query = side === (encoder ? "s" : "t") ? k : null;
    const self = head.startsWith("decoder") && head.includes(".self");
    const key = self ? (side === "t" && k + 1 < T ? k + 1 : null) : side === "s" ? k : null;
    return { query, key };
  }

  function drawPattern(head) {
    const rows = queries(head), columns = keys(head), pattern = run.patterns[head], size = 15, left = 17, top = 15;
    const width = columns.length * size, height = rows.length * size, token = state.hover || state.held;
    const { query, key } = token ? place(head, token) : {};
    const kind = head.startsWith("encoder") ? "s" : "t", queryNames = queryLabels(head), keyNames = keyLabels(head);
    return s("svg", { viewBox: `0 0 ${left + 7 * size + 1} ${top + height + 1}`, role: "img", "data-head": head,
      "aria-label": `attention pattern of ${short(head)}` },
      columns.map((text, j) => s("text", { class: j === key ? "strong" : null, x: left + (j + 0.5) * size, y: 11, "text-anchor": "middle" }, text === "start" ? "›" : text)),
      rows.map((text, i) => [
        s("text", { class: i === query ? "strong" : null, x: left - 5, y: top + (i + 0.5) * size + 4, "text-anchor": "end" }, text),
        columns.map((_, j) => pattern[i * columns.length + j] > 0.005 &&
          s("rect", { class: "cell", x: left + j * size, y: top + i * size, width: size, height: size, "fill-opacity": pattern[i * columns.length + j].toFixed(3) })),
        s("rect", { fill: "transparent", x: left, y: top + i * size, width, height: size, "data-token": kind + i },
          s("title", {}, columns.map((_, j) => `${queryNames[i]} attends to ${keyNames[j]}: ${percent(pattern[i * columns.length + j])}`).join("\n")))]),
      s("rect", { class: "frame", x: left, y: top, width, height }),
      query !== null && query !== undefined && s("rect", { class: "pick", x: left, y: top + query * size, width, height: size }),
      key !== null && key !== undefined && s("rect", { class: "pick", x: left + key * size, y: top, width: size, height }));
  }

  const figures = new Map(); // head -> its figure

  function makeFigure(head) {
    const figure = h("figure", { class: "head" }, button("", () => cycle(head)), h("div"), h("figcaption"));
    figures.set(head, figure);
    return figure;
  }

  function drawPatterns() {
    for (const [head, figure] of figures) {
      const kind = state.off.get(head), [toggle, holder] = figure.children;
      figure.className = `head ${kind || ""}`;
      toggle.textContent = `${short(head)}: ${kind || "on"}`;
      put(holder, drawPattern(head));
    }
    drawTokens();
  }

  /** What each head alone does to this sum: the smallest margin of the right digits with this head off as well. */
  function drawAlone() {
    const smallest = (changes) => {
      const logits = model.forced(run.sources, run.targets, new Engine.Hooks(changes));
      return Math.min(...[...run.targets].map((digit, k) => Engine.margin(logits, k * vocabulary, vocabulary, digit)));
    };
    const off = interventions();
    for (const [head, figure] of figures) {
      const margin = smallest({ ...off, [head]: { value: null } }), already = state.off.has(head);
      put(figure.lastChild, already ? "switched off" : h("span", { class: margin > 0 ? "" : "bad" },
        margin > 0 ? `off: margin ${signed(margin)}` : `off: wrong (${signed(margin)})`));
    }
  }

  // --- tokens and where they look --------------------------------------------------------------------------------------

  function drawTokens() {
    const token = (id, text, label) =>
      button(text, () => hold(id), { "aria-pressed": String(state.held === id), class: state.hover === id ? "near" : null,
        "data-token": id, "aria-label": label });
    const focused = document.activeElement && tokens.contains(document.activeElement) && document.activeElement.dataset.token;
    put(tokens, sourceText().map((text, k) => token(`s${k}`, text, `source token ${k + 1}: ${text}`)), h("i", {}, "="),
      [...run.answers].map((digit, k) => token(`t${k}`, String(digit), `answer digit, ${names[k]}: ${digit}`)));
    if (focused) tokens.querySelector(`[data-token="${focused}"]`).focus();
    const id = state.hover || state.held;
    put(looks, (id ? [looksTable(id)] : [h("p", { class: "note" },
      "Point at a digit, here or in a pattern, to see where it looks (row) and who looks at it (column). A click holds it.")]));
  }

  function looksTable(id) {
    const text = (id[0] === "s" ? sourceLabels() : answerLabels())[+id.slice(1)];
    const top = (entries) => entries.sort((x, y) => y[1] - x[1]).slice(0, 2).map(([name, share]) => `${name} ${percent(share, 0)}`).join(", ");
    const rows = headNames.flatMap((head) => {
      const { query, key } = place(head, id), Q = queryLabels(head), K = keyLabels(head), pattern = run.patterns[head];
      const to = query === null ? "–" : top(K.map((name, j) => [name, pattern[query * K.length + j]]));
      const from = key === null ? "–" : top(Q.map((name, i) => [name, pattern[i * K.length + key]]));
      return query === null && key === null ? [] : [[short(head), to, from]];
    });
    return h("details", { open: state.open, ontoggle: (event) => (state.open = event.target.open) }, h("summary", {}, `“${text}”: where it looks and who looks at it, in numbers`),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "attention of the chosen digit" },
        table([["head", "looks at", "looked at by"], ...rows])));
  }

  function hold(id) {
    state.held = state.held === id ? null : id;
    State.write({ hold: state.held });
    drawPatterns();
  }

  // --- accuracy and pruning ---------------------------------------------------------------------------------------------

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
      return evaluate({}, () => {}, (right) => {
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
    const now = byClass(right), before = byClass(baseline || []), part = right.length < ROWS.length;
    const share = ([ok, n]) => (n ? percent(ok / n) : "…");
    put(accuracy, table([["sums", "all heads on", part ? `now (${right.length} so far)` : "now"],
      ...["all", ...facts.class_names].map((name, k) => [`${name} (${k ? facts.classes.filter((c) => c === k - 1).length : ROWS.length})`,
        share(before[k]), h("span", { class: baseline && now[k][1] && now[k][0] / now[k][1] < before[k][0] / before[k][1] ? "bad" : "" }, share(now[k]))])]));
  }

  const { order, exact_match } = facts.pruning;

  function drawCurve() {
    const on = order.findIndex((head) => state.off.get(head) !== "zero"), off = on < 0 ? order.length : on; // in this order
    const others = state.off.size - off;
    slider.value = off;
    steps.textContent = (off ? `${count(off, "head")} off, the last ${short(order[off - 1])}` : "no head off in this order") +
      (others ? `, and ${count(others, "other")} off` : "");
    put(curve, curvePicture(others ? null : off));
  }

  const curvePicture = (removed) =>
    chart({ lines: [{ name: "exact match", kind: "one", points: exact_match.map((share, k) => [k, share]) }],
      across: (k) => k / order.length, ticks: [0, 4, 8, 12, 16, 20, 24].filter((k) => k <= order.length), xlabel: "heads removed, in greedy order", ylabel: "",
      label: "Exact match on the test rows against the number of heads removed", mark: removed === null ? null : [removed, exact_match[removed]] });

  let playing = null;

  function prune(removed) {
    setOff(new Map(order.slice(0, removed).map((head) => [head, "zero"])));
  }

  function play() {
    clearInterval(playing);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const last = exact_match.findLastIndex((share) => share >= 0.5) + 1;
    if (calm) return prune(last);
    let removed = 0;
    playing = setInterval(() => {
      prune(removed);
      if (removed++ >= last) clearInterval(playing);
    }, 700);
  }

  // --- changes ----------------------------------------------------------------------------------------------------------

  function cycle(head) {
    clearInterval(playing);
    const off = new Map(state.off), next = { undefined: "zero", zero: "mean" }[off.get(head)];
    if (next) off.set(head, next);
    else off.delete(head);
    setOff(off);
    announce(`${short(head)} ${next ? `${next} ablated` : "on"}`, "head");
  }

  function setOff(off) {
    state.off = off;
    State.write({ off: [...off].map(([head, kind]) => `${head}:${kind[0]}`).join(",") });
    drawAll();
    measure();
  }

  let later = null;

  function drawAll() {
    compute();
    drawAnswer();
    drawPatterns();
    drawCurve();
    clearTimeout(later);
    later = setTimeout(drawAlone, 30); // after the answer has been shown
  }

  function sentence(wrong) {
    if (wrong === undefined) return "";
    if (wrong === "") return `Type two numbers of ${digits} digits.`;
    const more = /^\d+$/.test(wrong) && wrong.length > digits ? ": for longer ones there is “Any length” below" : "";
    return `This model adds numbers of exactly ${digits} digits, ${lowest} to ${highest}, not “${wrong.slice(0, 20)}”${more}.`;
  }

  function changeSum(event) {
    const wrong = [inputA.value.trim(), inputB.value.trim()].filter((text) => !isOperand(text));
    refuse(problem, [results], sentence(wrong[0]), event?.type === "input" && wrong.every(isUnfinished));
    if (wrong.length || event?.type === "change") return; // what is right has been shown at its last input
    [state.a, state.b] = [inputA.value.trim(), inputB.value.trim()];
    State.write({ a: state.a, b: state.b });
    drawAll();
  }

  const input = (label, value) => h("input", { class: "number", value, inputmode: "numeric", "aria-label": label, oninput: changeSum, onchange: changeSum, autocomplete: "off" });
  const inputA = input("first number", state.a), inputB = input("second number", state.b);
  const problem = h("p", { class: "problem", role: "alert" }), answer = h("div", { class: "answer" }), verdict = h("p");
  const tokens = h("div", { class: "tokens", role: "group", "aria-label": "digits of the sum" }), looks = h("div");
  const accuracy = h("div", { class: "accuracy" }), curve = h("div"), steps = h("span", { class: "note" });
  const slider = h("input", { type: "range", min: 0, max: order.length, value: 0, "aria-label": "heads removed in greedy order",
    oninput: () => { clearInterval(playing); prune(+slider.value); } });
  const results = h("div"), preset = (a, b) => button(`${a} + ${b}`, () => { [inputA.value, inputB.value] = [a, b]; changeSum(); });
  const headGroup = (title, text, test) => [h("h3", {}, title), h("p", { class: "note" }, text), h("div", { class: "heads" }, headNames.filter(test).map(makeFigure))];

  const free = exact_match.findLastIndex((share) => share >= 0.99), { verification } = facts;
  put(results, answer, verdict, tokens, looks,
    headGroup("Encoder: the digits of the question look at each other", "E0.1: encoder, layer 0, head 1. Rows look at columns. A button cycles its head: on, zero (output set to 0), mean (its mean over the test sums). Below: the smallest margin of this sum with that head off.", (head) => head.startsWith("encoder")),
    headGroup("Decoder, cross-attention: each digit of the answer looks at the question", "D1.cross.2: decoder, layer 1, head 2. Row: the digit being written.", (head) => head.includes(".cross")),
    headGroup("Decoder, self-attention: each digit of the answer looks at those written before", "Column ›: the start token. A digit is read one position after it is written.", (head) => head.startsWith("decoder") && head.includes(".self")),
    exports("attention-patterns", () => s("svg", { viewBox: "0 0 1080 560" }, headNames.map((head, k) => s("g", { transform: `translate(${(k % 8) * 134}, ${Math.floor(k / 8) * 186 + 16})` },
      s("text", { class: "strong", x: 4, y: 0 }, short(head)), s("svg", { viewBox: drawPattern(head).getAttribute("viewBox"), width: 123, height: head.startsWith("encoder") ? 121 : 76, y: 6 }, ...drawPattern(head).childNodes)))),
      () => [["head", "query", "key", "weight"], ...headNames.flatMap((head) => queries(head).flatMap((q, i) => keys(head).map((k, j) => [head, `${i}:${q}`, `${j}:${k}`, run.patterns[head][i * keys(head).length + j]])))]));
  put(root,
    h("h2", { id: "add-title" }, "Add"),
    h("p", { class: "finding" },
      verification.errors === 0 && verification.exhaustive ? ["The model writes ", h("b", {}, `all ${whole(verification.pairs)} sums right`)] : `The model writes ${whole(verification.errors)} of ${whole(verification.pairs)} sums wrong`,
      ". ", h("b", {}, `${free} of its ${headNames.length} heads can be removed`), ` one after another, and ${percent(exact_match[free])} of the test sums stay right. But switch off `,
      h("b", {}, short(worst)), ` alone, and only ${percent(facts.ablation[worst].zero)} are. Try it: its button is below.`),
    h("div", { class: "row" }, inputA, "+", inputB, preset(...example), preset("445", "555"), preset("120", "345"), preset("999", "999")),
    problem, results,
    h("div", { class: "sides" },
      h("div", {}, h("h3", {}, `Accuracy over ${whole(ROWS.length)} test sums`), accuracy, h("div", { class: "row" }, button("All heads on", () => { clearInterval(playing); setOff(new Map()); })),
        exports("accuracy", null, () => [["class", "right", "sums"], ...["all", ...facts.class_names].map((name, k) => [name, ...byClass(lastRight)[k]])])),
      h("div", {}, h("h3", {}, "Prune greedily"), curve, h("div", { class: "row" }, button("Play", play), slider, steps),
        exports("pruning", () => curvePicture(null), () => [["removed", "head", "exact match"], ...exact_match.map((share, k) => [k, k ? order[k - 1] : "", share])]))));

  // Pointing at a row of a pattern, or at a token, shows it everywhere; a click holds it.
  const pointed = (event) => event.target.closest && event.target.closest("[data-token]");
  root.addEventListener("pointerover", (event) => {
    const id = pointed(event) ? pointed(event).dataset.token : null;
    if (event.pointerType === "mouse" && id !== state.hover) {
      state.hover = id;
      for (const head of figures.keys()) figures.get(head).children[1].replaceChildren(drawPattern(head));
      for (const token of tokens.querySelectorAll("button")) token.classList.toggle("near", token.dataset.token === id);
    }
  });
  root.addEventListener("click", (event) => {
    if (pointed(event) && pointed(event).tagName === "rect") hold(pointed(event).dataset.token);
  });

  drawAll();
  measure();
})();
