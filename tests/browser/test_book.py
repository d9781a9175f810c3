"""Every page of the built book: quiet console, nothing off-origin, nothing missing, readable on a phone."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
SCREENSHOTS = ROOT / "_build" / "screenshots"


def table_of_contents() -> list[str]:
    """Every page that _toc.yml names, in order."""

    def names(entry):
        if isinstance(entry, list):
            for item in entry:
                yield from names(item)
        elif isinstance(entry, dict):
            for key, value in entry.items():
                if key in ("file", "root"):
                    yield re.sub(r"\.(md|ipynb)$", "", value)
                else:
                    yield from names(value)

    return list(names(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))))


PAGES = table_of_contents()
EXTRA = ["search", "genindex", "404"]  # what the build adds


def test_the_table_of_contents_is_read_whole():
    text = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    assert len(PAGES) == len(re.findall(r"^\s*(?:- )?(?:file|root):", text, flags=re.M)) >= 2


@pytest.mark.parametrize("page", PAGES + EXTRA)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_http_no_complaint(page, scheme, book_url, watch):
    watched = watch(book_url, color_scheme=scheme)
    opened = watched.open(f"{book_url}/{page}.html")
    assert watched.complaints == []
    assert opened.evaluate("document.documentElement.dataset.theme") == scheme


@pytest.mark.parametrize("page", PAGES + EXTRA)
def test_file_no_complaint(page, book, watch):
    watched = watch(book.as_uri())
    watched.open((book / f"{page}.html").as_uri())
    watched.page.emulate_media(color_scheme="dark")
    watched.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert watched.complaints == []
    if watched.page.locator("math").count():
        assert watched.page.evaluate("document.fonts.check('16px \"STIX Two Math\"')"), "the maths font has not loaded"


def test_the_address_of_the_site_leads_to_the_first_page(book_url, watch):
    watched = watch(book_url)
    watched.page.goto(f"{book_url}/index.html", wait_until="commit")
    watched.page.wait_for_url(f"{book_url}/{PAGES[0]}.html")
    assert watched.complaints == []


@pytest.mark.parametrize("page", PAGES)
def test_title_and_one_heading(page, book_url, watch):
    opened = watch(book_url).open(f"{book_url}/{page}.html")
    assert opened.title().strip()
    headings = opened.locator("main article h1").all_inner_texts()
    assert len(headings) == 1
    assert headings[0].strip("#\n ")
    # the theme repeats the page's title where only text can be: maths would be raw TeX there
    assert opened.locator("main article h1 math").count() == 0
    assert opened.locator("html[lang]").count() == 1


# what a reader sees of an element and all within it; code may show TeX and dollars
VISIBLE = """() => {
  const article = document.querySelector("main article");
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest("pre, code, script, style, noscript")) found.push(node.data);
  return found.join("\\n");
}"""


@pytest.mark.parametrize("page", PAGES)
def test_no_raw_tex_and_no_broken_maths(page, book_url, watch):
    opened = watch(book_url).open(f"{book_url}/{page}.html")
    text = opened.evaluate(VISIBLE)
    for tex in ["$$", r"\frac", r"\begin", r"\mathbb", r"\text", r"\(", r"\[", "{eq}", "{ref}", "{cite", "{glue"]:
        assert tex not in text, f"raw source on the page: {tex}"
    assert opened.locator("merror, .bad-tex").count() == 0
    assert "\ufffd" not in text, "a character that could not be decoded"
    sizes = opened.evaluate(
        "[...document.querySelectorAll('main article math')].map(m => m.getBoundingClientRect().height)"
    )
    assert all(height > 0 for height in sizes if height is not None)


def glyphs(woff2: Path) -> set[int]:
    from fontTools.ttLib import TTFont

    return set(TTFont(woff2).getBestCmap())


@pytest.mark.parametrize("page", PAGES)
def test_no_missing_glyph_in_maths(page, book, book_url, watch):
    opened = watch(book_url).open(f"{book_url}/{page}.html")
    formulas = opened.evaluate("[...document.querySelectorAll('math')].map(m => m.textContent).join('')")
    missing = {c for c in formulas if not c.isspace() and ord(c) not in (0x2061, 0x2062, 0x2063, 0x200B)}
    missing = {c for c in missing if ord(c) not in glyphs(book / "_static" / "math.woff2")}
    assert missing == set()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", PAGES + EXTRA)
def test_nothing_scrolls_sideways(page, width, book_url, watch):
    """And what it looks like, light and dark, is left in _build/screenshots for whoever wants to see it."""
    settings = {"viewport": {"width": width, "height": 844}, "reduced_motion": "reduce", "color_scheme": "light"}
    opened = watch(book_url, **settings).open(f"{book_url}/{page}.html")
    for scheme in ("light", "dark"):
        opened.emulate_media(color_scheme=scheme)
        opened.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        picture = SCREENSHOTS / f"{Path(page).name}-{width}-{scheme}.jpg"
        opened.screenshot(path=picture, full_page=True, type="jpeg", quality=60)
    wide = opened.evaluate(
        """() => [...document.querySelectorAll("main article *")]
          .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
          .filter(e => {  // what is beyond the edge of a box that scrolls by itself is at its place
            for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
              if (["auto", "scroll", "hidden"].includes(getComputedStyle(p).overflowX)
                  && p.getBoundingClientRect().right <= innerWidth + 1) return false;
            return true;
          })
          .slice(0, 5).map(e => e.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth + 1")


@pytest.mark.parametrize("page", PAGES)
def test_images_and_figures_have_alternatives(page, book_url, watch):
    opened = watch(book_url).open(f"{book_url}/{page}.html")
    silent = opened.evaluate(
        """() => [...document.querySelectorAll("main article img, main article svg")]
          .filter(e => !e.closest("[aria-hidden=true]") && !e.parentElement.closest("svg"))
          .filter(e => {  // decoration of what is said in words
            const named = e.closest("button, summary");
            return !(named?.textContent.trim() || named?.getAttribute("aria-label"));
          })
          .filter(e => !(e.tagName === "IMG" ? e.alt : e.getAttribute("aria-label") || e.querySelector("title")))
          .map(e => e.outerHTML.slice(0, 120))"""
    )
    assert silent == []
    broken = opened.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_book_lead_somewhere(page, book):
    text = (book / f"{page}.html").read_text(encoding="utf-8")
    for href in set(re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text)):
        if re.match(r"[a-z]+:", href):
            continue
        target, _, anchor = href.partition("#")
        path = (book / f"{page}.html").parent / target if target else book / f"{page}.html"
        assert path.exists(), href
        if anchor and path.suffix == ".html":
            assert f'id="{anchor}"' in path.read_text(encoding="utf-8"), href


def test_the_site_holds_nothing_that_no_page_needs(book):
    names = {path.name for path in book.rglob("*")}
    assert not names & {"fontawesome.js", "sphinx-thebe.js", "require.js", "togglebutton.js", "locales"}
    assert not names & {"book.css", "basic.css", "bootstrap.js", "doctools.js", "fa-solid-900.woff2"}, "in the bundle"
    assert not [name for name in names if name.endswith(".map")]


def test_ids_are_unique(book):
    for page in PAGES:
        ids = re.findall(r'<[^>]+?\sid="([^"]+)"', (book / f"{page}.html").read_text(encoding="utf-8"))
        assert sorted(i for i in set(ids) if ids.count(i) > 1) == [], page
