"""The style sheets are linked and current, and the palette's colours can be read on either ground."""

import re

import pytest
from sphinx_project import ROOT, build

from tiny_gpt import palette


def test_sheets_are_linked_after_all_others_and_are_what_the_sources_say(tmp_path):
    site = build(tmp_path, {"index": "# Page\n"}, ["style_sheets"])
    sheets = re.findall(r'<link rel="stylesheet"[^>]*href="_static/([^"?]+)', site.html())
    assert sheets[-2:] == ["palette.css", "book.css"]
    assert (site.outdir / "_static" / "palette.css").read_text() == palette.css()
    assert (site.outdir / "_static" / "book.css").read_text() == (ROOT / "book" / "assets" / "book.css").read_text()


def test_every_variable_that_the_sheet_uses_is_defined_somewhere():
    sheet = (ROOT / "book" / "assets" / "book.css").read_text()
    defined = set(re.findall(r"(--tg-[a-z-]+):", sheet + palette.css()))
    assert set(re.findall(r"var\((--tg-[a-z-]+)", sheet)) - defined == set()


def test_the_sheet_fetches_nothing():
    assert not re.search(r"@import|url\(|https?:", (ROOT / "book" / "assets" / "book.css").read_text())


def luminance(color: str) -> float:
    """As WCAG defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", ["ink", "q", "k", "v", "baseline"])
def test_contrast_of_ink_and_colours_that_text_is_set_in(name):
    light, dark = palette.COLORS[name]
    assert contrast(light, "#ffffff") >= (4.5 if name in ("ink", "q", "baseline") else 3)
    assert contrast(dark, "#121212") >= 4.5
