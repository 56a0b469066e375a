"""explorer/explorer.png, the picture of the page in README.md, from explorer/explorer.html in Debian's chromium.

python explorer/screenshot.py
"""

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import lab.installed

from lab.figures import in_few_colours
from lab.files import UserError, write_bytes
from lab.settings import run

PAGE, PICTURE = ROOT / "explorer/explorer.html", ROOT / "explorer/explorer.png"
CHROMIUM = shutil.which("chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


def launch(engine):
    return engine.chromium.launch(executable_path=CHROMIUM, args=FLAGS)


def main() -> None:
    if CHROMIUM is None:
        raise UserError("chromium is not installed: apt-get install chromium.")
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as engine:
        browser = launch(engine)
        page = browser.new_context(offline=True, viewport={"width": 1180, "height": 1000}).new_page()
        page.goto(f"file://{PAGE}#a=445&b=555&hold=t0")
        expect(page.locator("#add .accuracy thead th").last).to_have_text("now", timeout=60_000)
        expect(page.locator("#add .heads").first).to_contain_text("margin")
        # From the sum that is typed to the encoder's maps
        top = page.locator("#add input").first.bounding_box()["y"] - 16
        maps = page.locator("#add .heads").first.bounding_box()
        part = {"x": 0, "y": top, "width": 1180, "height": maps["y"] + maps["height"] + 8 - top}
        write_bytes(PICTURE, in_few_colours(page.screenshot(full_page=True, clip=part)))
        browser.close()
    print(PICTURE)


if __name__ == "__main__":
    run(main, __doc__)
