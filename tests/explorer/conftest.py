"""The page in Chromium, from a file and without a network."""

import json
import re

import pytest

from explorer import screenshot


@pytest.fixture(scope="module")
def facts():
    page = screenshot.PAGE.read_text()  # test_build.py compares it with what build.py makes
    return json.loads(re.search(r'<script id="facts"[^>]*>(.*?)</script>', page, re.S)[1])


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if screenshot.CHROMIUM is None:
        pytest.skip("chromium is not installed")
    with playwright.sync_playwright() as engine:
        chromium = screenshot.launch(engine)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser):
    """visit("#a=1"): the page, opened as a file without a network; the one before is closed, as it would go on
    computing. At the end nothing may have gone wrong in it; a request to any other place would have, and stands in the
    console."""
    opened, wrong = [], []

    def close() -> None:
        while opened:
            opened.pop().close()

    def open_page(address: str = "", width: int = 1180, file=screenshot.PAGE, **options):
        close()
        context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(f"file://{file}{address}")
        opened.append(context)
        return page

    yield open_page
    close()
    assert wrong == []
