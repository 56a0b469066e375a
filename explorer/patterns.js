"use strict";
/* Where the heads of the addition model look: a picture for each head, and in numbers for one token. */

/** `state` is the panel's: off, held, hover, open. run(): the sum shown, with its answer and patterns; interventions():
    what the heads that are off give; cycle(head) switches one. `root` is listened to for a token that is pointed at. */
function patternsPart({ model, names, root, state, run, interventions, cycle }) {
  const { digits, T, vocabulary, headNames } = model;
  const tokens = h("div", { class: "tokens", role: "group", "aria-label": "digits of the sum" });
  const looks = h("div");

  // --- the tokens in words -----------------------------------------------------------------------------------------

  const sourceText = () => [...run().sources].map((token) => (token === Engine.PLUS ? "+" : String(token)));
  const readText = () => ["start", ...run().answers.slice(0, T - 1)].map(String); // what the decoder reads

  // With their places, as two digits may be the same:
  const answerLabels = () => [...run().answers].map((digit, k) => `${digit} (answer, ${names[k]})`);

  const placeInSource = (k) => (k < digits ? `first, ${names[k + 1]}` : `second, ${names[k - digits]}`);
  const sourceLabels = () => sourceText().map((text, k) => (text === "+" ? text : `${text} (${placeInSource(k)})`));

  const queries = (head) => (head.startsWith("encoder") ? sourceText() : [...run().answers].map(String));
  const keys = (head) => (head.startsWith("decoder") && head.includes(".self") ? readText() : sourceText());
  const queryLabels = (head) => (head.startsWith("encoder") ? sourceLabels() : answerLabels());
  const keyLabels = (head) =>
    head.startsWith("decoder") && head.includes(".self")
      ? ["start", ...answerLabels().slice(0, T - 1)]
      : sourceLabels();

  /** Where a token stands among a head's queries and keys; null where it does not. An answer digit is read as a key one
      position after it is written. */
  function place(head, token) {
    const side = token[0];
    const k = +token.slice(1);
    const encoder = head.startsWith("encoder");
    const query = side === (encoder ? "s" : "t") ? k : null;
    const self = head.startsWith("decoder") && head.includes(".self");
    const key = self ? (side === "t" && k + 1 < T ? k + 1 : null) : side === "s" ? k : null;
    return { query, key };
  }

  function drawPattern(head) {
    const rows = queries(head);
    const columns = keys(head);
    const pattern = run().patterns[head];
    const size = 15;
    const left = 17;
    const top = 15;
    const width = columns.length * size;
    const height = rows.length * size;
    const token = state.hover || state.held;
    const { query, key } = token ? place(head, token) : {};
    const kind = head.startsWith("encoder") ? "s" : "t";
    const queryNames = queryLabels(head);
    const keyNames = keyLabels(head);
    return s(
      "svg",
      {
        viewBox: `0 0 ${left + 7 * size + 1} ${top + height + 1}`,
        role: "img",
        "data-head": head,
        "aria-label": `attention pattern of ${short(head)}`,
      },
      columns.map((text, j) =>
        s(
          "text",
          { class: j === key ? "strong" : null, x: left + (j + 0.5) * size, y: 11, "text-anchor": "middle" },
          text === "start" ? "›" : text,
        ),
      ),
      rows.map((text, i) => [
        s(
          "text",
          { class: i === query ? "strong" : null, x: left - 5, y: top + (i + 0.5) * size + 4, "text-anchor": "end" },
          text,
        ),
        columns.map(
          (_, j) =>
            pattern[i * columns.length + j] > 0.005 &&
            s("rect", {
              class: "cell",
              x: left + j * size,
              y: top + i * size,
              width: size,
              height: size,
              "fill-opacity": pattern[i * columns.length + j].toFixed(3),
            }),
        ),
        s(
          "rect",
          { fill: "transparent", x: left, y: top + i * size, width, height: size, "data-token": kind + i },
          s(
            "title",
            {},
            columns
              .map((_, j) => `${queryNames[i]} attends to ${keyNames[j]}: ${percent(pattern[i * columns.length + j])}`)
              .join("\n"),
          ),
        ),
      ]),
      s("rect", { class: "frame", x: left, y: top, width, height }),
      query !== null &&
        query !== undefined &&
        s("rect", { class: "pick", x: left, y: top + query * size, width, height: size }),
      key !== null &&
        key !== undefined &&
        s("rect", { class: "pick", x: left + key * size, y: top, width: size, height }),
    );
  }

  const figures = new Map(); // head -> its figure

  function makeFigure(head) {
    const figure = h(
      "figure",
      { class: "head" },
      button("", () => cycle(head)),
      h("div"),
      h("figcaption"),
    );
    figures.set(head, figure);
    return figure;
  }

  function draw() {
    for (const [head, figure] of figures) {
      const kind = state.off.get(head);
      const [toggle, holder] = figure.children;
      figure.className = `head ${kind || ""}`;
      toggle.textContent = `${short(head)}: ${kind || "on"}`;
      put(holder, drawPattern(head));
    }
    drawTokens();
  }

  /** What each head alone does to this sum: the smallest margin of the right digits with this head off as well. */
  function drawAlone() {
    const smallest = (changes) => {
      const logits = model.forced(run().sources, run().targets, new Engine.Hooks(changes));
      return Math.min(
        ...[...run().targets].map((digit, k) => Engine.margin(logits, k * vocabulary, vocabulary, digit)),
      );
    };
    const off = interventions();
    for (const [head, figure] of figures) {
      const margin = smallest({ ...off, [head]: { value: null } });
      const already = state.off.has(head);
      put(
        figure.lastChild,
        already
          ? "switched off"
          : h(
              "span",
              { class: margin > 0 ? "" : "bad" },
              margin > 0 ? `off: margin ${signed(margin)}` : `off: wrong (${signed(margin)})`,
            ),
      );
    }
  }

  // --- tokens and where they look ----------------------------------------------------------------------------------

  function drawTokens() {
    const token = (id, text, label) =>
      button(text, () => hold(id), {
        "aria-pressed": String(state.held === id),
        class: state.hover === id ? "near" : null,
        "data-token": id,
        "aria-label": label,
      });
    const focused =
      document.activeElement && tokens.contains(document.activeElement) && document.activeElement.dataset.token;
    put(
      tokens,
      sourceText().map((text, k) => token(`s${k}`, text, `source token ${k + 1}: ${text}`)),
      h("i", {}, "="),
      [...run().answers].map((digit, k) => token(`t${k}`, String(digit), `answer digit, ${names[k]}: ${digit}`)),
    );
    if (focused) tokens.querySelector(`[data-token="${focused}"]`).focus();
    const id = state.hover || state.held;
    put(
      looks,
      id
        ? [looksTable(id)]
        : [h("p", { class: "note" }, "Press a digit to see where it looks (row) and who looks at it (column).")],
    );
  }

  function looksTable(id) {
    const text = (id[0] === "s" ? sourceLabels() : answerLabels())[+id.slice(1)];
    const top = (entries) =>
      entries
        .sort((x, y) => y[1] - x[1])
        .slice(0, 2)
        .map(([name, share]) => `${name} ${percent(share, 0)}`)
        .join(", ");
    const rows = headNames.flatMap((head) => {
      const { query, key } = place(head, id);
      const Q = queryLabels(head);
      const K = keyLabels(head);
      const pattern = run().patterns[head];
      const to = query === null ? "–" : top(K.map((name, j) => [name, pattern[query * K.length + j]]));
      const from = key === null ? "–" : top(Q.map((name, i) => [name, pattern[i * K.length + key]]));
      return query === null && key === null ? [] : [[short(head), to, from]];
    });
    return h(
      "details",
      { open: state.open, ontoggle: (event) => (state.open = event.target.open) },
      h("summary", {}, `“${text}”: where it looks and who looks at it, in numbers`),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "attention of the chosen digit" },
        table([["head", "looks at", "looked at by"], ...rows]),
      ),
    );
  }

  function hold(id) {
    state.held = state.held === id ? null : id;
    State.write({ hold: state.held });
    draw();
  }

  const headGroup = (title, text, test) => [
    h("h3", {}, title),
    h("p", { class: "note" }, text),
    h("div", { class: "heads" }, headNames.filter(test).map(makeFigure)),
  ];

  const elements = [
    headGroup(
      "Encoder: the digits of the question look at each other",
      [
        "E0.1: encoder, layer 0, ",
        term("head"),
        " 1. Rows look at columns. A button switches its head: on, ",
        term("ablation", "zero, mean"),
        ". Below it: the smallest ",
        term("margin"),
        " of this sum with that head off.",
      ],
      (head) => head.startsWith("encoder"),
    ),
    headGroup(
      "Decoder, cross-attention: each digit of the answer looks at the question",
      "D1.cross.2: decoder, layer 1, head 2. Row: the digit being written.",
      (head) => head.includes(".cross"),
    ),
    headGroup(
      "Decoder, self-attention: each digit of the answer looks at those written before",
      "Column ›: the start. A digit is read one position after it is written.",
      (head) => head.startsWith("decoder") && head.includes(".self"),
    ),
    exports(
      "attention-patterns",
      () =>
        s(
          "svg",
          { viewBox: "0 0 1080 560" },
          headNames.map((head, k) =>
            s(
              "g",
              { transform: `translate(${(k % 8) * 134}, ${Math.floor(k / 8) * 186 + 16})` },
              s("text", { class: "strong", x: 4, y: 0 }, short(head)),
              s(
                "svg",
                {
                  viewBox: drawPattern(head).getAttribute("viewBox"),
                  width: 123,
                  height: head.startsWith("encoder") ? 121 : 76,
                  y: 6,
                },
                ...drawPattern(head).childNodes,
              ),
            ),
          ),
        ),
      () => [
        ["head", "query", "key", "weight"],
        ...headNames.flatMap((head) =>
          queries(head).flatMap((q, i) =>
            keys(head).map((k, j) => [head, `${i}:${q}`, `${j}:${k}`, run().patterns[head][i * keys(head).length + j]]),
          ),
        ),
      ],
    ),
  ];

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

  return { tokens: [tokens, looks], elements, draw, drawAlone };
}
