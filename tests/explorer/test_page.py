"""The page as a person uses it: in Chromium, from a file, without a network, by mouse."""

import re

import pytest

from explorer import build
from lab.files import read_json
from lab.hooks import short_name, zero
from problem1.analysis.interventions import InterventionRunner
from problem1.analysis.rows import sums_of
from problem1.checkpoint import load_model
from problem2.positional_encoding import SCHEMES
from tests.conftest import ROOT
from tests.explorer.reading import accuracy, playwright, shows, text

ADDITION = ROOT / "problem1/results"


# --- what stands there before anybody touches it -----------------------------------------------------------------


def test_opens_on_the_findings(visit, facts):
    page = visit()
    for panel in ("add", "carry", "length", "sorted", "waves"):
        assert page.locator(f"#{panel} .try button").count() >= 1
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
    found = accuracy(page)
    assert found == pytest.approx(runner.right_and_loss({worst: zero})[0].all(1).double().mean().item(), abs=6e-4)
    assert f"without {name} alone, only {found:.1%} do" in text(page, "#add .finding")
    shows(page, "#add .stage", f"Test sums right: {found:.1%} of 2,000")
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
    playwright.expect(page.locator("#add details table")).to_contain_text(re.compile(r"\d \((first|second), ones\) \d"))
    titles = page.locator("#add svg title").all_text_contents()
    assert any("6 (first, hundreds) attends to 6 (first, tens): " in title for title in titles)
    assert "hold=t3" in page.url
    page.locator('#add svg rect[data-token="s2"]').first.click()
    assert "hold=s2" in page.url
    page.get_by_role("button", name="Play").click()
    shows(page, "#add", "heads switched off")
    assert accuracy(page) < 1


def test_pruning_counts_heads_that_are_off_by_hand_too(visit, facts):
    page, order = visit(), facts["addition"]["pruning"]["order"]
    slider = page.get_by_label("heads removed in greedy order")
    slider.fill("1")
    shows(page, "#add .sides >> nth=-1", f"1 head off, the last {short_name(order[0])}")
    slider.fill("12")
    page.get_by_role("button", name=re.compile(f"^{re.escape(short_name(order[15]))}:")).click()
    shows(page, "#add .sides >> nth=-1", f"12 heads off, the last {short_name(order[11])}, and 1 other off")
    assert slider.input_value() == "12"
    page.get_by_role("button", name="All heads on").click()
    shows(page, "#add .sides >> nth=-1", "no head off in this order")


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
    cells.nth(8).evaluate("cell => cell.scrollIntoView({ behavior: 'instant', block: 'center' })")
    start, end = cells.first.bounding_box(), cells.last.bounding_box()
    page.mouse.move(start["x"] + 20, start["y"] + 9)
    page.mouse.down()
    page.mouse.move(end["x"] + 20, end["y"] + 9, steps=60)
    page.mouse.up()
    assert page.locator(pressed).count() == 16
    shows(page, "#carry", "digit flips")


def test_carry_calls_a_pair_what_the_analysis_calls_it(visit, facts):
    page = visit()

    def fill(pair: list[str]) -> None:
        labels = (f"{run} sum, {place} number" for run in ("clean", "corrupted") for place in ("first", "second"))
        for label, number in zip(labels, pair, strict=True):
            page.get_by_label(label, exact=True).fill(number)
        playwright.expect(page).to_have_url(re.compile("pair=" + "%2C".join(pair)))

    for group in facts["addition"]["groups"]:
        fill([number for numbers in group["example"] for number in numbers])
        shows(page, "#carry", f"of the kind “carry into the {group['name']}”")
    for pair in ("123 456 999 999", "500 500 555 555", "540 618 990 618", "618 540 618 590"):
        fill(pair.split())
        shows(page, "#carry", "This pair is of no kind")
        assert page.get_by_role("button", name="The report has no circuit").is_disabled()


def test_carry_says_when_a_digit_becomes_neither_of_the_two(visit):
    page = visit("#pair=540,618,990,618&patch=decoder.0.cross.head2@0.1.2.3")
    shows(page, "#carry .runs", "1258")
    shows(page, "#carry", "The hundreds digit becomes 2, neither the clean 1 nor the corrupted 6.")


def test_length_and_proof(visit):
    page, proof = visit(), read_json(build.TEXT / "proof.json", "")
    page.get_by_role("button", name="2,000 random digits").click()
    shows(page, "#length", "Right: 2,00")
    page.get_by_role("button", name="a carry through 1,000 digits").click()
    shows(page, "#length", "Right: 1,001 digits")
    for label in ("first number, of any length", "second number, of any length"):
        page.get_by_label(label).fill("3")
    shows(page, "#length", "Right: 1 digit in 2 steps")
    page.get_by_role("button", name="Prove it here").click()
    shows(page, "#length .proof", "Proven on this machine")
    found = text(page, "#length .proof")
    assert f"{proof['local_contexts']:,} of {proof['local_contexts']:,}" in found
    assert float(re.search(r"thinnest margin\s+(\S+)", found)[1]) == pytest.approx(proof["smallest_margin"], abs=1e-3)
    assert "0" in page.locator("#length .proof .chart text").all_text_contents()
    assert re.search(r"wrong\s+0\s+0\b", found)


def test_add_try_it(visit, facts):
    """The button breaks the sum shown; what became wrong is in sight, also from the last of the heads."""
    page = visit()
    page.locator("#add .try button").first.click()
    shows(page, "#add .stage", "Wrong. 1 of 24 heads switched off.")
    page.locator("#add .head").last.scroll_into_view_if_needed()
    playwright.expect(page.locator("#add .stage")).to_be_in_viewport(ratio=1)
    page.locator("#add .try button").first.click()
    shows(page, "#add .stage", "Right. All heads on.")


def lit(page, kind: str) -> set[str]:
    return {cell.get_attribute("data-cell") for cell in page.locator(f"#program td .{kind}").all()}


def test_the_program_lights_up_for_a_sum(visit):
    page = visit("#a=445&b=555")
    shows(page, "#add .stage", "= 1000")
    own = {"hundreds-hundreds", "tens-tens", "ones-ones"}
    assert lit(page, "decides") == {"thousands-ones", "hundreds-ones", "tens-ones"}
    assert lit(page, "hands") == {"thousands-hundreds", "thousands-tens", "hundreds-tens"}
    assert lit(page, "own") == own
    page.locator("#program").get_by_role("button", name="347 + 159").click()
    shows(page, "#add .stage", "= 0506")
    assert lit(page, "decides") == {"thousands-hundreds", "hundreds-ones", "tens-ones"}
    assert lit(page, "hands") == {"hundreds-tens"}
    assert lit(page, "own") == own
    cells = {cell.get_attribute("data-cell"): cell.inner_text() for cell in page.locator("#program td span").all()}
    assert cells["thousands-hundreds"] == "< 9" and cells["hundreds-tens"] == "9" and cells["tens-ones"] == "> 9"
    assert cells["ones-ones"] == "6" and cells["ones-tens"] == cells["tens-hundreds"] == "–"
    assert page.locator("#program li").count() == 4


def test_the_program_writes_what_the_model_writes(visit, facts):
    """Until a head is switched off that it needs."""
    page = visit()
    for a, b in facts["addition"]["rows"][:5] + [[445, 555], [347, 159], [456, 543]]:
        page.get_by_label("first number", exact=True).fill(f"{a}+{b}")
        rows = [row.locator("td").all_inner_texts() for row in page.locator("#program tbody tr").all()]
        assert "".join(row[-2][-1] for row in rows) == "".join(row[-1] for row in rows) == f"{a + b:04}"
        assert page.locator("#program .bad").count() == 0
    page = visit("#off=decoder.0.self.head0:z")
    assert page.locator("#program .bad").count() >= 1


def outcome(page, preset: str) -> str:
    page.locator("#waves").get_by_role("button", name=preset, exact=True).click()
    playwright.expect(page.locator("#waves .stage")).to_contain_text(re.compile("^(At least|Collapsed|Below)"))
    return text(page, "#waves .stage")


def measured(page) -> list[float]:
    return [float(cell.rstrip("%")) for cell in page.locator("#waves tbody tr").first.locator("td").all_inner_texts()]


def test_waves_squeezed_or_true(visit):
    """The curve is measured anew for each change: constant, or right up to 256."""
    page = visit("#waves")
    for preset in ("only 1–3 true", "untrained directions removed"):
        assert "says “not sorted” to everything" in outcome(page, preset), preset
        assert measured(page)[0] > 95 and measured(page)[-3:] == [50, 50, 50]
    assert "At least 95% right at every length, up to 256" in outcome(page, "Squeeze waves 0–4")
    assert min(measured(page)) >= 95
    assert "squeeze=0-4" in page.url
    shows(page, "#waves .note >> nth=-1", "40 sequences of each length")


def test_words_of_the_field_are_told_when_pressed(visit):
    page = visit()
    for word in page.locator("main .term").all():
        word.click()
        playwright.expect(page.locator(".meaning:popover-open")).to_have_count(1)
        page.keyboard.press("Escape")
        playwright.expect(page.locator(".meaning:popover-open")).to_have_count(0)


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
    playwright.expect(page.locator("#sorted .sides")).to_contain_text(re.compile(r"window.*100% / 20 of 20", re.DOTALL))


def test_sorted_a_model_that_says_one_thing_to_everything_is_not_right(visit):
    """Of 300 values with two neighbours swapped sinusoidal says "not sorted", as of the same values in order."""
    values = sorted(range(300), key=lambda k: k % 100)
    values = [value // 3 for value in sorted(values)]
    page = visit("#values=" + ",".join(map(str, values)))

    def verdict(scheme: str) -> str:
        playwright.expect(page.locator("#sorted .verdicts")).not_to_contain_text("…")
        return text(page, f'#sorted .verdicts tr:has(button:text-is("{scheme}"))')

    for scheme in ("window", "alibi"):
        assert "✓ right" in verdict(scheme)
    right = page.locator("#sorted .verdicts .good").count()
    said = f"{right} of {len(SCHEMES)} schemes tell these values from the same ones out of order."
    shows(page, "#sorted .stage", said)
    for scheme in ("sinusoidal", "none"):
        assert "same answer to both" in verdict(scheme)
    page.get_by_role("button", name="Swap two neighbours").click()
    shows(page, "#sorted", "1 step down")
    assert "same answer to both" in verdict("sinusoidal")
    page.get_by_label("the sequence").fill("5 5 5")
    shows(page, "#sorted", "3 values, sorted")
    assert "same answer" not in verdict("sinusoidal")  # equal values have one order
