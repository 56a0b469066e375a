"use strict";
/* Sorted?: one sequence, and what every position scheme says of it. */
(() => {
  const facts = FACTS.sorting;
  const root = document.getElementById("sorted");
  const TRAINED = Object.keys(facts.rounded);
  const worker = background(TRAINED);
  const LONGEST = 1024;
  const SHORT = 300; // SHORT: what an address can hold
  const PROTOCOLS = { course: "as in the course", strict: "strict: maximum instead of mean, harder rows" };
  const parse = (text) =>
    text
      .trim()
      .split(/[\s,;]+/)
      .filter(Boolean);
  const fits = (text) =>
    parse(text).length >= 2 && parse(text).length <= LONGEST && parse(text).every((value) => /^\d{1,2}$/.test(value));
  const inOrder = (n, seed) => Tools.sampleSequence(Tools.random(seed), n, "none");

  let seed = 1;
  const state = {
    values: parse(State.read("values", inOrder(32, seed).join(","), fits)).map(Number),
    protocol: State.read("protocol", "course", (text) => Object.hasOwn(PROTOCOLS, text)),
    disorder: State.read("disorder", "swaps", (text) => Object.hasOwn(DISORDERS, text)),
    scheme: State.read("scheme", "course/alibi", (text) => Object.hasOwn(facts.committed, text)),
  };

  // --- one sequence ------------------------------------------------------------------------------------------------

  let found = {};
  let other = null; // the same values in the other order; null: all are equal
  const shown = () => TRAINED.filter((name) => name.startsWith(state.protocol));
  const label = (name) => name.split("/")[1].replaceAll("_", " ");

  function classify() {
    found = {};
    drawPicture();
    State.write({ values: state.values.length <= SHORT ? state.values.join(",") : null });
    if (state.values.length <= SHORT) State.tooLong.delete("sorted");
    else State.tooLong.set("sorted", `sequences of more than ${SHORT} values`);
    other = Tools.counterpart(state.values);
    press(sizeButtons, String(state.values.length));
    worker.start(
      { task: "classify", names: shown(), tokens: state.values, other },
      (result) => {
        found[result.name] = result;
        drawVerdicts();
      },
      () =>
        announce(
          `${state.values.length} values, ${truthOf(state.values)}; ` +
            `right: ${shown().filter(isRight).map(label).join(", ") || "no scheme"}`,
          "sequence",
        ),
    );
    drawVerdicts();
  }

  const says = (logits) => (logits[1] > logits[0] ? "sorted" : "not sorted");
  const truthOf = (values) => (Tools.isSorted(values) ? "sorted" : "not sorted");

  const otherOrder = () => (Tools.isSorted(state.values) ? "out of order" : "in order");

  /** A model that says the same of these values in order and out of order is not right about either. */
  function verdict(name) {
    const { logits, other: otherLogits } = found[name];
    const right = says(logits) === truthOf(state.values);
    if (other && says(logits) === says(otherLogits)) return ["bad", "✗ same answer to both"];
    return right ? ["good", "✓ right"] : ["bad", "✗ wrong"];
  }

  const isRight = (name) => found[name] && verdict(name)[0] === "good";

  /** The vote of each position: above the line for "sorted" */
  function sparkline(votes) {
    const n = votes.length / 2;
    const differences = Array.from({ length: n }, (_, i) => votes[2 * i + 1] - votes[2 * i]);
    const top = Math.max(...differences.map(Math.abs));
    const wide = 176 / n;
    return s(
      "svg",
      {
        viewBox: "0 0 176 26",
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${differences.filter((x) => x > 0).length} of ${n} positions vote for sorted`,
      },
      differences.map((x, i) =>
        s("rect", {
          class: x > 0 ? "bar" : "bar two",
          x: i * wide,
          width: Math.max(wide * 0.9, 0.3),
          y: x > 0 ? 13 - (12 * x) / top : 13,
          height: Math.max(0.4, (12 * Math.abs(x)) / top),
        }),
      ),
      s("line", { class: "axis", x1: 0, x2: 176, y1: 13, y2: 13, "stroke-width": 0.5 }),
    );
  }

  function drawVerdicts() {
    const rows = shown().map((name) => {
      const result = found[name];
      const choose = button(label(name), () => chooseScheme(name), { "aria-pressed": String(state.scheme === name) });
      if (!result) return [choose, "…", "", "", "", "", ""];
      const margin = result.logits[1] - result.logits[0];
      const [kind, words] = verdict(name);
      const best = Object.entries(result.neighbours)
        .flatMap(([head, shares]) => [
          [head, "before", shares[0]],
          [head, "after", shares[2]],
        ])
        .reduce((x, y) => (y[2] > x[2] ? y : x));
      return [
        choose,
        says(result.logits),
        other ? says(result.other) : "–",
        h("span", { class: kind }, words),
        signed(margin, 2),
        sparkline(result.votes),
        `${percent(best[2], 0)} to the one ${best[1]} (${short(best[0])})`,
      ];
    });
    const right = shown().filter(isRight).length;
    const tell = other ? `tell these values from the same ones ${otherOrder()}` : "are right";
    const done = shown().every((name) => found[name]);
    told.textContent = done ? `${right} of ${count(shown().length, "scheme")} ${tell}.` : "…";
    const focused = verdicts.contains(document.activeElement) && document.activeElement.textContent;
    put(
      verdicts,
      table(
        [
          [
            term("position scheme"),
            "says",
            `of the same values ${otherOrder()}`,
            "",
            "logit margin",
            "votes by position: up for sorted",
            "most attention to a neighbour",
          ],
          ...rows,
        ],
        { class: "verdicts" },
      ),
    );
    if (focused) [...verdicts.querySelectorAll("button")].find((b) => b.textContent === focused)?.focus();
  }

  function drawPicture() {
    const { values } = state;
    const n = values.length;
    const X = (i) => 8 + (624 * (i + 0.5)) / n;
    const Y = (v) => 96 - 0.88 * v;
    const size = Math.max(1, Math.min(4, 220 / n));
    const down = values.map((value, i) => i > 0 && values[i - 1] > value);
    const steps = down.filter(Boolean).length;
    put(
      picture,
      s(
        "svg",
        {
          viewBox: "0 0 640 100",
          class: "chart",
          role: "img",
          "aria-label": `${n} values, ${count(steps, "step")} down`,
        },
        down.map(
          (step, i) =>
            step && s("line", { class: "line two", x1: X(i - 1), x2: X(i), y1: Y(values[i - 1]), y2: Y(values[i]) }),
        ),
        values.map((value, i) =>
          s("circle", {
            class: down[i] ? "two" : "one",
            cx: X(i),
            cy: Y(value),
            r: down[i] ? Math.max(3, size) : size,
          }),
        ),
      ),
    );
    put(
      truth,
      h("b", {}, `${n} values, ${steps ? "not sorted" : "sorted"}`),
      steps ? `: ${count(steps, "step")} down. ` : ": no step down. ",
      told,
    );
  }

  function change(values) {
    state.values = values;
    input.value = values.join(" ");
    refuse(problem, results, "");
    classify();
  }

  function sentence(values) {
    const odd = values.find((value) => !/^\d{1,2}$/.test(value));
    if (odd !== undefined) return `“${odd.slice(0, 20)}” is not a whole number from 0 to 99.`;
    if (values.length < 2) return "Type at least two numbers from 0 to 99.";
    return values.length > LONGEST
      ? `These are ${whole(values.length)} numbers; this page takes up to ${whole(LONGEST)}.`
      : "";
  }

  function typed(event) {
    const values = parse(input.value);
    const wrong = sentence(values);
    refuse(problem, results, wrong, event.type === "input" && values.length < 2 && /^[\s\d]*$/.test(input.value));
    if (wrong || event.type === "change") return; // what is right has been shown at its last input
    state.values = values.map(Number);
    classify();
  }

  function shuffle() {
    const draw = Tools.random(++seed);
    const values = state.values.slice();
    for (let k = values.length - 1; k > 0; k--) {
      const j = Math.floor(draw() * (k + 1));
      [values[k], values[j]] = [values[j], values[k]];
    }
    change(values);
  }

  function swapNeighbours() {
    const swapped = Tools.disordered(Tools.random(++seed), state.values, "neighbours");
    if (swapped.every((value, k) => value === state.values[k])) {
      return refuse(problem, [], "All values are equal, so swapping neighbours changes nothing.");
    }
    change(swapped);
  }

  // --- choices -----------------------------------------------------------------------------------------------------

  function chooseScheme(name) {
    state.scheme = name;
    State.write({ scheme: name });
    drawVerdicts();
    lengths.draw();
    announce(`the curve shows ${label(name)}`, "curve");
  }

  function drawProtocol() {
    press(protocolButtons, state.protocol);
    const inProtocol = Object.keys(facts.committed).filter((name) => name.startsWith(`${state.protocol}/`));
    const lacking = inProtocol.filter((name) => !TRAINED.includes(name)).length;
    protocolNote.textContent = lacking
      ? `Of this protocol ${shown().length} model is in this page; of ${lacking} others only the committed accuracy is.`
      : "";
  }

  function setProtocol(protocol) {
    Object.assign(state, { protocol, scheme: TRAINED.find((name) => name.startsWith(protocol)) });
    State.write({ protocol, scheme: state.scheme });
    drawProtocol();
    lengths.reset();
    classify();
  }

  const picture = h("div");
  const truth = h("p", { class: "stage" });
  const told = h("span"); // by how many schemes
  const verdicts = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "what each scheme says" });
  const problem = h("p", { class: "problem", role: "alert" });
  const results = [picture, truth, verdicts];
  const protocolNote = h("p", { class: "note" });
  const input = h(
    "textarea",
    {
      rows: 2,
      "aria-label": "the sequence: numbers from 0 to 99",
      oninput: typed,
      onchange: typed,
      spellcheck: "false",
    },
    state.values.join(" "),
  );
  const sizes = Object.fromEntries([8, 16, 24, 32, 64, 128, 256, LONGEST].map((n) => [n, whole(n)]));
  const sizeButtons = choices(sizes, (n) => change(inOrder(+n, ++seed)));
  const longer = button("256 values in order", () => change(inOrder(256, ++seed)), { class: "main" });
  const protocolButtons = choices(PROTOCOLS, setProtocol);
  const lengths = lengthsPart(facts, state, TRAINED, shown, label);

  const far = "extrapolation/256";
  const course = TRAINED.filter((name) => name.startsWith("course/"));
  const good = course.filter((name) => facts.committed[name][far] >= 0.99);
  const bad = course.filter((name) => facts.committed[name][far] <= 0.6);
  put(
    root,
    h("h2", { id: "sorted-title" }, "Sorted?"),
    h(
      "p",
      { class: "finding" },
      "Trained on 8 to 16 values, ",
      h("b", {}, `${good.length} of ${course.length} position schemes`),
      ` are right in at least 99% of the test rows of 256 (${good.map(label).join(", ")}), `,
      h("b", {}, `${bad.length} in at most 60%`),
      ` (${bad.map(label).join(", ")}).`,
    ),
    tryIt(longer, " and see who still tells them from the same values out of order."),
    input,
    h(
      "div",
      { class: "row" },
      button("Sort", () => change(state.values.slice().sort((a, b) => a - b))),
      button("Shuffle", shuffle),
      button("Swap two neighbours", swapNeighbours),
    ),
    h(
      "div",
      { class: "row", role: "group", "aria-label": "values in order, of length" },
      h("span", { class: "note" }, "in order, of length"),
      Object.values(sizeButtons),
    ),
    problem,
    picture,
    truth,
    h(
      "div",
      { class: "row", role: "group", "aria-label": "how the models were trained" },
      h("span", { class: "note" }, "trained"),
      Object.values(protocolButtons),
    ),
    protocolNote,
    verdicts,
    exports("verdicts", null, () => [
      ["scheme", "says", "says of the same values sorted or out of order", "logit margin"],
      ...shown()
        .filter((name) => found[name])
        .map((name) => [
          name,
          says(found[name].logits),
          other ? says(found[name].other) : "",
          found[name].logits[1] - found[name].logits[0],
        ]),
    ]),
    lengths.elements,
  );
  drawProtocol();
  lengths.draw();
  classify();
})();
