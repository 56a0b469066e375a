"""The page as a person uses it: in Chromium, from a file, without a network, by mouse and by keyboard alone."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from explorer import build, screenshot
from lab.files import read_json
from lab.hooks import short_name, zero
from problem1.analysis.context import sums_of
from problem1.analysis.interventions import InterventionRunner
from problem1.checkpoint import load_model
from tests.conftest import ROOT

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
pytestmark = pytest.mark.skipif(screenshot.CHROMIUM is None, reason="chromium is not installed")
playwright.expect.set_options(timeout=60_000)  # of a busy machine
ADDITION = ROOT / "problem1/results"


@pytest.fixture(scope="module")
def facts():
    page = screenshot.PAGE.read_text()  # test_build.py compares it with what build.py makes
    return json.loads(re.search(r'<script id="facts"[^>]*>(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        chromium = screenshot.launch(engine)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """visit("#a=1"): the page, opened as a file without a network. At the end nothing may have gone wrong in it; a
    request to any other place would have, and stands in the console."""
    opened, wrong = [], []

    def open_page(address: str = "", width: int = 1180, file=screenshot.PAGE, **options):
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"file://{file}{address}")
        opened.append(context)
        return page

    yield open_page
    for context in opened:
        context.close()
    assert wrong == []


def text(page, selector: str) -> str:
    return page.locator(selector).inner_text()


def shows(page, selector: str, words: str) -> None:
    playwright.expect(page.locator(selector)).to_contain_text(words)


def accuracy(page) -> float:
    """Of all rows, once all have been evaluated"""
    playwright.expect(page.locator("#add .accuracy thead th").last).to_have_text("now")
    return float(page.locator("#add .accuracy tbody tr").first.locator("td").last.inner_text().rstrip("%")) / 100


# --- what stands there before anybody touches it -----------------------------------------------------------------


def test_opens_on_the_findings(visit, facts):
    page = visit()
    for panel in ("add", "carry", "length", "sorted"):
        assert len(text(page, f"#{panel} .finding")) > 80
    assert f"{facts['addition']['verification']['pairs']:,}" in text(page, "#add .finding")
    shows(page, "#add", "Right.")
    assert accuracy(page) == 1.0
    shows(page, "#carry .runs", "head")
    shows(page, "#sorted .verdicts", "right")
    assert page.locator("#address").inner_text() == ""


def test_without_scripts_there_are_figures(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("noscript img").count() == len(build.FIGURES)
    assert page.locator("noscript img").first.evaluate("image => image.naturalWidth") > 300


# --- by mouse ----------------------------------------------------------------------------------------------------


def test_add_a_head_off(visit, facts):
    """Answer, margins and accuracy follow, and the accuracy is torch's."""
    page, ablation = visit(), facts["addition"]["ablation"]
    worst = min(ablation, key=lambda name: ablation[name]["zero"])
    name = short_name(worst)
    page.get_by_label("first number", exact=True).fill("445")
    page.get_by_label("second number", exact=True).fill("555")
    shows(page, "#add", "Right.")
    assert "445" in page.url and accuracy(page) == 1.0
    head = page.get_by_role("button", name=re.compile(f"^{re.escape(name)}:"))
    head.click()
    shows(page, "#add", "1 of 24 heads switched off")
    sums = sums_of([tuple(row) for row in facts["addition"]["rows"]], 3)
    runner = InterventionRunner(load_model(ADDITION / "best_model.pth")[0], sums)
    assert accuracy(page) == pytest.approx(runner.evaluate({worst: zero})[0].all(1).double().mean().item(), abs=6e-4)
    head.click()
    assert head.inner_text().endswith("mean")
    page.get_by_role("button", name="All heads on").click()
    assert accuracy(page) == 1.0 and "off=" not in page.url


def test_add_where_a_digit_looks_and_greedy_pruning(visit):
    page = visit(reduced_motion="reduce")
    page.locator("#add .tokens button").last.hover()
    assert page.locator("#add svg .pick").count() > 10
    page.locator("#add .tokens button").last.click()
    shows(page, "#add details table", short_name("decoder.1.cross.head3"))
    assert "hold=t3" in page.url
    page.locator('#add svg rect[data-token="s2"]').first.click()
    assert "hold=s2" in page.url
    page.get_by_role("button", name="Play").click()
    shows(page, "#add", "heads switched off")
    assert accuracy(page) < 1


def test_carry_by_button_and_by_dragging(visit, facts):
    """All heads, and all cross-attention heads painted in one drag, flip the digit; none of them, and it is back."""
    page, pressed = visit(), '#carry [data-cell$="@all"][aria-pressed="true"]'
    for group in facts["addition"]["groups"]:
        page.get_by_role("button", name=group["name"], exact=True).click()
        page.get_by_role("button", name="Patch all heads").click()
        shows(page, "#carry", "digit flips")
        page.get_by_role("button", name="Patch the").click()
        assert page.locator(pressed).count() == len(group["circuit"]["heads"])
        page.get_by_role("button", name="Patch none").click()
        shows(page, "#carry", "moved 0% of the way")
    page.get_by_role("button", name="mean over all such pairs").click()
    for head, moved in group["moved"].items():
        if moved >= 0.005:
            assert f"{moved:.2f}" in text(page, f'#carry [data-cell="{head}@all"]')
    cells = page.locator('#carry [data-cell^="decoder"][data-cell$="@all"]')
    cells.first.scroll_into_view_if_needed()
    page.wait_for_timeout(600)
    start, end = cells.first.bounding_box(), cells.last.bounding_box()
    page.mouse.move(start["x"] + 20, start["y"] + 9)
    page.mouse.down()
    page.mouse.move(end["x"] + 20, end["y"] + 9, steps=60)
    page.mouse.up()
    assert page.locator(pressed).count() == 16
    shows(page, "#carry", "digit flips")


def test_length_and_proof(visit):
    page, proof = visit(), read_json(ADDITION / "text/proof.json", "")
    page.get_by_role("button", name="2,000 random digits").click()
    shows(page, "#length", "Right: 2,00")
    page.get_by_role("button", name="a carry through 1,000 digits").click()
    shows(page, "#length", "Right: 1,001 digits")
    page.get_by_role("button", name="Prove it here").click()
    shows(page, "#length .proof", "Proven on this machine")
    found = text(page, "#length .proof")
    assert f"{proof['local_contexts']:,} of {proof['local_contexts']:,}" in found
    assert float(re.search(r"thinnest margin\s+(\S+)", found)[1]) == pytest.approx(proof["smallest_margin"], abs=1e-3)
    assert found.count(proof["fingerprint"]["sha256"]) == 2 and "The same." in found


def test_sorted_edit_and_protocols(visit):
    page = visit()
    page.get_by_role("button", name="Shuffle").click()
    shows(page, "#sorted", "32 values, not sorted")
    page.get_by_role("button", name="Sort", exact=True).click()
    shows(page, "#sorted", "32 values, sorted")
    page.get_by_role("button", name="Swap two neighbours").click()
    shows(page, "#sorted", "1 step down")
    page.get_by_label("the sequence").fill("1 2 3 4")
    playwright.expect(page.locator("#sorted .verdicts")).to_contain_text("✓ right")
    page.get_by_role("button", name="rope", exact=True).click()
    shows(page, "#sorted .chart text.name", "rope")
    page.get_by_role("button", name="strict").click()
    page.get_by_role("button", name="one swap of two neighbours").click()
    page.get_by_role("button", name="Measure here").click()
    shows(page, "#status", "measured")
    assert re.search(r"window.*100% / 100%", text(page, "#sorted .sides"))


# --- by keyboard alone -------------------------------------------------------------------------------------------


def tab_to(page, test: str) -> None:
    """Press Tab until the focused element passes a test in JavaScript."""
    for _ in range(400):
        if page.evaluate(f"(() => {{ const e = document.activeElement; return {test}; }})()"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not reach {test}")


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


# --- wrong use, links, copies, exports ---------------------------------------------------------------------------


WRONG = [
    ("first number", "12a", "numbers of exactly 3 digits"),
    ("first number", "1" * 1000, "for longer ones"),
    ("first number", "", "Type two numbers"),
    ("clean sum, first number", "7", "four must be a number"),
    ("clean sum, first number", "691", "same answer"),
    ("first number, of any length", "twelve", "not a whole number"),
    ("first number, of any length", "", "two whole numbers"),
    ("first number, of any length", "9" * 20_001, "up to 20,000"),
    ("the sequence: numbers from 0 to 99", "1 2 x", "“x” is not"),
    ("the sequence: numbers from 0 to 99", "5", "at least two"),
    ("the sequence: numbers from 0 to 99", "5 " * 1025, "up to 1,024"),
]


def test_bad_input_gets_a_sentence_and_good_input_takes_it_away(visit):
    page = visit("#pair=191,401,691,401")
    for label, value, sentence in WRONG:
        field = page.get_by_label(label, exact=True)
        good = field.input_value()
        field.fill(value)
        playwright.expect(page.locator(".problem", has_text=sentence)).to_have_count(1)
        field.fill(good)
        playwright.expect(page.locator(".problem", has_text=sentence)).to_have_count(0)


def test_a_broken_address_gets_a_sentence(visit):
    wrong = ["a=12345", "off=encoder.9.self.head1:z", "patch=x@y", "t=-4", "values=300", "pair=1,2,3,4", "at=moon"]
    page = visit("#" + "&".join([*wrong, "protocol=none", "colour=red"]))
    for word in [*wrong, "protocol=none", "colour"]:
        assert word in text(page, "#address"), word
    shows(page, "#add", "Right.")


def shows_the_state(page):
    assert page.get_by_label("first number", exact=True).input_value() == "120"
    shows(page, "#add", "2 of 24 heads switched off")
    shows(page, "#sorted", "3 values, not sorted")
    assert page.get_by_label("corrupted sum, first number").input_value() == "590"


def test_a_link_and_a_saved_copy_open_where_it_was(visit, tmp_path):
    page = visit("#a=120&b=345&off=encoder.1.self.head1:z,decoder.0.cross.head2:m&pair=540,618,590,618&values=3,2,1")
    shows_the_state(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this page as it is").click()
    download.value.save_as(tmp_path / "copy.html")
    shows_the_state(visit(file=tmp_path / "copy.html"))


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
