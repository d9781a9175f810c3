"""One style sheet and one script: all in its order, addresses mended, only the icons in use, and always current."""

import re
import sys

import pytest
from sphinx_project import NOTEBOOK, build

THEME = {"html_theme": "sphinx_book_theme", "html_theme_options": {"search_bar_text": "Search"}}
EXTENSIONS = ["sphinx_thebe", "sphinx_book_theme", "style_sheets", "mathml", "theme_patches", "bundle"]
PAGES = {
    "index": "# Page\n\nText, $x^2$.\n\n[next](sub.md)\n",
    "sub": NOTEBOOK + "# Sub\n\n```{code-cell}\n1 + 1\n```\n",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bundle")


@pytest.fixture(scope="module")
def site(folder):
    return build(folder, PAGES, EXTENSIONS, **THEME)


def test_a_page_asks_for_one_sheet_and_one_script(site):
    assert site.warnings == ""
    for page in ("index", "sub", "genindex"):
        text = site.html(page)
        sheets = re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]*)"', text)
        assert [re.sub(r"\?v=[0-9a-f]{8}$", "", sheet) for sheet in sheets] == ["_static/bundle.css"]
        scripts = re.findall(r'<script[^>]*src="([^"]*)"', text)
        assert [re.sub(r"\?v=[0-9a-f]{8}$", "", script) for script in scripts] == ["_static/bundle.js"]
    search = re.findall(r"<script[^>]*src=[^>]*>", site.html("search"))
    assert [re.search(r"(\w+)\.js", script)[1] for script in search] == [
        *("bundle", "searchtools", "language_data", "searchindex")
    ]
    assert all("defer" in script for script in search), "in this order, after the page"


def test_all_is_in_it_in_order_and_nothing_is_left_to_ask_for(site):
    css = (site.outdir / "_static" / "bundle.css").read_text()
    places = [
        css.index(mark)
        for mark in (
            "Sphinx stylesheet -- basic theme",
            "--bs-blue",
            'html[data-theme="light"] .highlight .k',
            "--tg-wide:",
        )
    ]
    assert places == sorted(places)
    assert not re.search(r"@import", css)
    assert set(re.findall(r"url\(\"?([\w.:/]+)", css)) <= {"data:image/svg", "data:font/woff2", "file.png"}
    js = (site.outdir / "_static" / "bundle.js").read_text()
    assert js.startswith("const DOCUMENTATION_OPTIONS"), "else a strict script could make the whole one strict"
    places = [js.index(mark) for mark in ("const DOCUMENTATION_OPTIONS", "_ready", "bootstrap.js", "[PST]: Changed to")]
    assert places == sorted(places)
    assert "sourceMappingURL" not in js
    assert "pagename =" not in js
    left = {path.name for path in (site.outdir / "_static").rglob("*") if path.suffix in (".css", ".js", ".woff2")}
    assert not left & {"basic.css", "book.css", "bootstrap.js", "doctools.js", "fa-solid-900.woff2"}


def test_only_icons_in_use(site):
    css = (site.outdir / "_static" / "bundle.css").read_text()
    assert ".fa-bars:before" in css
    assert ".fa-yin-yang" not in css
    assert len(css) < 600_000


def test_a_change_of_a_sheet_reaches_pages_that_are_not_written_again(folder, site, monkeypatch, tmp_path):
    from tiny_gpt_book import style_sheets

    before = re.search(r"bundle\.css\?v=(\w+)", site.html())[1]
    sheet = tmp_path / "book.css"
    sheet.write_text(style_sheets.SHEET.read_text() + "\n.brand-new { color: red }\n")
    monkeypatch.setattr(style_sheets, "SHEET", sheet)
    again = build(folder, {}, EXTENSIONS, **THEME)
    assert again.updated == set(), "no page was read again"
    assert ".brand-new" in (again.outdir / "_static" / "bundle.css").read_text()
    versions = {re.search(r"bundle\.css\?v=(\w+)", again.html(page))[1] for page in ("index", "sub", "search")}
    assert len(versions) == 1
    assert before not in versions


def test_a_page_with_files_of_its_own_is_a_warning(tmp_path):
    (tmp_path / "own.py").write_text(
        "def add(app, pagename, *rest):\n"
        "    if pagename == 'sub':\n"
        "        app.add_js_file('only-here.js')\n"
        "def setup(app):\n"
        "    app.connect('html-page-context', add)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        site = build(tmp_path, PAGES, [*EXTENSIONS, "own"], **THEME)
    finally:
        sys.path.remove(str(tmp_path))
    assert (
        "sub asks for other files than the pages before it, and one bundle.js serves all: only-here.js" in site.warnings
    )


def test_addresses_start_from_the_sheets_new_place(tmp_path):
    from tiny_gpt_book import bundle

    (tmp_path / "styles").mkdir()
    (tmp_path / "styles" / "a.css").write_text("a{b:url(../x/y.png);c:url('z.svg#d');e:url(data:image/png,x)}")
    text = bundle.sheet(tmp_path, ["styles/a.css"])
    assert text == 'a{b:url("x/y.png");c:url("styles/z.svg#d");e:url(data:image/png,x)}'
