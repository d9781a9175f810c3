"""Maths becomes MathML with its numbers and references, bad TeX is a warning, and the font has every character."""

import html
import re

import pytest
from fontTools.ttLib import TTFont
from sphinx_project import build

MATHS = r"""
# Page

Inline $x_i$, $\mathcal{N}$ and $\mathbb{R}^{T\times d}$.

$$ S = \frac{QK^\top}{\sqrt{d}} $$ (eq-scores)

See {eq}`eq-scores` and {eq}`eq-second`.

```{math}
:label: eq-second
a &= b \\
c &= d
```

\begin{align}
e &= f \\
g &= h
\end{align}

$$
\begin{split} p &= q \\ r &= s \end{split}
$$

```{math}
u = 1

w = 2
```
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return build(tmp_path_factory.mktemp("maths"), {"index": MATHS}, ["mathml"])


def test_no_warnings_and_no_script(site):
    assert site.warnings == ""
    assert "mathjax" not in site.html().lower()


def test_every_formula_is_mathml_and_no_tex_is_left(site):
    page = site.html()
    body = page[page.index('class="body"') :]
    assert body.count("<math") == 3 + 5
    text = re.sub(r"<[^>]*>", " ", body)
    for tex in ("\\", "$$", "frac", "mathbb", "begin", "&amp;="):
        assert tex not in text, tex


def test_numbers_and_references(site):
    page = site.html()
    # the two labelled ones, and the align environment, which is numbered as in LaTeX, once and not by the line
    assert re.findall(r'class="eqno">\((\d)\)', page) == ["1", "2", "3"]
    for label in ("equation-eq-scores", "equation-eq-second"):
        assert f'id="{label}"' in page
        assert f'href="#{label}"' in page
    assert "<mtext>(1)</mtext>" not in page, "math-core must not number as well"


@pytest.mark.parametrize(
    ("tex", "rows"),
    [
        (r"a \\ b", 2),
        (r"a &= b \\ c &= d", 2),
        (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}", 2),
        (r"\begin{equation} a \end{equation}", 0),
        (r"\begin{gather*} a \\ b \\ c \end{gather*}", 3),
        ("u\n\nw\n \nz", 3),
        (r"{a}\{b\}", 0),
    ],
)
def test_lines_of_a_formula_stay_lines(tex, rows):
    from tiny_gpt_book import mathml

    assert mathml.convert(tex, True).count("<mtr") == rows


def test_bad_tex_is_a_warning_with_its_place(tmp_path):
    site = build(
        tmp_path, {"index": "# Page\n\nText.\n\nBad $\\nosuchthing{x}$ here.\n\n$$ \\frac{1}{ $$\n"}, ["mathml"]
    )
    assert re.search(r"index\.md:5: WARNING: TeX that math-core cannot convert: .*nosuchthing", site.warnings)
    assert site.warnings.count("WARNING") == 2
    assert "<merror" not in site.html()


def test_font_has_every_character_that_a_page_shows(site):
    cmap = TTFont(site.outdir / "_static" / "math.woff2").getBestCmap()
    formulas = " ".join(re.findall(r"<math\b.*?</math>", site.html(), flags=re.S))
    shown = set(html.unescape(re.sub(r"<[^>]*>", "", formulas))) - {"\n", "\u2061"}
    assert {ord(c) for c in shown} - cmap.keys() == set()
    assert shown >= {"ℝ", "⊤"}
    assert "<msqrt>" in formulas
    assert ord("√") in cmap, "the browser draws it for <msqrt>, though no text has it"
    italic = {0x1D44E + i for i in range(26)} - {0x1D455}  # a browser draws <mi>x</mi> as one of these
    assert italic - cmap.keys() == set()


def test_font_is_a_subset_with_its_mathematics(site):
    path = site.outdir / "_static" / "math.woff2"
    assert path.stat().st_size < 120_000
    assert "MATH" in TTFont(path)


def test_all_sizes_of_the_radical_sign_have_one_width(site):
    font = TTFont(site.outdir / "_static" / "math.woff2")
    variants = font["MATH"].table.MathVariants
    index = variants.VertGlyphCoverage.glyphs.index(font.getBestCmap()[0x221A])
    names = [r.VariantGlyph for r in variants.VertGlyphConstruction[index].MathGlyphVariantRecord]
    assert len(names) > 2, "big roots are still drawn"
    assert len({font["hmtx"][name][0] for name in names}) == 1


def test_font_carries_its_licence(site):
    names = TTFont(site.outdir / "_static" / "math.woff2")["name"]
    assert "Open Font License" in names.getDebugName(13)


def test_font_follows_an_incremental_build(tmp_path):
    pages = {"index": "# One\n\n$x$", "other": "# Two\n\n$y$"}
    first = build(tmp_path, pages, ["mathml"])
    assert 0x2AAF not in TTFont(first.outdir / "_static" / "math.woff2").getBestCmap()
    second = build(tmp_path, {"other": "# Two\n\n$a \\preceq b \\oplus c$"}, ["mathml"])
    assert second.updated == {"other"}
    cmap = TTFont(second.outdir / "_static" / "math.woff2").getBestCmap()
    formula = re.search(r"<math\b.*?</math>", second.html("other"))[0]
    assert {ord(c) for c in html.unescape(re.sub(r"<[^>]*>", "", formula))} - cmap.keys() == set()


def test_a_character_that_the_font_lacks_is_a_warning(tmp_path):
    site = build(tmp_path, {"index": "# Page\n\n$x + \\text{字}$"}, ["mathml"])
    assert "no glyph for U+5B57" in site.warnings
