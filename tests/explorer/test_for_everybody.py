"""The page by keyboard alone, its exports, and whether everybody can read it: a browser does what a person would."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.explorer.reading import accuracy, shows

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")


# --- by keyboard alone -------------------------------------------------------------------------------------------


def tab_to(page, test: str) -> None:
    """Press Tab until the focused element passes a test in JavaScript."""
    for _ in range(400):
        if page.evaluate(f"(() => {{ const e = document.activeElement; return {test}; }})()"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {test}")


def test_what_has_the_focus_is_in_sight(visit):
    """Not under the navigation or the strip that stay on top of a phone's screen, forwards and backwards."""
    page = visit("#off=encoder.1.self.head1:z", 360)
    accuracy(page)
    page.locator("#add input").first.focus()
    for key in ["Tab"] * 45 + ["Shift+Tab"] * 45:
        page.keyboard.press(key)
        focus = page.evaluate_handle("document.activeElement")
        assert focus.evaluate(IN_SIGHT), (key, focus.evaluate("element => element.outerHTML"))


# The middle of the element lies on the screen with nothing before it, once smooth scrolling has ended.
IN_SIGHT = """element => new Promise((end) => {
  const inSight = (tries) => {
    const box = element.getBoundingClientRect();
    const seen = element.contains(document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2));
    if (seen || tries === 0) end(seen);
    else setTimeout(inSight, 50, tries - 1);
  };
  inSight(60);
})"""
HEARD = """window.heard = "";
new MutationObserver(() => (heard += document.getElementById("status").textContent + ". "))
  .observe(document.getElementById("status"), { childList: true });"""


def test_every_panel_by_keyboard(visit):
    """And a screen reader announces what changes."""
    page = visit()
    page.evaluate(HEARD)
    tab_to(page, "e.ariaLabel === 'first number'")
    page.keyboard.press("Control+A")
    page.keyboard.type("999")
    page.keyboard.press("Tab")
    page.keyboard.press("Control+A")
    page.keyboard.type("101")
    shows(page, "#add .tokens", "999+101=1100")
    tab_to(page, "e.dataset.token === 't0'")
    page.keyboard.press("Enter")
    assert "hold=t0" in page.url and page.evaluate("document.activeElement.dataset.token") == "t0"
    tab_to(page, "/^D0.cross.0:/.test(e.textContent)")
    page.keyboard.press("Enter")
    shows(page, "#add", "1 of 24 heads switched off")

    tab_to(page, "e.textContent === 'Patch none'")
    page.keyboard.press("Enter")
    tab_to(page, "e.dataset.cell")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    assert "patch=decoder.0.self.head2%400" in page.url
    # Cells beyond the digit in question cannot be chosen: the arrows stop before them, and Tab finds the grid again.
    for key in (*["ArrowRight"] * 4, "Tab", "Shift+Tab"):
        page.keyboard.press(key)
    assert page.evaluate("document.activeElement.dataset.cell && !document.activeElement.disabled")

    tab_to(page, "e.classList.contains('columns')")
    page.keyboard.press("ArrowLeft")
    shows(page, "#length .context", "position 4")
    assert "t=4" in page.url
    tab_to(page, "e.textContent === 'Prove it here'")
    page.keyboard.press("Enter")
    shows(page, "#length .proof", "on this machine")

    tab_to(page, "e.textContent === 'Shuffle'")
    page.keyboard.press("Space")
    shows(page, "#sorted", "not sorted")
    heard = page.evaluate("heard")
    for words in ("999 + 101 = ", "D0.cross.0 zero ablated", "logit difference", "position 4 writes"):
        assert words in heard, words


# --- exports ------------------------------------------------------------------------------------------------------


def test_exports_are_whole_files(visit, tmp_path):
    page = visit()
    shows(page, "#sorted .verdicts", "right")
    buttons = page.locator(".exports button", has_text=re.compile("^(SVG|CSV)$"))
    assert buttons.count() >= 9
    for number in range(buttons.count()):
        if number % 5 == 4:  # a browser allows a page few downloads at a time
            page.reload()
            shows(page, "#sorted .verdicts", "right")
        with page.expect_download() as download:
            buttons.nth(number).click()
        download.value.save_as(tmp_path / "file")
        content = (tmp_path / "file").read_text()
        if download.value.suggested_filename.endswith(".svg"):
            assert "var(" not in content and len(list(ElementTree.fromstring(content).iter())) > 10
        else:
            assert len(content.splitlines()) > 3 and "," in content


# --- legible for everybody ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("colours, width", [("light", 1180), ("dark", 1180), ("light", 360)])
def test_accessible_and_no_wider_than_the_screen(visit, colours, width):
    page = visit("#hold=t1&off=encoder.1.self.head1:z", width, color_scheme=colours)
    shows(page, "#sorted .verdicts", "right")
    accuracy(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    found = axe.Axe().run(page).response["violations"]
    assert [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")] == []


# How far an element of the page lies outside what is seen of it: of the screen, or of the region that scrolls it.
OUTSIDE = """element => {
  const box = element.getBoundingClientRect(), region = element.closest(".scroll, body").getBoundingClientRect();
  return Math.max(region.left - box.left, box.right - region.right);
}"""


def test_on_a_phone_nothing_that_matters_is_cut_off(visit):
    page = visit("#scheme=course/randomized_learned", 390)
    shows(page, "#sorted .verdicts", "right")
    page.get_by_role("button", name="Measure here").click()
    shows(page, "#status", "measured")
    for selector in (
        ".chart text",
        "#sorted .sides table th:last-child",
        "#sorted .sides table td:last-child",
        "#sorted .verdicts td:nth-child(4)",
        "#program td",
        "#waves table td:last-child",
    ):
        outside = page.locator(selector).evaluate_all(f"elements => elements.map({OUTSIDE})")
        assert outside and max(outside) <= 1, selector


def test_names_above_the_carry_map_stand_apart(visit):
    page = visit("#carry")
    gaps = page.evaluate(
        """[...document.querySelectorAll("#carry .grid thead th")].map((cell) => {
          const words = document.createRange();
          words.selectNodeContents(cell);
          return words.getBoundingClientRect();
        }).flatMap((box, k, all) => (k && all[k - 1].left < box.left ? [box.left - all[k - 1].right] : []))"""
    )
    assert len(gaps) > 10 and min(gaps) >= 6
