"""The README's picture, the playground at work, drawn by Chromium from the built site: book/assets/playground.svg.

git holds no pictures made of pixels, so Chromium prints the widget and pdftocairo (in poppler-utils) turns the print
into SVG. Run it after `make book` when the playground or its model has changed: .venv/bin/python print/picture.py
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "book" / "assets" / "playground.svg"
WIDTH = 760  # CSS pixels

ALONE = """(widget) => {
  const frame = document.createElement("main");
  frame.style.cssText = "padding: 12px; background: white";
  frame.append(widget.closest(".static-widget"));
  document.body.replaceChildren(frame);
  return Math.ceil(frame.getBoundingClientRect().height);
}"""


def draw(path: Path) -> None:
    """Print the playground of the introduction, as a reader sees it while looking at the attention."""
    sys.path.insert(0, str(ROOT / "tests" / "browser"))
    from chromium import ARGS, find_chromium

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=ARGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 1400}, color_scheme="light")
        page.goto((ROOT / "_build" / "html" / "index.html").as_uri())
        page.emulate_media(media="screen", reduced_motion="reduce")
        widget = page.locator(".tgw-playground").first
        widget.scroll_into_view_if_needed()
        page.locator(".tgw-playground[data-model]").first.wait_for(timeout=60_000)
        if (choice := widget.get_by_role("button", name=re.compile("large", re.I))).count():
            choice.first.click()
        widget.get_by_label("Colour by probability").check()
        widget.get_by_role("tab", name="Attention").click()
        page.wait_for_timeout(5000)  # it writes and draws
        widget.locator(".tgw-page [role=option]").nth(40).click()
        page.wait_for_timeout(1000)
        height = page.evaluate(ALONE, widget.element_handle())
        page.wait_for_timeout(500)
        printed = Path(folder) / "playground.pdf"
        page.pdf(path=printed, width=f"{WIDTH}px", height=f"{height + 2}px", print_background=True, page_ranges="1")
        browser.close()
        subprocess.run(["pdftocairo", "-svg", str(printed), str(path)], check=True)


if __name__ == "__main__":
    draw(PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size:,} bytes")
