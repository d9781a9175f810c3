"""Every page of the built book: quiet, light, steady, whole, accessible, on a desk and on a phone, from a folder too.

A page is loaded once for each of four ways of reading, and every test of that way looks at the one that is open:
`desk` (1280 px, light) and `phone` (390 px, dark) over a slow line, `folder` (file://), `plain` (without a script).
"""

import re
from pathlib import Path

import pytest
import yaml
from chromium import Compressed, Server

ROOT = Path(__file__).parent.parent.parent
SLOWLY = {"offline": False, "latency": 40, "downloadThroughput": 10e6 / 8, "uploadThroughput": 10e6 / 8}
SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => {
  for (const { value, sources } of list.getEntries())
    window.shifts.push([value, sources.map(({ node }) => node?.outerHTML?.slice(0, 80) ?? node?.data)]);
}).observe({ type: "layout-shift", buffered: true });
"""


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


def started(page):
    page.wait_for_function(
        """() => [...document.querySelectorAll(".static-widget")]
          .every(({ dataset }) => dataset.state && dataset.state !== "loading")"""
    )


class Opened:
    """A page as it stands open for all tests of one way of reading it, and what was seen while it loaded."""

    def __init__(self, watched, url: str):
        self.watched, self.page = watched, watched.page
        asked, self.weights = {}, {}
        self.page.add_init_script(SHIFTS)
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.send("Network.emulateNetworkConditions", SLOWLY)  # so that the page arrives in pieces
        session.on("Network.requestWillBeSent", lambda e: asked.update({e["requestId"]: e["request"]["url"]}))
        session.on(
            "Network.loadingFinished", lambda e: self.weights.update({asked[e["requestId"]]: e["encodedDataLength"]})
        )
        watched.open(url)
        started(self.page)
        self.page.wait_for_timeout(200)
        self.shifts = self.page.evaluate("shifts")


def each(pages):
    """Pages as a fixture's parameters; the tests of one page stay on one worker, which loads it once for them."""
    return [pytest.param(page, marks=pytest.mark.xdist_group(page)) for page in pages]


@pytest.fixture(scope="session")
def compressed_url(book):
    server = Server(book, Compressed)
    yield server.url
    server.shutdown()


@pytest.fixture(scope="session", params=each(PAGES + EXTRA))
def desk(request, compressed_url, watching):
    with watching(compressed_url, viewport={"width": 1280, "height": 844}, color_scheme="light") as watched:
        yield Opened(watched, f"{compressed_url}/{request.param}.html")


@pytest.fixture(scope="session", params=each(PAGES + EXTRA))
def phone(request, compressed_url, watching):
    settings = {"viewport": {"width": 390, "height": 844}, "reduced_motion": "reduce", "color_scheme": "dark"}
    with watching(compressed_url, **settings) as watched:
        yield Opened(watched, f"{compressed_url}/{request.param}.html")


of_the_book = pytest.mark.parametrize("desk", each(PAGES), indirect=True)  # not what the build adds


@pytest.fixture(scope="session", params=each(PAGES + EXTRA))
def folder(request, book, watching):
    with watching(book.as_uri()) as watched:
        watched.open((book / f"{request.param}.html").as_uri())
        yield watched


# -- quiet ------------------------------------------------------------------------------------------------------------


def test_no_complaint_and_the_theme_follows_the_system(desk):
    theme = "document.documentElement.dataset.theme"
    assert desk.page.evaluate(theme) == "light"
    desk.page.emulate_media(color_scheme="dark")
    desk.page.wait_for_function(f"{theme} === 'dark'")
    desk.page.emulate_media(color_scheme="light")
    desk.page.wait_for_function(f"{theme} === 'light'")
    assert desk.watched.complaints == []


def test_no_complaint_on_a_phone_in_the_dark(phone):
    assert phone.page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert phone.watched.complaints == []


def test_no_complaint_from_a_folder(folder):
    folder.page.emulate_media(color_scheme="dark")
    folder.page.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert folder.complaints == []
    if folder.page.locator("math").count():
        assert folder.page.evaluate("document.fonts.check('16px \"STIX Two Math\"')"), "the maths font has not loaded"


def test_the_address_of_the_site_leads_to_the_first_page(book_url, watch):
    watched = watch(book_url)
    watched.page.goto(f"{book_url}/index.html", wait_until="commit")
    watched.page.wait_for_url(f"{book_url}/{PAGES[0]}.html")
    assert watched.complaints == []


# -- light and steady -------------------------------------------------------------------------------------------------


def is_light_and_steady(opened):
    # a trained model is no part of the page: it comes when a reader is near a playground, and is limited by itself
    weights = {u: n for u, n in opened.weights.items() if u.startswith("http") and "/_static/models/" not in u}
    assert 3 <= len(weights) <= 25
    assert 50_000 < sum(weights.values()) <= 400_000, sorted(weights.items(), key=lambda item: -item[1])[:5]
    assert sum(value for value, _ in opened.shifts) < 0.05, opened.shifts


def test_a_page_is_light_and_nothing_moves_while_it_loads(desk):
    is_light_and_steady(desk)


def test_a_page_is_light_and_nothing_moves_while_it_loads_on_a_phone(phone):
    is_light_and_steady(phone)


def scrolls_sideways(page) -> list[str]:
    """What sticks out of the page at the right."""
    if not page.evaluate("document.documentElement.scrollWidth <= innerWidth + 1"):
        return ["the page itself"]
    return page.evaluate(
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


def test_nothing_scrolls_sideways(desk):
    assert scrolls_sideways(desk.page) == []


def test_nothing_scrolls_sideways_on_a_phone(phone):
    assert scrolls_sideways(phone.page) == []


# -- whole ------------------------------------------------------------------------------------------------------------


@of_the_book
def test_title_and_one_heading(desk):
    assert desk.page.title().strip()
    headings = desk.page.locator("main article h1").all_inner_texts()
    assert len(headings) == 1
    assert headings[0].strip("#\n ")
    # the theme repeats the page's title where only text can be: maths would be raw TeX there
    assert desk.page.locator("main article h1 math").count() == 0
    assert desk.page.locator("html[lang]").count() == 1


# what a reader sees of an element and all within it; code may show TeX and dollars
VISIBLE = """() => {
  const article = document.querySelector("main article");
  const walker = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (!node.parentElement.closest("pre, code, script, style, noscript")) found.push(node.data);
  return found.join("\\n");
}"""


def glyphs(woff2: Path) -> set[int]:
    from fontTools.ttLib import TTFont

    return set(TTFont(woff2).getBestCmap())


@of_the_book
def test_no_raw_tex_and_no_broken_maths(desk, book):
    text = desk.page.evaluate(VISIBLE)
    for tex in ["$$", r"\frac", r"\begin", r"\mathbb", r"\text", r"\(", r"\[", "{eq}", "{ref}", "{cite", "{glue"]:
        assert tex not in text, f"raw source on the page: {tex}"
    assert desk.page.locator("merror, .bad-tex").count() == 0
    assert "\ufffd" not in text, "a character that could not be decoded"
    sizes = desk.page.evaluate(
        "[...document.querySelectorAll('main article math')].map(m => m.getBoundingClientRect().height)"
    )
    assert all(height > 0 for height in sizes if height is not None)
    formulas = desk.page.evaluate("[...document.querySelectorAll('math')].map(m => m.textContent).join('')")
    missing = {c for c in formulas if not c.isspace() and ord(c) not in (0x2061, 0x2062, 0x2063, 0x200B)}
    missing = {c for c in missing if ord(c) not in glyphs(book / "_static" / "math.woff2")}
    assert missing == set()


@of_the_book
def test_images_and_figures_have_alternatives(desk):
    silent = desk.page.evaluate(
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
    broken = desk.page.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
    assert broken == []


@pytest.mark.parametrize("page", PAGES)
def test_without_a_script(page, book_url, watch):
    opened = watch(book_url, java_script_enabled=False).page
    opened.goto(f"{book_url}/{page}.html")
    assert opened.locator("main article h1").is_visible()
    assert opened.locator(".pst-js-only:visible").count() == 0
    for widget in opened.locator(".static-widget").all():
        assert widget.bounding_box()["height"] > 20, "its still picture"
        assert "JavaScript" in widget.inner_text() or widget.locator("noscript").count()
    solutions = opened.locator("article details.solution")
    if solutions.count():
        assert solutions.first.locator("section").is_hidden()
        solutions.first.locator("summary").first.click()
        assert solutions.first.locator("section").first.is_visible()


# -- accessible: last of the tests of an open page, for they unfold what is folded ---------------------------------


EVERYTHING = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# what else than light and dark, wide and narrow may change
DEPENDENT = ["color-contrast", "target-size", "scrollable-region-focusable", "link-in-text-block"]


def violations(page, axe, only: dict) -> list[str]:
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })")
    page.evaluate(axe)
    found = page.evaluate("(only) => axe.run({ runOnly: only, resultTypes: ['violations'] })", only)
    return [
        f"{rule['id']}: {node['html'][:150]} {node['failureSummary'][:200]}"
        for rule in found["violations"]
        for node in rule["nodes"]
        # axe-core does not count a formula as text
        if not (rule["id"] == "empty-table-header" and "<math>" in node["html"])
    ]


def test_axe_finds_no_violation(desk, axe):
    desk.page.emulate_media(reduced_motion="reduce")
    assert violations(desk.page, axe, {"type": "tag", "values": EVERYTHING}) == []


def test_axe_finds_no_violation_in_the_dark_on_a_phone(phone, axe):
    assert violations(phone.page, axe, {"type": "rule", "values": DEPENDENT}) == []


# -- in the files ----------------------------------------------------------------------------------------------------


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
