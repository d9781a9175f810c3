"""print/pdf.py: what the whole book looks like on paper, on a book of one page; `make pdf` prints the true one."""

import importlib.util

import pytest
from chromium import ROOT
from pypdf import PdfReader

import tiny_gpt
from tiny_gpt.widgets import Quiz, choice

QUIZ = Quiz([choice("Which?", {"this": True, "that": "No."}, explanation="Since it is this one.")], key="q")
PAGE = f"""<!doctype html><title>One</title><main><article class="bd-article"><h1>One</h1>
<p>{"Some prose that is longer than a line. " * 9}</p><pre>a = 1</pre><div class="static-widget">{QUIZ._still}</div>
<button>Copy</button></article></main>"""


@pytest.fixture
def printing(tmp_path, monkeypatch):
    """print/pdf.py, with a site of one page."""
    spec = importlib.util.spec_from_file_location("print_pdf", ROOT / "print" / "pdf.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "_static").mkdir()
    css = (ROOT / "book" / "assets" / "book.css").read_text()
    (tmp_path / "_static" / "bundle.css").write_text(f":root {{ --tg-text: 20rem; --tg-wide: 30rem }} {css}")
    (tmp_path / "one.html").write_text(PAGE)
    monkeypatch.setattr(module, "SITE", tmp_path)
    return module


def test_prose_and_code_share_a_measure_and_no_button_is_left(printing, browser, tmp_path):
    title, article = printing.article("one", {"one"})
    html = printing.single_page([("", ["one"])], {"one": title}, {"one": article}, {})
    (tmp_path / "whole.html").write_text(html)
    page = browser.new_page(viewport={"width": 800, "height": 900})
    page.goto((tmp_path / "whole.html").as_uri())
    page.emulate_media(media="print")
    prose, code = (page.locator(f"article > {tag}").bounding_box() for tag in ("p", "pre"))
    assert (prose["x"], prose["width"]) == (code["x"], code["width"])
    assert page.locator("button").count() == 0
    assert "Which?" in page.locator("article").inner_text()
    page.close()


def test_the_title_page_has_version_and_date(printing, tmp_path, browser):
    html = printing.single_page([("", ["one"])], {"one": "One"}, {"one": "<article></article>"}, {})
    (tmp_path / "whole.html").write_text(html)
    page = browser.new_page()
    page.goto((tmp_path / "whole.html").as_uri())
    page.pdf(path=tmp_path / "whole.pdf")
    page.close()
    first = PdfReader(tmp_path / "whole.pdf").pages[0].extract_text()
    assert f"Version {tiny_gpt.__version__}, printed on " in first
    assert str(printing.date.today().year) in first
