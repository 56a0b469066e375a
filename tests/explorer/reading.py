"""What the tests of the page read from it, waiting until it stands there."""

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
playwright.expect.set_options(timeout=60_000)  # of a busy machine


def text(page, selector: str) -> str:
    return page.locator(selector).inner_text()


def shows(page, selector: str, words: str) -> None:
    playwright.expect(page.locator(selector)).to_contain_text(words)


def accuracy(page) -> float:
    """Of all rows, once all have been evaluated"""
    playwright.expect(page.locator("#add .accuracy thead th").last).to_have_text("now")
    return float(page.locator("#add .accuracy tbody tr").first.locator("td").last.inner_text().rstrip("%")) / 100
