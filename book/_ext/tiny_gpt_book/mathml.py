"""All maths as MathML Core at build time, in a font served with the book: no JavaScript, and screen readers read it.

TeX that cannot be converted is a warning with its place, and so an error in a strict build. The font is the subset of
STIX Two Math that the pages need, cut at the end of the build; its source comes with the `ziamath` wheel.
"""

import html
import re
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import math_core
from docutils import nodes
from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.locale import _
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from .static_files import publish

LOG = logging.getLogger(__name__)
FAMILY = "STIX Two Math"
CSS = f"""\
@font-face {{
  font-family: "{FAMILY}";
  src: url("math.woff2") format("woff2");
  font-display: swap;
}}
math {{
  font-family: "{FAMILY}", "Cambria Math", math;
}}
/* a long equation scrolls in its own box, with its number beside it; the padding keeps tall signs from being cut */
div.math {{
  display: flex;
  flex-direction: row-reverse;
  align-items: center;
}}
div.math > .formula {{
  flex: 1;
  min-width: 0;
  overflow: auto hidden;
  padding-block: 0.35em;
}}
div.math > .eqno {{
  flex: none;
  padding-inline-start: 1em;
}}
"""

# Environments that number their lines or set themselves across the page. Here Sphinx numbers, and the box aligns.
WHOLE = {"align": "aligned", "alignat": "aligned", "flalign": "aligned", "eqnarray": "aligned", "split": "aligned"}
WHOLE |= {"gather": "gathered", "multline": "gathered", "equation": None}
ENVIRONMENT = re.compile(r"\\(begin|end)\{([a-z]+)\*?\}(?:(?<=\\begin\{alignat\})\{\d+\})?")


def plain(tex: str) -> str:
    """TeX as math-core takes it: one formula, whose lines are in an environment that does not number them."""

    def rename(match):
        which, name = match[1], match[2]
        if name not in WHOLE:
            return match[0]
        return f"\\{which}{{{WHOLE[name]}}}" if WHOLE[name] else ""

    parts = [ENVIRONMENT.sub(rename, part).strip() for part in re.split(r"\n\s*\n", tex.strip()) if part.strip()]
    tex = r" \\ ".join(parts)  # as in Sphinx, a blank line begins another line of the same formula
    return rf"\begin{{aligned}}{tex}\end{{aligned}}" if at_top_level(tex) else tex


def at_top_level(tex: str) -> bool:
    """Whether a line break or an alignment mark stands outside every environment and group."""
    depth = 0
    for token in re.findall(r"\\begin\b|\\end\b|\\\\|\\.|[{}&]", tex, flags=re.S):
        depth += (token in (r"\begin", "{")) - (token in (r"\end", "}"))
        if depth == 0 and token in (r"\\", "&"):
            return True
    return False


@cache
def convert(tex: str, display: bool) -> str:
    converter = math_core.LatexToMathML(fancy_error=False)
    return converter.convert_with_local_state(plain(tex) if display else tex, displaystyle=display)


def mathml(node, display: bool) -> str:
    tex = node.astext()
    try:
        # a calligraphic letter comes with a selector of its variant; the font has one form of each, and no selectors
        return convert(tex, display).replace("\ufe00", "").replace("\ufe01", "")
    except math_core.LatexError as error:
        LOG.warning("TeX that math-core cannot convert: %s, in: %s", error, tex, location=node, type="mathml")
        return f'<code class="bad-tex">{html.escape(tex)}</code>'


def visit_inline(self, node):
    self.body.append(self.starttag(node, "span", "", CLASS="math notranslate nohighlight"))
    self.body.append(mathml(node, display=False) + "</span>")
    raise nodes.SkipNode


def visit_block(self, node):
    self.body.append(self.starttag(node, "div", "", CLASS="math notranslate nohighlight"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, _("Link to this equation"))
        self.body.append("</span>")
    # reachable by keyboard, since it may scroll
    self.body.append(f'<div class="formula" tabindex="0">{mathml(node, display=True)}</div></div>\n')
    raise nodes.SkipNode


def needed(pages: Iterable[str]) -> set[int]:
    """The characters of all formulas of the built site, and those that any formula may need."""
    # of a single letter a browser draws the mathematical italic, whatever the page has
    italics = {*range(0x1D434, 0x1D468), *range(0x1D6E2, 0x1D71C), 0x210E} - {0x1D455}
    greek = {*range(0x391, 0x3AA), *range(0x3B1, 0x3CA), 0x3D1, 0x3D5, 0x3F5} - {0x3A2}
    # and the radical sign of <msqrt>, which is in no text
    always = {*range(0x20, 0x7F), 0xA0, 0x2212, 0x221A} | greek | italics
    text = set()
    for page in pages:
        for formula in re.findall(r"<math\b.*?</math>", page, flags=re.S):
            text.update(html.unescape(re.sub(r"<[^>]*>", "", formula)))
    return always | {ord(character) for character in text}


def write_font(outdir: Path, characters: set[int]) -> None:
    wheel = Path(find_spec("ziamath").origin).parent  # found, not imported: only its font is wanted
    font = TTFont(wheel / "fonts" / "STIXTwoMath-Regular.ttf")
    missing = sorted(characters - font.getBestCmap().keys() - {0x2061, 0x2062, 0x2063, 0x2064, 0x200B, 0x0A})
    if missing:
        LOG.warning("%s has no glyph for %s", FAMILY, ", ".join(f"U+{c:04X}" for c in missing), type="mathml")
    narrow_radicals(font)
    # all names: the font's licence asks for its notice in every copy
    options = subset.Options(flavor="woff2", layout_features=["*"], name_IDs=["*"], hinting=False)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    font.flavor = "woff2"
    font.save(outdir / "_static" / "math.woff2")


def narrow_radicals(font: TTFont) -> None:
    """Give all sizes of the radical sign the width of the smallest.

    Chromium reserves for every root the width of the widest sign that the font has, whichever it then draws: a gap of
    half a letter after each small root.
    """
    radical = font.getBestCmap()[0x221A]
    variants = font["MATH"].table.MathVariants
    index = variants.VertGlyphCoverage.glyphs.index(radical)
    construction = variants.VertGlyphConstruction[index]
    names = {record.VariantGlyph for record in construction.MathGlyphVariantRecord}
    if construction.GlyphAssembly:
        names |= {part.glyph for part in construction.GlyphAssembly.PartRecords}
    width = font["hmtx"][radical][0]
    for name in names - {radical}:
        advance, bearing = font["hmtx"][name]
        factor = width / advance
        glyph = font["glyf"][name]
        glyph.coordinates.scale((factor, 1))
        glyph.coordinates.toInt()
        glyph.recalcBounds(font["glyf"])
        font["hmtx"][name] = (width, round(bearing * factor))


def finish(app, pages):
    """Cut the font down to what the pages need."""
    characters = needed(pages.values())
    done = Path(app.doctreedir, "math-font.txt")  # cutting takes seconds: only when other characters are needed
    wanted = Path(__file__).read_text(encoding="utf-8") + " ".join(f"{c:x}" for c in sorted(characters))
    if not (
        done.exists()
        and done.read_text(encoding="utf-8") == wanted
        and Path(app.outdir, "_static", "math.woff2").exists()
    ):
        write_font(Path(app.outdir), characters)
        done.write_text(wanted, encoding="utf-8")


def add_sheet(app):
    publish(app, "math.css", CSS)
    app.add_css_file("math.css")


def choose(app, config):
    config.html_math_renderer = "mathml"  # and so Sphinx puts no MathJax script on any page
    config.myst_update_mathjax = False


def connect(app, on):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    on("config-inited", choose)
    on("builder-inited", add_sheet)
