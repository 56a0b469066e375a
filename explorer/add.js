"use strict";
/* Add: one sum through the encoder and decoder, every head's pattern, and what happens when heads are switched off. */
(() => {
  const facts = FACTS.addition;
  const model = Engine.load(MODELS.addition);
  const { digits, T, S, vocabulary, headNames } = model;
  const root = document.getElementById("add");
  const { lowest, highest, names, isOperand, isUnfinished } = operands(digits);
  const ROWS = facts.rows;
  const means = Object.fromEntries(headNames.map((head) => [head, Engine.numbers(facts.means[head].f32)]));
  const isOff = (text) => text.split(",").every((part) => /:[zm]$/.test(part) && headNames.includes(part.slice(0, -2)));
  const isToken = (text) => /^[st]\d+$/.test(text) && +text.slice(1) < (text[0] === "s" ? S : T);

  // The page opens on a sum with a chain of carries that goes wrong without the head that matters most.
  const worst = headNames.reduce((x, y) => (facts.ablation[y].zero < facts.ablation[x].zero ? y : x));
  const needsWorst = (pair, row) => {
    const { sources, targets } = model.tokens([pair]);
    const hooks = new Engine.Hooks({ [worst]: { value: null } });
    return (
      facts.class_names[facts.classes[row]] === "carry chain" &&
      model.answer(sources, targets, hooks).answers.some((digit, k) => digit !== targets[k])
    );
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

  // --- one sum -----------------------------------------------------------------------------------------------------

  let run = null; // the sum shown: its tokens, answer, logits, patterns

  function compute() {
    const { sources, targets } = model.tokens([[+state.a, +state.b]]);
    const hooks = new Engine.Hooks(interventions(), true);
    const { answers, logits } = model.answer(sources, targets, hooks);
    run = { sources, targets, answers, logits: logits.slice(), patterns: hooks.patterns };
  }

  function drawAnswer() {
    const right = run.answers.every((digit, k) => digit === run.targets[k]);
    const cards = [...run.answers].map((digit, k) => {
      const share = Engine.probabilities(run.logits, k * vocabulary, vocabulary)[digit];
      const margin = Engine.margin(run.logits, k * vocabulary, vocabulary, digit);
      const wrong = digit !== run.targets[k];
      return h(
        "div",
        { class: wrong ? "digit wrong" : "digit" },
        h("small", {}, names[k]),
        h("strong", {}, digit),
        h("small", {}, `probability ${share > 0.99999 ? "> 99.999%" : percent(share, 3)}`),
        h("small", {}, `margin ${signed(margin, 2)}`),
        wrong && h("small", { class: "bad" }, `should be ${run.targets[k]}`),
      );
    });
    put(answer, cards);
    const off = state.off.size;
    put(
      verdict,
      h("b", {}, `${state.a} + ${state.b} = ${[...run.answers].join("")} `),
      h("b", { class: right ? "good" : "bad" }, right ? "Right. " : "Wrong. "),
      off ? `${off} of ${count(headNames.length, "head")} switched off.` : "All heads on.",
    );
    allOn.hidden = !off;
    const without = off === 1 && state.off.get(worst) === "zero";
    breakIt.textContent = `Switch ${short(worst)} ${without ? "on again" : "off"}`;
    const judged = right ? "right" : `wrong: ${[...run.targets].join("")}`;
    const text = `${state.a} + ${state.b} = ${[...run.answers].join("")}, ${judged}`;
    announce(text, "answer");
  }

  // --- changes -----------------------------------------------------------------------------------------------------

  function cycle(head) {
    accuracy.stop();
    const off = new Map(state.off);
    const next = { undefined: "zero", zero: "mean" }[off.get(head)];
    if (next) off.set(head, next);
    else off.delete(head);
    setOff(off);
    announce(`${short(head)} ${next ? `${next} ablated` : "on"}`, "head");
  }

  function setOff(off) {
    state.off = off;
    State.write({ off: [...off].map(([head, kind]) => `${head}:${kind[0]}`).join(",") });
    drawAll();
    accuracy.measure();
  }

  let later = null;

  function drawAll() {
    compute();
    drawAnswer();
    program.draw(run);
    patterns.draw();
    accuracy.drawCurve();
    clearTimeout(later);
    later = setTimeout(patterns.drawAlone, 30); // after the answer has been shown
  }

  function sentence(wrong) {
    if (wrong === undefined) return "";
    if (wrong === "") return `Type two numbers of ${digits} digits.`;
    const more = /^\d+$/.test(wrong) && wrong.length > digits ? ": for longer ones there is “Any length” below" : "";
    const not = wrong.slice(0, 20);
    return `This model adds numbers of exactly ${digits} digits, ${lowest} to ${highest}, not “${not}”${more}.`;
  }

  function changeSum(event) {
    const pasted = /^\s*(\d+)\s*\+\s*(\d+)\s*$/.exec(event?.target.value); // a sum pasted into one field
    if (pasted) [inputA.value, inputB.value] = pasted.slice(1);
    const wrong = [inputA.value.trim(), inputB.value.trim()].filter((text) => !isOperand(text));
    refuse(problem, [stage, results], sentence(wrong[0]), event?.type === "input" && wrong.every(isUnfinished));
    if (wrong.length || event?.type === "change") return; // what is right has been shown at its last input
    [state.a, state.b] = [inputA.value.trim(), inputB.value.trim()];
    State.write({ a: state.a, b: state.b });
    drawAll();
  }

  const input = (label, value) =>
    h("input", {
      class: "number",
      value,
      inputmode: "numeric",
      "aria-label": label,
      oninput: changeSum,
      onchange: changeSum,
      onfocus: (event) => event.target.select(),
      autocomplete: "off",
    });
  const inputA = input("first number", state.a);
  const inputB = input("second number", state.b);
  const problem = h("p", { class: "problem", role: "alert" });
  const answer = h("div", { class: "answer" });
  const verdict = h("span");
  const share = h("span");
  const switchTo = (off) => {
    accuracy.stop();
    setOff(off);
  };
  const allOn = button("All heads on", () => switchTo(new Map()));
  const breakIt = button(
    "",
    () => switchTo(new Map(state.off.size === 1 && state.off.get(worst) === "zero" ? [] : [[worst, "zero"]])),
    { class: "main" },
  );
  const stage = h("p", { class: "stage" }, verdict, " Test sums right: ", share, ". ", allOn);
  const patterns = patternsPart({ model, names, root, state, run: () => run, interventions, cycle });
  const accuracy = accuracyPart({ facts, state, interventions, setOff, tell: (text) => put(share, text) });
  const preset = (a, b) =>
    button(`${a} + ${b}`, () => {
      [inputA.value, inputB.value] = [a, b];
      changeSum();
    });
  const program = programPart({ facts: facts.program, names, examples: [preset("445", "555"), preset("347", "159")] });
  const results = h("div");
  const { exact_match } = facts.pruning;
  const free = exact_match.findLastIndex((share) => share >= 0.99);
  const { verification } = facts;
  put(results, h("div", { class: "sides" }, answer, h("div", {}, patterns.tokens)), program.element, patterns.elements);
  put(
    root,
    h("h2", { id: "add-title" }, "Add"),
    h(
      "p",
      { class: "finding" },
      verification.errors === 0 && verification.exhaustive
        ? ["This model adds ", h("b", {}, `all ${whole(verification.pairs)} sums right`)]
        : `This model adds ${whole(verification.errors)} of ${whole(verification.pairs)} sums wrong`,
      `. Of its ${headNames.length} heads `,
      h("b", {}, `${free} can go`),
      `, and ${percent(exact_match[free])} of the test sums stay right; without ${short(worst)} alone, only `,
      h("b", {}, percent(facts.ablation[worst].zero)),
      " do.",
    ),
    tryIt(breakIt, " and watch the answer."),
    h("div", { class: "row" }, inputA, "+", inputB, preset(...example), preset("120", "345"), preset("999", "999")),
    problem,
    stage,
    results,
    accuracy.element,
  );

  drawAll();
  accuracy.measure();
})();
