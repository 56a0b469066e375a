"use strict";
/* What is on the page besides the panels: navigation, saving, and how it was made. */
(() => {
  const sorting = FACTS.sorting;

  function jump(name, behavior = "auto") {
    const section = document.getElementById(name);
    section.scrollIntoView({ behavior });
    section.focus({ preventScroll: true });
  }

  for (const link of document.querySelectorAll("[data-jump]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault(); // the address holds the state of all panels
      State.write({ at: link.dataset.jump });
      jump(link.dataset.jump);
    });
  }

  // A link opens at the panel that was used last.
  for (const kind of ["focusin", "click"]) {
    document.querySelector("main").addEventListener(kind, (event) => {
      const section = event.target.closest("section");
      if (section) State.write({ at: section.id });
    });
  }

  /** The navigation shows where one is: at the innermost panel that a line through the screen's upper third crosses. */
  function showPlace() {
    const third = innerHeight / 3;
    const here = PANELS.filter((id) => {
      const { top, bottom } = document.getElementById(id).getBoundingClientRect();
      return top < third && bottom > third;
    }).at(-1);
    if (!here) return;
    for (const link of document.querySelectorAll("nav [data-jump]")) {
      if (link.dataset.jump === here) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }
  addEventListener("scroll", showPlace, { passive: true });

  document.getElementById("save").append(
    button("Save this page as it is", () => {
      const state = State.values.toString().replaceAll("&", "&amp;").replaceAll('"', "&quot;");
      const text = SOURCE.replace(/<html[^>]*>/, `<html lang="en" data-state="${state}">`);
      download("explorer.html", "<!doctype html>\n" + text, "text/html");
    }),
    button("Copy a link to this state", async (event) => {
      const { target } = event;
      const copy = navigator.clipboard ? navigator.clipboard.writeText(location.href) : Promise.reject();
      const without = [...State.tooLong.values()].map((what) => `, without ${what}`).join("");
      await copy.then(
        () => (target.textContent = `Link copied${without}`),
        () => (target.textContent = "Refused: copy the page's address"),
      );
      announce(target.textContent, "link");
    }),
  );

  const at = State.read("at", null, (name) => PANELS.includes(name));
  for (const key of [...State.values.keys()]) {
    if (!State.known.has(key)) State.problems.push(`“${key.slice(0, 40)}”`);
  }
  if (State.problems.length) {
    complain(
      document.getElementById("address"),
      `The address holds ${State.problems.join(", ")}, which this page cannot show: it shows its own example there.`,
    );
  }
  if (at) {
    jump(at, "instant");
    // What stands above is still growing: the page stays at the panel until the reader moves.
    const stay = new ResizeObserver(() => document.getElementById(at).scrollIntoView({ behavior: "instant" }));
    stay.observe(document.body);
    for (const kind of ["wheel", "pointerdown", "keydown"]) addEventListener(kind, () => stay.disconnect());
  }
  showPlace();
  addEventListener("hashchange", () => location.reload()); // a link to another state was followed

  const names = Object.keys(sorting.rounded);
  const sets = Object.keys(sorting.sets);
  const differ = names.map((name) =>
    Math.max(
      ...sets.map((set) =>
        Math.abs(sorting.rounded[name][set] - (sorting.committed[name][set] ?? sorting.rounded[name][set])),
      ),
    ),
  );
  document.getElementById("about").append(
    h("h2", {}, "How this page was made"),
    h(
      "p",
      { class: "note" },
      FACTS.every_sum &&
        `On all ${whole(FACTS.every_sum.pairs)} sums this engine made ${whole(FACTS.every_sum.errors)} errors ` +
          `(smallest logit margin ${FACTS.every_sum.smallest_margin.toFixed(3)}). `,
      "The engine is a few hundred lines of plain JavaScript, in this file; tests hold it to PyTorch within 1e-9, " +
        "for every logit, pattern and intervention. Both addition models have the weights of their checkpoints. " +
        "The sorting models' matrices are rounded to 8 bits, a scale for each row; evaluated again after rounding, " +
        "their accuracy on the test sets differs from that of the exact models by at most " +
        `${(100 * Math.max(...differ)).toFixed(1)} points.`,
    ),
    h(
      "details",
      {},
      h("summary", {}, "Accuracy before and after rounding"),
      h(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "accuracy before and after rounding" },
        table([
          [
            "model",
            ...sets.map((set) => `${set.replace("extrapolation/", "length ")} (${whole(sorting.sets[set])} rows)`),
          ],
          ...names.map((name) => [
            name,
            ...sets.map((set) => {
              const before = sorting.committed[name][set];
              return `${before === undefined ? "–" : percent(before)} → ${percent(sorting.rounded[name][set])}`;
            }),
          ]),
        ]),
      ),
    ),
  );
})();
