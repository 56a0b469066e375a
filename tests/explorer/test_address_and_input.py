"""What a person types wrong, and what an address holds: sentences, no old result, the same state again."""

import re

import pytest

from explorer import build
from tests.explorer.reading import accuracy, playwright, shows, text

WRONG = [
    ("first number", "12a", "numbers of exactly 3 digits"),
    ("first number", "1" * 1000, "for longer ones"),
    ("first number", "", "Type two numbers"),
    ("first number", "0347", "not “0347”"),
    ("clean sum, first number", "7", "four must be a number"),
    ("clean sum, first number", "691", "same answer"),
    ("first number, of any length", "twelve", "not a whole number"),
    ("first number, of any length", "0.1", "“0.1” is not a whole number"),
    ("first number, of any length", "1,5", "“1,5” is not a whole number"),
    ("first number, of any length", "1_000", "“1_000” is not a whole number"),
    ("first number, of any length", "", "two whole numbers"),
    ("first number, of any length", "9" * 20_001, "up to 20,000"),
    ("the sequence: numbers from 0 to 99", "1 2 x", "“x” is not"),
    ("the sequence: numbers from 0 to 99", "5", "at least two"),
    ("the sequence: numbers from 0 to 99", "5 " * 1025, "up to 1,024"),
]


README = build.HERE / "README.md"
# Is the middle of the element on the screen, with nothing before it?
UNCOVERED = """element => {
  const box = element.getBoundingClientRect();
  return element.contains(document.elementFromPoint(box.left + 20, box.top + box.height / 2));
}"""
PANELS = ["add", "program", "carry", "length", "sorted", "waves"]
RESULTS = {"add": ".answer", "carry": ".runs", "length": ".columns", "sorted": ".verdicts"}
# In one step, as an element may be drawn anew at any moment.
USABLE = "selector => document.querySelector(selector).closest('[inert]') === null"


def test_bad_input_gets_a_sentence_and_good_input_takes_it_away(visit):
    """And no result of other input can be taken for one of this: it is out of reach, also for a screen reader."""
    page = visit("#pair=191,401,691,401")
    for label, value, sentence in WRONG:
        field = page.get_by_label(label, exact=True)
        panel = field.evaluate("element => element.closest('section').id")
        result = f"#{panel} {RESULTS[panel]}"
        good = field.input_value()
        assert page.evaluate(USABLE, result), label
        field.fill(value)
        field.blur()
        playwright.expect(page.locator(".problem", has_text=sentence)).to_have_count(1)
        assert not page.evaluate(USABLE, result), label
        field.fill(good)
        playwright.expect(page.locator(".problem", has_text=sentence)).to_have_count(0)
        assert page.evaluate(USABLE, result), label


def test_typing_is_not_interrupted(visit):
    """A number that is too short yet gets its sentence when the field is left, and nothing on the page moves."""
    page = visit()
    accuracy(page)
    playwright.expect(page.locator("#sorted .verdicts")).not_to_contain_text("…")
    for label in ("first number", "clean sum, first number", "the sequence: numbers from 0 to 99"):
        field = page.get_by_label(label, exact=True)
        panel = field.evaluate("element => element.closest('section').id")
        height = page.evaluate("document.documentElement.scrollHeight")
        field.fill("")
        field.press_sequentially("1")
        assert text(page, f"#{panel} .problem") == "", label
        assert page.locator(f"#{panel} [inert]").count() > 0, label
        assert page.evaluate("document.documentElement.scrollHeight") == height, label
        field.press("Tab")
        assert text(page, f"#{panel} .problem") != "", label


def test_a_broken_address_gets_a_sentence(visit):
    wrong = ["a=12345", "off=encoder.9.self.head1:z", "patch=x@y", "t=-4", "values=300", "pair=1,2,3,4", "at=moon"]
    properties = ["protocol=constructor", "disorder=toString", "scheme=__proto__"]  # that every JavaScript object has
    for values in ([*wrong, "protocol=none", "colour=red"], [*properties, "pair=123,456,124,455"]):
        page = visit("#" + "&".join(values))
        for word in values:
            assert word.removesuffix("=red") in text(page, "#address"), word
        shows(page, "#add", "Right.")
        shows(page, "#sorted .verdicts", "right")
        shows(page, "#about", "How this page was made")


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


@pytest.mark.parametrize("panel", PANELS)
def test_each_panel_has_a_link_of_its_own(visit, panel):
    page = visit(f"#{panel}")
    accuracy(page)
    playwright.expect(page.locator("#sorted .verdicts")).not_to_contain_text("…")  # all that grows has grown
    assert text(page, "#address") == ""
    assert page.locator(f"#{panel}-title").evaluate(UNCOVERED)
    playwright.expect(page.locator("nav [aria-current]")).to_have_attribute("href", f"#{panel}")


def test_the_address_names_the_panel_that_was_used_last(visit):
    page = visit()
    for panel in PANELS:
        page.locator(f"#{panel} button").first.click()
        assert f"at={panel}" in page.url


def test_below_the_program_the_navigation_is_at_adding_again(visit):
    """The program stands inside that panel."""
    page = visit("#program")
    accuracy(page)
    current = page.locator("nav [aria-current]")
    playwright.expect(current).to_have_attribute("href", "#program")
    page.evaluate("scrollBy(0, document.getElementById('program').getBoundingClientRect().bottom)")
    playwright.expect(current).to_have_attribute("href", "#add")


def test_the_documented_keys_are_those_that_the_page_reads(visit):
    documented = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", README.read_text(), re.M))))
    assert documented == set(visit().evaluate("[...State.known]"))


def test_every_link_of_the_readme_opens_its_state(visit):
    links = re.findall(r"\(explorer\.html(#[^)]+)\)", README.read_text())
    assert len(links) >= 5
    for link in links:
        page = visit(link)
        assert text(page, "#address") == ""
        for part in link.removeprefix("#").split("&"):
            assert part in page.evaluate("decodeURIComponent(location.hash)"), part


def test_a_link_to_squeezed_waves(visit):
    page = visit("#at=waves&squeeze=0-2,4,15")
    pressed = page.locator('#waves .waves button[aria-pressed="true"]')
    assert [button.inner_text().split()[0] for button in pressed.all()] == ["0", "1", "2", "4", "15"]
    page.get_by_role("button", name="squeeze wave 3,").click()
    playwright.expect(page).to_have_url(re.compile("squeeze=0-4%2C15"))
    for wrong in ("16", "4-0", "x"):
        page = visit(f"#squeeze={wrong}")
        shows(page, "#address", f"squeeze={wrong}")
        assert page.locator('#waves .waves button[aria-pressed="true"]').count() == 0


def test_a_sum_pasted_into_one_field(visit):
    page = visit()
    page.get_by_label("second number", exact=True).fill(" 347 + 159")
    assert page.get_by_label("first number", exact=True).input_value() == "347"
    shows(page, "#add .stage", "347 + 159 = 0506 Right.")


def test_a_link_says_what_it_leaves_out(visit):
    page = visit(permissions=["clipboard-read", "clipboard-write"])
    copy = page.locator("#save button").last
    copy.click()
    playwright.expect(copy).to_have_text("Link copied")
    page.get_by_label("first number, of any length").fill("7" * 2001)
    page.get_by_label("the sequence: numbers from 0 to 99").fill("5 " * 301)
    copy.click()
    playwright.expect(copy).to_contain_text("without numbers of more than 2,000 digits")
    playwright.expect(copy).to_contain_text("without sequences of more than 300 values")
    page.get_by_label("first number, of any length").fill("7")
    copy.click()
    playwright.expect(copy).not_to_contain_text("2,000")
