"""The whole book as one PDF, printed by Chromium from the built site: `make pdf` writes _build/tiny-gpt.pdf.
Another file may be named: pdf.py FILE.

The pages' articles stand one after another in a single page, with JavaScript off, so that a widget shows its picture.
It is printed twice: the second time the contents know on which page each chapter begins.
"""

import re
import sys
from datetime import date
from html import escape
from pathlib import Path
from urllib.parse import urldefrag, urljoin

import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import sync_playwright
from pypdf import PdfReader

from tiny_gpt import __version__

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "html"
PDF = ROOT / "_build" / "tiny-gpt.pdf"
ADDRESSES = ("href", "xlink:href", "src")  # attributes that lead somewhere
NAMES = ("aria-labelledby", "aria-describedby", "for")  # attributes that hold an id

STYLE = """
  @page { size: A4; margin: 22mm 26mm 24mm }
  html { font-size: 10.5pt }
  body { display: block; background: none; padding: 0 }
  article { max-width: none; overflow: visible; break-before: page; padding: 0 }
  /* One measure for all: the page's. On a screen prose is narrower than code; on paper that looks like a mistake. */
  article :is(p, ul, ol, dl, blockquote, section, table, figure, .admonition, pre), .static-widget
    { max-width: none !important }
  .cover { break-after: page; padding-top: 60mm; text-align: center }
  .contents li { list-style: none; display: flex; gap: 1em }
  .contents li span { margin-left: auto; font-variant-numeric: tabular-nums }
  .contents .part { font-weight: bold; margin-top: 1em }
  a.headerlink, .copybtn, .practise-mark { display: none !important }
  pre, .math, math, .highlight { overflow: visible !important; white-space: pre-wrap }
  figure, .admonition, table, .cell_output svg, .static-widget { break-inside: avoid }
  h1, h2, h3, h4 { break-after: avoid }
  details > :not(summary) { display: revert !important }
"""
FOOTER = (
    '<div style="width: 100%; text-align: center; font-size: 8pt; font-family: sans-serif; color: #555">'
    '<span class="pageNumber"></span></div>'
)


def chapters(toc: dict) -> list[tuple[str, list[str]]]:
    """(caption, pages) of each part in _toc.yml, in the book's order; the first page has a part of its own."""
    parts = [("", [toc["root"]])]
    for part in toc["parts"]:
        parts.append((part.get("caption", ""), [chapter["file"] for chapter in part["chapters"]]))
    return parts


def anchor(page: str, name: str = "") -> str:
    """The id in the single page of what has this id on a page; of the page's beginning if none is named."""
    return re.sub(r"\W", "-", page) + (f"--{name}" if name else "")


def article(page: str, pages: set[str]) -> tuple[str, str]:
    """(title, HTML) of a page's article, whose ids and links are those of the single page."""
    soup = BeautifulSoup((SITE / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    main = soup.select_one("article")
    for junk in main.select("script, noscript, .headerlink, .prev-next-footer, link, button"):
        junk.decompose()
    for folded in main.select("details"):
        folded["open"] = ""
    for element in main.find_all(True):
        if element.get("id"):
            element["id"] = anchor(page, element["id"])
        for name in (*ADDRESSES, *NAMES):
            if value := element.get(name):
                element[name] = target(value, page, pages) if name in ADDRESSES else anchor(page, value)
    main["id"] = anchor(page)
    heading = main.select_one("h1")
    # a figure's lines are cut at its axes by a shape that url(#id) names
    html = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{anchor(page, match[1])})", str(main))
    return heading.get_text(" ", strip=True), html


def target(address: str, page: str, pages: set[str]) -> str:
    """Where a link leads: within the single page if that has it, else as it was."""
    if re.match(r"[a-z]+:", address):
        return address
    path, name = urldefrag(urljoin(f"{page}.html", address))
    other = path.removesuffix(".html")
    return f"#{anchor(other, name)}" if other in pages else path


def contents(parts, titles: dict[str, str], numbers: dict[str, int]) -> str:
    lines = []
    for caption, pages in parts:
        if caption:
            lines.append(f'<li class="part">{escape(caption)}</li>')
        for page in pages:
            number = numbers.get(anchor(page), "")
            lines.append(f'<li><a href="#{anchor(page)}">{escape(titles[page])}</a> <span>{number}</span></li>')
    return f'<section class="contents"><h1>Contents</h1><ul>{"".join(lines)}</ul></section>'


def single_page(parts, titles, articles, numbers) -> str:
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    head = f'<meta charset="utf-8"><title>{escape(config["title"])}</title>'
    head += f'<link rel="stylesheet" href="_static/bundle.css"><style>{STYLE}</style>'
    today = date.today()
    cover = f'<section class="cover"><h1>{escape(config["title"])}</h1><p>{escape(config["author"])}</p>'
    cover += f"<p>Version {__version__}, printed on {today.day} {today:%B %Y}</p></section>"
    body = cover + contents(parts, titles, numbers) + "".join(articles[page] for _, pages in parts for page in pages)
    html = '<html lang="en" data-theme="light" data-mode="light">'
    return f"<!doctype html>{html}<head>{head}</head><body>{body}</body></html>"


def print_pages(html: str, path: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests" / "browser"))
    from chromium import ARGS, find_chromium

    whole = SITE / "whole-book.html"
    whole.write_text(html, encoding="utf-8")
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=ARGS)
            page = browser.new_context(java_script_enabled=False).new_page()
            page.goto(whole.as_uri(), wait_until="load", timeout=300_000)
            page.pdf(
                path=path,
                prefer_css_page_size=True,
                print_background=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=FOOTER,
                outline=True,
                tagged=True,
            )
            browser.close()
    finally:
        whole.unlink()


def page_numbers(path: Path) -> dict[str, int]:
    """On which page of the PDF each id is that something links to."""
    reader = PdfReader(path)
    found = {name: reader.get_destination_page_number(d) for name, d in reader.named_destinations.items()}
    return {name.removeprefix("/"): number + 1 for name, number in found.items() if number is not None}


def make(pdf: Path) -> None:
    """Print the built book into this file."""
    parts = chapters(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    pages = {page for _, several in parts for page in several}
    titles, articles = {}, {}
    for page in pages:
        titles[page], articles[page] = article(page, pages)
    numbers: dict[str, int] = {}
    for _ in range(2):
        print_pages(single_page(parts, titles, articles, numbers), pdf)
        numbers = page_numbers(pdf)


def main() -> None:
    pdf = Path(sys.argv[1]) if sys.argv[1:] else PDF
    make(pdf)
    print(f"{pdf}: {len(PdfReader(pdf).pages)} pages, {pdf.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
