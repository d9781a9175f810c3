"""The theme's mends take hold, and say so when the theme has changed under them."""

import re
from types import SimpleNamespace

import pytest
from sphinx_project import NOTEBOOK, build

THEME = {"html_theme": "sphinx_book_theme", "html_theme_options": {"search_bar_text": "Search"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    # in Jupyter Book's order: sphinx-thebe before, the mends after
    folder = tmp_path_factory.mktemp("theme")
    extensions = ["sphinx_togglebutton", "sphinx_thebe", "sphinx_book_theme", "theme_patches"]
    return build(folder, {"index": "# Page\n\nText.\n"}, extensions, **THEME)


def test_no_warnings(site):
    assert site.warnings == ""


@pytest.mark.parametrize("trace", ["fontawesome.js", "thebe", "togglebutton", "unpkg.com", "cdn", "searchindex.js"])
def test_no_trace_of(site, trace):
    page = site.html()
    assert trace not in page.lower()


def test_what_is_taken_out_is_taken_out_whole(site):
    assert site.html().count("<script") == site.html().count("</script>")


def test_nothing_is_asked_for_after_a_script_that_waits_for_the_style_sheets(site):
    head = site.html().split("</head>")[0]
    assert "src=" not in head[head.index("document.fonts.forEach") :]


def test_icons_are_still_drawn_by_the_style_sheet(site):
    assert 'class="fa-solid' in site.html() or "fa-solid" in site.html()
    assert list((site.outdir / "_static").rglob("fa-solid-900.woff2"))


def test_mode_follows_the_system_until_chosen_and_needs_no_script_to_be_light(site):
    page = site.html()
    assert '<html lang="en" data-content_root="./" data-theme="light">' in page
    assert 'data-default-mode="auto"' in page
    assert 'dataset.theme = document.documentElement.dataset.mode === "auto"' in page


def test_one_search_box_in_the_side_bar(site):
    page = site.html()
    assert page.count('class="btn search-button-field') == 1


def test_exercises_on_one_page_have_ids_of_their_own(tmp_path):
    one = "```{exercise} Title\n:label: ex-N\n\nTask.\n```\n\n```{solution} ex-N\nDone.\n```\n\n"
    pages = {"index": "# Page\n\n" + one.replace("N", "1") + one.replace("N", "2")}
    site = build(tmp_path, pages, ["sphinx_exercise", "sphinx_book_theme", "theme_patches"], **THEME)
    ids = re.findall(r'\sid="([^"]+)"', site.html())
    assert [i for i in set(ids) if ids.count(i) > 1] == []
    assert "ex-1" in ids


def test_a_folded_cell_is_named_by_what_it_says(tmp_path):
    cell = "\n```{code-cell} python\n:tags: [hide-input]\n1 + 1\n```\n"
    site = build(tmp_path, {"index": NOTEBOOK + "# Page\n" + cell}, ["sphinx_book_theme", "theme_patches"], **THEME)
    assert "<summary>" in site.html()
    assert "Toggle hidden content" not in site.html()


def test_a_solution_folds_without_a_script(tmp_path):
    exercise = "```{exercise} Title <\n:label: ex-1\n\nTask.\n```\n\n"
    pages = {"index": f"# Page\n\n{exercise}```{{solution}} ex-1\n:class: dropdown\n\nDone.\n```\n"}
    site = build(tmp_path, pages, ["sphinx_exercise", "sphinx_book_theme", "theme_patches"], **THEME)
    found = re.search(
        r'<details class="[^"]*solution[^"]*"[^>]*>\s*<summary[^>]*>(.*?)</summary>(.*?)</details>', site.html(), re.S
    )
    assert found[1] == "Solution to Exercise 1 (Title &lt;)"
    assert "Done." in found[2]


def test_a_formula_keeps_its_stop_and_its_bracket(tmp_path):
    site = build(
        tmp_path,
        {"index": "# Page\n\nFor ($x$), $y$. And $z$ too.\n"},
        ["mathml", "sphinx_book_theme", "theme_patches"],
        **THEME,
    )
    kept = re.findall(r'<span class="together">(.*?)</math></span>(.*?)</span>', site.html())
    assert [(before[0], after) for before, after in kept] == [("(", "),"), ("<", ".")]


def test_the_corner_of_a_table_heads_nothing(tmp_path):
    site = build(
        tmp_path, {"index": "# Page\n\n| | a |\n|--|--|\n| b | 1 |\n"}, ["sphinx_book_theme", "theme_patches"], **THEME
    )
    assert re.findall(r"<(t[hd]) class=\"head", site.html()) == ["td", "th"]


def test_storage_that_throws_is_replaced(site):
    assert "Object.defineProperty(window, name" in site.html()


def test_a_template_that_the_theme_has_no_use_for_is_a_warning(tmp_path, monkeypatch):
    from tiny_gpt_book import theme_patches

    monkeypatch.setitem(theme_patches.TEMPLATES, "no-such.html", [("a", "b")])
    site = build(tmp_path, {"index": "# Page\n"}, ["sphinx_book_theme", "theme_patches"], **THEME)
    assert "WARNING: the theme has no use for a template no-such.html any more" in site.warnings


def test_a_build_that_writes_no_page_has_nothing_to_say(monkeypatch):
    from tiny_gpt_book import theme_patches

    said = []
    monkeypatch.setattr(theme_patches.LOG, "warning", lambda text, *args, **_: said.append(text % args))
    loader = theme_patches.MendedLoader([])
    templates = SimpleNamespace(loaders=[loader])
    app = SimpleNamespace(builder=SimpleNamespace(format="html", templates=templates))
    theme_patches.report_unasked(app)  # with nothing changed, Sphinx asks for no template at all
    assert said == []
    loader.unasked.discard("search.html")
    theme_patches.report_unasked(app)
    assert len(said) == len(theme_patches.TEMPLATES) - 1


def test_only_what_pages_ask_for_is_published(site):
    names = [path.name for path in (site.outdir / "_static").rglob("*")]
    assert not [n for n in names if n.startswith("fontawesome.js") or n.endswith((".map", ".ttf"))]


def test_a_mend_that_finds_nothing_is_a_warning(tmp_path, monkeypatch):
    from tiny_gpt_book import theme_patches

    monkeypatch.setitem(theme_patches.TEMPLATES, "static/webpack-macros.html", [("no such thing", "")])
    site = build(tmp_path, {"index": "# Page\n"}, ["sphinx_book_theme", "theme_patches"], **THEME)
    assert "WARNING: nothing in the theme's static/webpack-macros.html matches 'no such thing'" in site.warnings
