"""The built book as it is published: its policy holds in a browser, its buttons work, and it can be printed."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from playwright.sync_api import Error
from pypdf import PdfReader
from test_book import EXTRA, PAGES

ROOT = Path(__file__).parent.parent.parent


def test_every_page_has_a_policy_and_no_handler_that_it_would_stop(book):
    for page in PAGES + EXTRA:
        html = (book / f"{page}.html").read_text(encoding="utf-8")
        assert html.count("Content-Security-Policy") == 1, page
        assert not re.search(r"<[^>]*\son\w+=", html), page


def test_the_policy_stops_what_is_not_the_sites_own(book_url, watch):
    opened = watch(book_url).open(f"{book_url}/{PAGES[0]}.html")
    with pytest.raises(Error, match="Content Security Policy"):
        opened.add_script_tag(content="window.strange = 1")
    with pytest.raises(Error):
        opened.add_script_tag(url="http://127.0.0.1:9/strange.js")
    assert opened.evaluate("window.strange") is None
    assert opened.evaluate(
        "new Promise((done) => {"
        " addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective));"
        " fetch('http://127.0.0.1:9/').catch(() => {}); })"
    ).startswith("connect-src")


def test_print_and_full_screen_still_do_what_they_say(book_url, watch):
    watched = watch(book_url)
    watched.page.add_init_script("window.print = () => (window.printed = (window.printed ?? 0) + 1)")
    opened = watched.open(f"{book_url}/{PAGES[1]}.html")
    opened.locator('[data-does="window.print()"]').first.evaluate("(button) => button.click()")
    assert opened.evaluate("window.printed") == 1
    opened.locator('[data-does="toggleFullScreen()"]').first.click()
    opened.wait_for_function("document.fullscreenElement !== null")
    assert watched.complaints == []


@pytest.fixture(scope="module")
def pdf(book):
    spec = importlib.util.spec_from_file_location("print_pdf", ROOT / "print" / "pdf.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_link_leads_into_the_single_page_or_out_of_the_book(pdf):
    pages = {"book/a", "book/b"}
    for address, leads in [
        ("#x", "#book-a--x"),
        ("b.html#y", "#book-b--y"),
        ("b.html", "#book-b"),
        ("../_static/f.js", "_static/f.js"),
        ("https://example.org/b.html", "https://example.org/b.html"),
    ]:
        assert pdf.target(address, "book/a", pages) == leads


@pytest.mark.parametrize("page", PAGES)
def test_what_an_article_names_within_itself_is_there(pdf, page):
    html = pdf.article(page, set(PAGES))[1]
    soup = BeautifulSoup(html, "html.parser")
    ids = {element["id"] for element in soup.find_all(id=True)}
    named = set(re.findall(r"url\(#([^)]+)\)", html))
    named |= {
        element[key][1:] for key in ("href", "xlink:href") for element in soup.find_all(**{key: re.compile("^#")})
    }
    elsewhere = tuple(pdf.anchor(other) for other in PAGES if other != page)
    assert {name for name in named if not name.startswith(elsewhere)} <= ids


def test_the_printed_contents_name_the_page_on_which_each_chapter_begins(pdf, tmp_path):
    path = tmp_path / "book.pdf"
    subprocess.run([sys.executable, pdf.__file__, path], check=True, timeout=600)  # it starts a browser of its own
    reader = PdfReader(path)
    parts = pdf.chapters(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    pages = [page for _, several in parts for page in several]
    assert pages == PAGES
    contents = " ".join((reader.pages[1].extract_text() + reader.pages[2].extract_text()).split())
    before = 0
    for page in pages:
        title = pdf.article(page, set(pages))[0]
        number = int(re.search(rf"{re.escape(title)} (\d+)", contents)[1])
        first = " ".join(reader.pages[number - 1].extract_text().split())
        assert first.startswith(title), (page, number, first[:80])
        assert number > before
        before = number
    # links from page to page stay in the file
    links = [link.get_object() for page in reader.pages for link in page.get("/Annots") or []]
    uris = [link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})]
    assert uris
    assert [uri for uri in uris if uri.startswith("file:")] == []
