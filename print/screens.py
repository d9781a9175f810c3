"""A picture of every page of the built site at three widths, light and dark, to be looked at: make pictures.

They are written to _build/pictures/PAGE-WIDTH-SCHEME.jpg; nothing in them is tested here.
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent
SITE, OUT = ROOT / "_build" / "html", ROOT / "_build" / "pictures"
WIDTHS = (390, 820, 1280)


def draw(names: list[str]) -> int:
    """Draw the pages whose names contain one of ``names``, or all; returns how many pictures were made."""
    sys.path.insert(0, str(ROOT / "tests" / "browser"))
    from chromium import ARGS, find_chromium

    pages = sorted([*SITE.glob("book/*.html"), SITE / "404.html", SITE / "search.html"])
    pages = [page for page in pages if not names or any(name in page.stem for name in names)]
    OUT.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=ARGS)
        for width in WIDTHS:
            context = browser.new_context(viewport={"width": width, "height": 900}, reduced_motion="reduce")
            for page in pages:
                opened = context.new_page()
                opened.goto(page.as_uri())
                opened.wait_for_timeout(500)  # widgets start, and a playground writes
                for scheme in ("light", "dark"):
                    opened.emulate_media(color_scheme=scheme)
                    opened.wait_for_timeout(200)
                    picture = OUT / f"{page.stem}-{width}-{scheme}.jpg"
                    opened.screenshot(path=picture, full_page=True, type="jpeg", quality=60)
                opened.close()
        browser.close()
    return len(pages) * len(WIDTHS) * 2


if __name__ == "__main__":
    print(f"{draw(sys.argv[1:])} pictures are in {OUT.relative_to(ROOT)}")
