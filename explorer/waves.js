"use strict";
/* Waves: the position codes of the sinusoidal model are changed, and its accuracy is measured at every length. */
(() => {
  const NAME = "course/sinusoidal";
  const LENGTHS = [16, 20, 24, 32, 64, 128, 256];
  const EACH = 40; // sequences of each length, half of them sorted
  const OFF_BY = Math.ceil(100 * 1.96 * Math.sqrt(0.25 / EACH)); // points, at 50%
  const root = document.getElementById("waves");
  const { d_model: width } = MODELS[NAME].settings;
  const WAVES = [...Array(width / 2).keys()];
  const period = (wave) => (2 * Math.PI) / Engine.frequency(wave, width);
  const projection = Engine.numbers(FACTS.sorting.projection.f32);
  const { bands, constant_from } = FACTS.sorting.waves;
  const UNTRAINED = "untrained"; // in the address: the untrained directions are removed
  const PRESETS = {
    "": "nothing changed",
    "0-4": "0–4 squeezed",
    "0,4-15": "only 1–3 true",
    "0-15": "all squeezed",
    [UNTRAINED]: "untrained directions removed",
  };

  // --- which waves, as text: "0-4,7" ----------------------------------------------------------------------------------

  const wavesOf = (text) =>
    text
      .split(",")
      .filter(Boolean)
      .flatMap((part) => {
        const [first, last = first] = part.split("-").map(Number);
        return WAVES.filter((wave) => first <= wave && wave <= last);
      });

  function textOf(waves) {
    const starts = waves.filter((wave) => !waves.includes(wave - 1));
    const ends = waves.filter((wave) => !waves.includes(wave + 1));
    return starts.map((start, k) => (start === ends[k] ? String(start) : `${start}-${ends[k]}`)).join(",");
  }

  const fits = (text) =>
    text === UNTRAINED || (/^\d{1,2}(-\d{1,2})?(,\d{1,2}(-\d{1,2})?)*$/.test(text) && textOf(wavesOf(text)) === text);
  const state = { squeeze: State.read("squeeze", "", fits) };

  // --- measuring ---------------------------------------------------------------------------------------------------

  const worker = background([NAME]);
  let found = null; // {count, rows: [{length, right, sorted}]}
  let unchanged = null; // the same with nothing changed, once it has been measured

  function measure(asked = false) {
    found = null;
    draw();
    const { squeeze } = state;
    const change = squeeze === UNTRAINED ? { projection } : squeeze ? { squeezed: wavesOf(squeeze) } : null;
    worker.start(
      { task: "waves", name: NAME, lengths: LENGTHS, count: EACH, seed: 641, change },
      (message) => {
        found = message;
        drawResult();
      },
      () => {
        if (!squeeze) unchanged = found;
        if (asked) announce(outcomeText(), "waves");
      },
    );
  }

  const points = (result) => (result ? result.rows.map(({ length, right }) => [length, right / result.count]) : []);
  const isConstant = (row) => row.sorted === 0 || row.sorted === found.count;

  /** What the counts say of the lengths beyond training */
  function outcomeText() {
    const beyond = found.rows.filter(({ length }) => length > 16);
    const rightTo = beyond.findIndex(({ right }) => right < 0.95 * found.count);
    const constant = beyond.filter((_, k) => beyond.slice(k).every(isConstant))[0];
    if (rightTo < 0) return `At least 95% right at every length, up to ${beyond.at(-1).length} values.`;
    if (constant) {
      const answer = constant.sorted ? "sorted" : "not sorted";
      return `Collapsed: from ${constant.length} values on it says “${answer}” to everything.`;
    }
    return `Below 95% from ${beyond[rightTo].length} values on.`;
  }

  function curvePicture() {
    const last = LENGTHS.at(-1);
    return chart({
      across: (n) => Math.log2(n / 16) / Math.log2(last / 16),
      ticks: LENGTHS,
      xlabel: "length (training: 8 to 16)",
      label: `accuracy against length: ${points(found)
        .map(([n, share]) => `${n}: ${percent(share)}`)
        .join(", ")}`,
      lines: [
        { name: state.squeeze && unchanged ? "nothing changed" : "", kind: "faint", points: points(unchanged) },
        { name: PRESETS[state.squeeze] || `${state.squeeze} squeezed`, kind: "one dots", points: points(found) },
      ],
    });
  }

  function drawResult() {
    const done = found?.count === EACH;
    put(outcome, h("b", {}, done ? outcomeText() : `Measuring: ${found?.count || 0} of ${EACH} sequences a length …`));
    put(curve, curvePicture());
    const cells = (text) => LENGTHS.map((_, k) => (found ? text(found.rows[k]) : "…"));
    put(
      numbers,
      table([
        ["length", ...LENGTHS],
        ["right", ...cells(({ right }) => percent(right / found.count, 0))],
        ["says sorted", ...cells(({ sorted }) => percent(sorted / found.count, 0))],
      ]),
    );
  }

  // --- choosing ----------------------------------------------------------------------------------------------------

  function choose(squeeze) {
    state.squeeze = squeeze;
    State.write({ squeeze });
    measure(true);
  }

  function toggle(wave) {
    const chosen = new Set(state.squeeze === UNTRAINED ? [] : wavesOf(state.squeeze));
    if (!chosen.delete(wave)) chosen.add(wave);
    choose(textOf(WAVES.filter((each) => chosen.has(each))));
  }

  /** How far a wave turns within the 16 trained positions */
  function dial(wave) {
    const turn = Math.min(0.9999, 15 / period(wave));
    const [sin, cos] = Engine.sinCos(2 * Math.PI * turn);
    return s(
      "svg",
      { viewBox: "0 0 24 24", class: "dial", "aria-hidden": "true" },
      s("circle", { class: "rim", cx: 12, cy: 12, r: 9 }),
      s("path", { class: "arc", d: `M12 3 A9 9 0 ${turn > 0.5 ? 1 : 0} 1 ${12 + 9 * sin} ${12 - 9 * cos}` }),
    );
  }

  const tokens = (n) => (n < 10 ? n.toFixed(1) : whole(Math.round(n)));
  const waveButtons = WAVES.map((wave) =>
    button("", () => toggle(wave), { "aria-label": `squeeze wave ${wave}, period ${tokens(period(wave))} tokens` }),
  );
  waveButtons.forEach((made, wave) => put(made, dial(wave), h("b", {}, wave), h("small", {}, tokens(period(wave)))));
  const presetButtons = choices(PRESETS, choose);

  function draw() {
    press(presetButtons, state.squeeze);
    const chosen = state.squeeze === UNTRAINED ? [] : wavesOf(state.squeeze);
    waveButtons.forEach((made, wave) => made.setAttribute("aria-pressed", String(chosen.includes(wave))));
    drawResult();
  }

  const outcome = h("p", { class: "stage" });
  const curve = h("div");
  const numbers = h("div", {
    class: "scroll",
    tabindex: 0,
    role: "region",
    "aria-label": "accuracy by length, measured",
  });
  put(
    root,
    h("h2", { id: "waves-title" }, "Which waves collapse it"),
    h(
      "p",
      { class: "finding" },
      `From ${constant_from} values on the sinusoidal model says “not sorted” to everything. `,
      h("b", {}, `Of its ${WAVES.length} waves ${bands.middle[0]} to ${bands.middle.at(-1)} are enough for that`),
      `; keep the fastest, 0 to ${bands.quarter.at(-1)}, within what they were in training, and it is right up to 256 values.`,
    ),
    tryIt(
      button("Squeeze waves 0–4", () => choose("0-4"), { class: "main" }),
      " and watch the curve rise.",
    ),
    h("div", { class: "row", role: "group", "aria-label": "what is changed" }, Object.values(presetButtons)),
    h("div", { class: "waves", role: "group", "aria-label": "waves that are squeezed" }, waveButtons),
    h(
      "p",
      { class: "note" },
      "Each ",
      term("wave"),
      " has its period in tokens; its arc shows how far it turns in training. Pressed: squeezed, so position p of L " +
        "gets the wave of position p·15/(L−1).",
    ),
    outcome,
    h("div", { class: "sides" }, h("div", {}, curve), h("div", {}, numbers)),
    h(
      "p",
      { class: "note" },
      `A sample, drawn and measured here: ${EACH} sequences of each length, half of them sorted; at 50% a point may be ` +
        `off by ${OFF_BY} points. One model, its weights rounded to 8 bits.`,
    ),
    exports("accuracy-by-waves", curvePicture, () => [
      ["length", "sequences", "right", "says sorted"],
      ...(found?.rows || []).map(({ length, right, sorted }) => [length, found.count, right, sorted]),
    ]),
  );
  draw();

  // Measured once it is seen, so that the page opens fast.
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    if (!found) measure();
  });
  seen.observe(root);
})();
