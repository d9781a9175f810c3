"""What stands around the pages: policy, cards, 404.html, sitemap and PDF."""

import base64
import hashlib
import re
from html import unescape
from xml.etree import ElementTree

import pytest
from matplotlib import pyplot
from sphinx_project import build

SITE = ["solutions", "site_address", "site_files", "security_policy"]
CONTENTS = "\n```{toctree}\n:glob:\n*\npart/*\n```\n"  # the theme asks for contents
PAGES = {"index": "# Home\n\nWhat this is about.\n" + CONTENTS, "two": "# Two\n\nMore.\n"}


@pytest.fixture(autouse=True)
def no_figure_is_left():
    """A card keeps its figure for the next one; in a process of the tests it would be everybody's."""
    yield
    pyplot.close("all")


@pytest.fixture
def known(monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "Someone/the-book")
    return "https://someone.github.io/the-book/"


@pytest.fixture
def unknown(monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)


def test_policy_names_each_script_of_the_page_and_nothing_off_origin(tmp_path, unknown):
    html = build(tmp_path, PAGES, SITE, html_theme="sphinx_book_theme").html()
    policy = unescape(re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    scripts = re.findall(r"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", html, re.S)
    assert scripts
    for text in scripts:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in rules["script-src"]
    assert rules["script-src"].count("sha256-") == len(set(scripts))
    assert "unsafe-inline" not in rules["script-src"]
    assert "'unsafe-eval'" not in policy
    assert not re.search(r"https?:|\*", policy)
    # nothing that the policy is for comes before it, and the encoding stands where a browser looks for it
    assert html.index("Content-Security-Policy") < html.index("<script") < len(html)
    assert html.index("charset=") < html.index("Content-Security-Policy")
    assert html.index("charset=") < 1024


def test_a_second_build_has_one_policy(tmp_path, unknown):
    build(tmp_path, PAGES, SITE)
    assert build(tmp_path, PAGES, SITE).html().count("Content-Security-Policy") == 1


def test_known_address_is_in_the_sitemap_the_cards_and_404(tmp_path, known):
    site = build(tmp_path, PAGES, SITE)
    urls = [element.text for element in ElementTree.parse(site.outdir / "sitemap.xml").iterfind(".//{*}loc")]
    assert sorted(urls) == [f"{known}index.html", f"{known}two.html"]
    assert f"Sitemap: {known}sitemap.xml" in (site.outdir / "robots.txt").read_text()
    html = site.html()
    assert f'<link rel="canonical" href="{known}index.html" />' in html
    card = re.search(rf'property="og:image" content="{known}([^"]*)"', html)[1]
    assert (site.outdir / card).read_bytes().startswith(b"\x89PNG")
    assert 'property="og:description" content="What this is about.' in html
    assert 'href="/the-book/index.html"' in site.html("404"), "a host shows it at any depth"


def test_a_build_after_a_change_keeps_the_other_pages_in_the_sitemap(tmp_path, known):
    before = (build(tmp_path, PAGES, SITE).outdir / "sitemap.xml").read_text()
    site = build(tmp_path, {"index": "# Home\n\nSomething else.\n" + CONTENTS}, SITE)
    assert site.updated == {"index"}
    assert (site.outdir / "sitemap.xml").read_text() == before


def test_unknown_address_is_not_made_up(tmp_path, unknown):
    site = build(tmp_path, PAGES, SITE)
    assert not (site.outdir / "sitemap.xml").exists()
    assert (site.outdir / "robots.txt").read_text() == "User-agent: *\nAllow: /\n"
    assert "There is no such page" in site.html("404")
    assert not re.search(r'(href|src)="/', site.html("404")), "it is read from a folder, too"
    everything = site.html() + site.html("404")
    assert 'rel="canonical"' not in everything
    assert "og:image" not in everything


def test_pdf_is_linked_from_every_page_if_it_was_printed(tmp_path, unknown):
    pages = {"index": "# Home\n" + CONTENTS, "part/two": "# Two\n"}
    (tmp_path / "part").mkdir()
    assert "tiny-gpt.pdf" not in build(tmp_path, pages, SITE, html_theme="sphinx_book_theme").html()
    (tmp_path / "_build" / "tiny-gpt.pdf").write_bytes(b"%PDF")
    site = build(tmp_path, pages, SITE, html_theme="sphinx_book_theme")
    assert 'href="tiny-gpt.pdf"' in site.html()
    assert 'href="../tiny-gpt.pdf"' in site.html("part/two")
    assert (site.outdir / "tiny-gpt.pdf").read_bytes() == b"%PDF"
    (tmp_path / "_build" / "tiny-gpt.pdf").unlink()
    site = build(tmp_path, pages, SITE, html_theme="sphinx_book_theme")
    assert not (site.outdir / "tiny-gpt.pdf").exists()
    assert "tiny-gpt.pdf" not in site.html()
