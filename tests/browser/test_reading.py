"""The reading experience of the built book: on paper, searchable, kept, and honouring what a reader has asked for."""

import re

import pytest
from test_book import EVERYTHING, PAGES, SHIFTS, started, violations

A_CHAPTER = "book/03_causal_mask"


def test_widgets_wait_for_no_script_of_the_theme(book_url, watch):
    watched = watch(book_url)
    page, held = watched.page, []
    page.route("**/_static/bundle.js*", lambda route: held.append(route))
    page.goto(f"{book_url}/{A_CHAPTER}.html", wait_until="commit")
    page.wait_for_selector(".static-widget[data-state=ready] input:not([disabled])")
    assert len(held) == 1
    assert page.evaluate("document.readyState") == "interactive"
    held[0].continue_()
    page.wait_for_load_state()
    assert watched.complaints == []


@pytest.mark.parametrize("page", PAGES)
def test_what_comes_or_goes_does_not_have_the_page_styled_anew(page, book):
    """A style sheet within the article is the whole page's: with a widget's still picture it would be taken away."""
    text = (book / f"{page}.html").read_text(encoding="utf-8")
    assert "<style" not in text[text.index("<body") :]


# -- accessible ---------------------------------------------------------------------------------------------------


def test_axe_would_find_them(axe, watch, tmp_path):
    (tmp_path / "bad.html").write_text(
        "<html lang=en><title>x</title><main><h1>x</h1><button></button><img src='data:,'>"
    )
    page = watch(tmp_path.as_uri()).page
    page.goto((tmp_path / "bad.html").as_uri())
    found = violations(page, axe, {"type": "tag", "values": EVERYTHING})
    assert {"button-name", "image-alt"} <= {line.split(":")[0] for line in found}


def test_the_keyboards_place_is_always_seen(book_url, watch):
    page = watch(book_url).open(f"{book_url}/{A_CHAPTER}.html")
    seen = 0
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e), box = e.getBoundingClientRect();
              return [e.outerHTML.slice(0, 120), box.width * box.height,
                      s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1.5 || s.boxShadow !== "none"]; }"""
        )
        assert found[1] == 0 or found[2], found[0]
        seen += found[1] > 0
    assert seen > 40


def test_less_motion_and_forced_colours_are_honoured(book_url, watch):
    page = watch(book_url, reduced_motion="reduce", forced_colors="active", color_scheme="dark").open(
        f"{book_url}/{A_CHAPTER}.html"
    )
    slow = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((e) => {
          const s = getComputedStyle(e);
          return `${s.transitionDuration}, ${s.animationDuration}`.split(",").some((time) => parseFloat(time) > 0.01);
        }).map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert slow == []
    ground, ink = page.evaluate(
        """() => { const figure = document.querySelector("svg.inline-figure");
          return [getComputedStyle(figure).backgroundColor, getComputedStyle(figure).color]; }"""
    )
    assert "rgba" not in ground, "a figure has a ground of its own where colours are forced"
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)]
    assert abs(light[0] - light[1]) > 300, (ground, ink)


# -- light, dark, paper, no script ----------------------------------------------------------------------------------


def test_the_theme_follows_the_system_and_can_be_chosen(book_url, watch):
    watched = watch(book_url, color_scheme="light")
    page = watched.open(f"{book_url}/{A_CHAPTER}.html")
    theme = "document.documentElement.dataset.theme"
    ink = "getComputedStyle(document.querySelector('svg.inline-figure')).color"
    assert page.evaluate(theme) == "light"
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{theme} === 'dark'")
    assert page.evaluate(ink) != light, "the figures follow"
    switch = page.locator(".theme-switch-button").first
    assert switch.get_attribute("aria-label") == "Colours: as the system"
    modes = []
    for _ in range(3):
        switch.click()
        modes.append((page.evaluate("document.documentElement.dataset.mode"), page.evaluate(theme)))
    assert sorted(modes) == [("auto", "dark"), ("dark", "dark"), ("light", "light")]
    while page.evaluate("document.documentElement.dataset.mode") != "light":
        switch.click()
    assert switch.get_attribute("aria-label") == "Colours: light"
    page.reload()
    assert page.evaluate(theme) == "light", "what was chosen is kept"
    assert watched.complaints == []


@pytest.mark.parametrize("page", [A_CHAPTER, "book/selftest"])
def test_paper(page, book_url, watch):
    watched = watch(book_url, color_scheme="dark")
    opened = watched.open(f"{book_url}/{page}.html")
    started(opened)
    opened.emulate_media(media="print", color_scheme="dark")
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert opened.evaluate("document.documentElement.dataset.theme") == "light"
    shown = opened.evaluate(
        """() => [...document.querySelectorAll(".bd-sidebar-primary, .bd-sidebar-secondary, .bd-header-article,"
          + ".prev-next-footer, .headerlink, .copybtn, #pst-back-to-top, .skip-link")]
          .filter((e) => e.checkVisibility()).map((e) => e.className)"""
    )
    assert shown == []
    closed = opened.evaluate("document.querySelectorAll('article details:not([open])').length")
    assert closed == 0
    for widget in opened.locator(".static-widget").all():
        assert widget.is_visible(), "a widget prints as it stands"
        assert widget.locator("> .tgw, > *").first.is_visible()
    opened.evaluate("dispatchEvent(new Event('afterprint'))")
    assert opened.evaluate("document.documentElement.dataset.theme") == "dark"
    assert opened.locator("article details[open]").count() == 0
    assert watched.complaints == []


# -- finding one's way ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["http", "file", "under a path"])
def test_search(way, book, book_url, serve, watch, tmp_path):
    if way == "under a path":
        (tmp_path / "repo").symlink_to(book, target_is_directory=True)
        base = f"{serve(tmp_path)}/repo"
    else:
        base = book_url if way == "http" else book.as_uri()
    watched = watch(base)
    page = watched.open(f"{base}/{A_CHAPTER}.html")
    page.keyboard.press("Control+k")
    field = page.locator("#pst-search-dialog input")
    field.fill("entropy")
    field.press("Enter")
    page.wait_for_url("**/search.html?q=entropy*")
    results = page.locator("#search-results li a")
    # results come one after the other, each with a request for its page: a click before the last one aborts them
    page.get_by_text("Search finished").wait_for()
    assert results.count() >= 3
    results.first.click()
    page.wait_for_load_state()
    assert "/book/" in page.url
    assert "entropy" in page.locator("article").inner_text().lower()
    assert watched.complaints == []


def test_every_page_under_a_path(book, serve, watch, tmp_path):
    (tmp_path / "repo").symlink_to(book, target_is_directory=True)
    base = f"{serve(tmp_path)}/repo"
    watched = watch(f"{base}/")
    page = watched.page
    page.goto(f"{base}/index.html", wait_until="commit")
    page.wait_for_url(f"{base}/{PAGES[0]}.html")
    for expected in PAGES[1:]:  # by the link to the next page, as a reader goes
        started(page)
        page.locator(".prev-next-footer a.right-next").click()
        page.wait_for_url(f"{base}/{expected}.html")
    assert page.locator(".prev-next-footer a.left-prev").count() == 1
    # who goes on before the model is there has asked for it in vain
    left = re.compile(r"failed: \S+/_static/models/\S+ net::ERR_ABORTED")
    assert [complaint for complaint in watched.complaints if not left.fullmatch(complaint)] == []


@pytest.mark.parametrize("page", PAGES)
def test_headings_equations_and_exercises_have_addresses(page, book):
    text = (book / f"{page}.html").read_text(encoding="utf-8")
    article = text[text.index('<article class="bd-article">') : text.index("</article>")]
    headings = re.findall(r"<h[1-6]\b.*?</h[1-6]>", article, re.S)
    assert all('class="headerlink"' in heading for heading in headings)
    numbers = re.findall(r'<span class="eqno">.*?</span>', article, re.S)
    assert all('class="headerlink"' in number for number in numbers)
    exercises = re.findall(r'<div class="exercise admonition" id="([^"]+)">.*?href="#([^"]+)"', article, re.S)
    practised = re.findall(r'<p class="practise">.*?</p>', article, re.S)
    assert len(exercises) == article.count('<p class="exercise-meta">')
    for exercise, _section in exercises:
        assert [line for line in practised if f'href="#{exercise}"' in line], f"no section leads to {exercise}"


def test_code_can_be_copied(book_url, watch):
    watched = watch(book_url)
    page = watched.open(f"{book_url}/{A_CHAPTER}.html")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    cell = page.locator("div.cell_input:visible").first
    cell.hover()
    button = cell.locator("button.copybtn")
    box = button.bounding_box()
    assert min(box["width"], box["height"]) >= 24
    button.click()
    assert page.evaluate("navigator.clipboard.readText()").strip() == cell.locator("pre").inner_text().strip()
    assert page.locator("div.cell_input").count() == page.locator("div.cell_input button.copybtn").count()
    assert watched.complaints == []


# -- reading marks ---------------------------------------------------------------------------------------------------


def read_to_the_end(page):
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("document.querySelector('.bd-docs-nav a.current').dataset.read === 'read'")


@pytest.mark.parametrize("way", ["http", "file"])
def test_what_was_read_is_marked_kept_and_can_be_cleared(way, book, book_url, watch):
    base = book_url if way == "http" else book.as_uri()
    watched = watch(base)
    watched.page.add_init_script(SHIFTS)
    page = watched.open(f"{base}/{A_CHAPTER}.html")
    mark = page.locator(".bd-docs-nav a.current")
    page.wait_for_timeout(300)
    assert mark.get_attribute("data-read") == "", "a page that was only opened"
    before = page.locator(".bd-docs-nav").bounding_box()
    page.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
    page.wait_for_function("document.querySelector('.bd-docs-nav a.current').dataset.read === 'begun'")
    read_to_the_end(page)
    assert mark.inner_text().endswith("(read)"), "for a screen reader"
    assert page.locator(".bd-docs-nav").bounding_box()["height"] == before["height"]
    page = watched.open(f"{base}/book/04_attention_head.html")
    read = page.locator(".bd-docs-nav a[data-read=read]")
    assert [re.sub(r"\W+", " ", text) for text in read.all_inner_texts()] == ["3 The causal mask read "]
    button = page.get_by_role("button", name="Clear reading marks")
    assert button.bounding_box()["height"] >= 24
    button.click()
    assert read.count() == 0
    assert page.get_by_role("status").get_by_text("Cleared.").count() == 1
    page.reload()
    assert page.locator(".bd-docs-nav a[data-read=read]").count() == 0
    assert watched.complaints == []


@pytest.mark.parametrize("kept", ["nonsense", "[1, 2]", '{"book/03_causal_mask": "x", "a": 7}', "null", "3"])
def test_marks_that_are_nonsense_count_as_none(kept, book_url, watch):
    watched = watch(book_url)
    watched.page.add_init_script(f"localStorage.setItem('tiny-gpt:read', {kept!r})")
    page = watched.open(f"{book_url}/{A_CHAPTER}.html")
    assert page.locator(".bd-docs-nav a[data-read=read], .bd-docs-nav a[data-read=begun]").count() == 0
    read_to_the_end(page)
    assert watched.complaints == []


def test_where_the_browser_keeps_nothing_the_page_works(book_url, watch, serve, tmp_path):
    """A sandboxed frame has no storage: to ask for it throws, as where a reader has blocked it."""
    (tmp_path / "frame.html").write_text(
        f"<title>x</title><link rel=icon href='data:,'><iframe sandbox='allow-scripts' width=1280 height=800 "
        f"src='{book_url}/{A_CHAPTER}.html'></iframe>"
    )
    watched = watch("http://127.0.0.1", color_scheme="dark")
    page = watched.open(f"{serve(tmp_path)}/frame.html")
    frame = page.frames[1]
    assert frame.evaluate("origin") == "null"
    assert frame.evaluate("document.documentElement.dataset.theme") == "dark"
    frame.locator(".theme-switch-button").first.click()
    assert frame.evaluate("document.documentElement.dataset.mode") != "auto"
    read_to_the_end(frame)
    assert watched.complaints == []
