"""Figures are in the page, named, in the theme's colours and font, with ids of their own."""

import re
from xml.etree import ElementTree

import pytest
from sphinx_project import NOTEBOOK, build

from tiny_gpt.palette import COLORS

FIGURE = """
```{{code-cell}} python
---
mystnb:
  figure:
    name: {name}
    caption: What to see.
  image:
    alt: {alt}
---
fig, ax = plt.subplots()
ax.plot([0, 1], color=palette.COLORS["q"][0], marker="o")
ax.plot([1, 0], color=palette.COLORS["ffn"][0])
ax.imshow([[0.0, 1.0]], cmap="cividis", interpolation="nearest")
ax.set_xlabel("position $d_k$")
ax.set_ylabel("entropy")
plt.show()
```
"""
SETUP = """
# Page

```{code-cell} python
import matplotlib.pyplot as plt
from tiny_gpt import palette, figures
figures.use_book_style()
```
"""
PNG = """
```{code-cell} python
---
mystnb:
  image:
    alt: A red dot
---
from base64 import b64decode
from IPython.display import Image
Image(b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="))
```
"""
BY_HAND = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10">
<defs><linearGradient id="shade"><stop stop-color="#0072B2"/></linearGradient></defs>
<rect id="box" width="5" height="5" fill="#D55E00"/><circle r="2" fill="url(#shade)"/><path fill="#123456" d="M0 0"/>
<use href="#box"/></svg>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    (folder / "by_hand.svg").write_text(BY_HAND)
    text = (
        NOTEBOOK
        + SETUP
        + FIGURE.format(name="fig-a", alt='Two lines that "cross"')
        + FIGURE.format(name="fig-b", alt="B")
    )
    text += PNG + "\n![Boxes & arrows](by_hand.svg)\n"
    site = build(folder, {"index": text}, ["inline_svg"])
    assert site.warnings == ""
    return site.html()


@pytest.fixture(scope="module")
def figures(page):
    found = re.findall(r"<svg\b.*?</svg>", page, flags=re.S)
    assert len(found) == 3
    return found


def test_svg_is_in_the_page_and_png_stays_an_image(page, figures):
    assert re.findall(r'<img[^>]*src="([^"]*)"', page) != []
    assert ".svg" not in "".join(re.findall(r"<img[^>]*>", page))
    assert re.search(r'<img alt="A red dot"[^>]*\.png"', page)
    assert page.count("<figcaption>") == 2
    assert "data:image/png;base64" in figures[0], "a heat map keeps its raster"


def test_each_figure_says_what_it_shows(figures):
    labels = []
    for figure in figures:
        root = ElementTree.fromstring(figure)
        assert root.get("role") == "img"
        labels.append(root.get("aria-label"))
    assert labels == ['Two lines that "cross"', "B", "Boxes & arrows"]


def test_ids_are_unique_on_the_page_and_every_reference_finds_its_id(page, figures):
    ids = re.findall(r'\sid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for figure in figures:
        own = set(re.findall(r'\sid="([^"]+)"', figure))
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', figure))
        assert used, "the test's figures do refer to ids"
        assert used == own, "no reference into the void or into another figure, and no id for nothing"


def test_palette_colours_become_variables_and_others_stay(figures):
    for figure in figures:
        for light, _ in COLORS.values():
            assert light.lower() not in figure.lower(), light
    assert "var(--tg-q)" in figures[0]
    assert "var(--tg-ffn)" in figures[0]
    assert "var(--tg-ink)" in figures[0], "axes and text follow the theme"
    assert "#123456" in figures[2]


def test_ground_is_transparent(figures):
    assert not re.search(r"fill: ?(#fff|white)", figures[0])


def test_no_sheet_in_a_figure_styles_the_page(page, figures):
    assert "<style" not in "".join(figures)
    root = ElementTree.fromstring(figures[0])
    assert root.get("style") == "stroke-linejoin: round; stroke-linecap: butt", "inherited by what is drawn"
    assert ElementTree.fromstring(figures[2]).get("style") is None


def test_a_style_of_the_figures_own_stays_and_goes_before_its_sheet():
    from tiny_gpt_book.inline_svg import inline

    sheet = "<style>*{stroke-linecap: butt}</style>"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg" style="stroke-linecap: round">{sheet}</svg>'
    assert 'style="stroke-linecap: butt; stroke-linecap: round"' in inline(svg, "f0-", "x")


def test_text_is_text_in_the_pages_font(figures):
    assert ">entropy</text>" in figures[0]
    # "position $d_k$": matplotlib places each character, the page lets them run on
    label = re.search(r"<text[^>]*>(<tspan[^>]*>position.*?)</text>", figures[0], flags=re.S)[1]
    assert re.sub(r"<[^>]*>", "", label).split() == ["position", "dk"]
    assert label.count(" x=") == 1
    assert re.search(r'dy="[\d.]+"[^>]*>k<', label), "the index is below the line"
    fonts = set(re.findall(r"font-family: ([^;\"]*)", figures[0]))
    assert fonts == {"var(--tg-figure-font)"}
    assert "DejaVu" not in figures[0]


def test_stacked_characters_stay_where_they_are():
    from tiny_gpt_book.inline_svg import inline

    spans = [("0", "0", "a"), ("5", "-3", "2"), ("5", "3", "i")]
    body = "".join(f'<tspan x="{x}" y="{y}">{c}</tspan>' for x, y, c in spans)
    result = inline(f'<svg xmlns="http://www.w3.org/2000/svg"><g><text>{body}</text></g></svg>', "f0-", "x")
    assert body in result


def test_characters_under_a_root_stay_under_its_rule():
    from tiny_gpt_book.inline_svg import inline

    body = '<text><tspan x="0" y="0">√</tspan><tspan x="7" y="0">2</tspan></text><path d="M 7 -9 h 5"/>'
    result = inline(f'<svg xmlns="http://www.w3.org/2000/svg"><g>{body}</g></svg>', "f0-", "x")
    assert 'x="7"' in result


def test_the_same_figure_is_the_same_text(tmp_path, figures):
    text = NOTEBOOK + SETUP + FIGURE.format(name="fig-a", alt='Two lines that "cross"')
    again = re.search(r"<svg\b.*?</svg>", build(tmp_path, {"index": text}, ["inline_svg"]).html(), flags=re.S)[0]
    assert again == figures[0]


def test_an_image_without_alt_text_is_a_warning(tmp_path):
    text = NOTEBOOK + SETUP + PNG.replace("    alt: A red dot\n", "    width: 10px\n")
    site = build(tmp_path, {"index": text}, ["inline_svg"])
    assert re.search(r"index\.md.*WARNING: an image without alt text", site.warnings)
    assert site.warnings.count("WARNING") == 1


def test_a_broken_svg_is_a_warning(tmp_path):
    (tmp_path / "broken.svg").write_text("<svg><g></svg>")
    site = build(tmp_path, {"index": "# Page\n\n![Broken](broken.svg)\n"}, ["inline_svg"])
    assert "WARNING: an SVG that cannot be inlined" in site.warnings


def test_style_has_no_effect_at_import():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    import tiny_gpt.figures  # noqa: F401

    assert dict(mpl.rcParams) == before
