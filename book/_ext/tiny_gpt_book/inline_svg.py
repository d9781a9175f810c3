"""Figures as SVG in the page itself: they take the page's font and theme, and say what they show to a screen reader.

An <img> is a document of its own, which the page's style sheets do not reach. Here each SVG image becomes an <svg>
element: its ids are made the figure's own, each palette colour becomes the CSS variable of its name, its ground is
transparent and its text takes the page's font. The figure's alt text becomes its label. An image without alt text, of
whatever format, is a warning.
"""

import itertools
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from tiny_gpt import palette

LOG = logging.getLogger(__name__)
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
HREFS = ("href", f"{{{XLINK}}}href")
# the first of several meanings with the same pair of colours stands for them all
VARIABLES = {light.lower(): f"var(--tg-{name})" for name, (light, _) in reversed(palette.COLORS.items())}
HEX = re.compile(r"#[0-9a-f]{6}\b", re.I)
FONT = re.compile(r"font-family: [^;]*")
# matplotlib's sheet. Within a page it would be the whole page's: each such figure that comes or goes, as a widget's
# still picture does, has all elements styled anew. What it sets is inherited, so the figure's root can have it.
FOR_ALL = re.compile(r"\s*\*\s*{([^{}]*)}\s*")
WHITE = re.compile(r"fill: ?(#ffffff|#fff|white)\b")


def inline(source: str, prefix: str, alt: str) -> str:
    """The SVG file's text as an element of a page; `prefix` begins each of its ids."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(source)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag == f"{{{SVG}}}metadata" or is_ground(child):
                parent.remove(child)
            elif child.tag == f"{{{SVG}}}style" and (rule := FOR_ALL.fullmatch(child.text or "")):
                root.set("style", f"{rule[1].strip()}; {root.get('style', '')}".rstrip("; "))
                parent.remove(child)
    for parent in root.iter(f"{{{SVG}}}g"):
        ruled = parent.find(f"{{{SVG}}}rect") is not None or parent.find(f"{{{SVG}}}path") is not None
        for text in parent.findall(f"{{{SVG}}}text"):
            if not ruled:  # the rule of a root or a fraction stays where it is, and so must what it belongs to
                flow(text)
    used = set()
    for element in root.iter():
        for name, value in element.attrib.items():
            used.update(re.findall(r"url\(#([^)]+)\)", value))
            if name in HREFS and value.startswith("#"):
                used.add(value[1:])
    for element in root.iter():
        for name, value in list(element.attrib.items()):
            if name == "id":
                if value in used:
                    element.set("id", prefix + value)
                else:
                    del element.attrib["id"]
            elif name in HREFS:
                if value.startswith("#"):
                    element.set(name, f"#{prefix}{value[1:]}")
            else:
                element.set(name, themed(re.sub(r"url\(#", f"url(#{prefix}", value)))
        if element.tag == f"{{{SVG}}}style" and element.text:
            element.text = themed(element.text)
    root.set("class", "inline-figure")
    root.set("role", "img")
    root.set("aria-label", alt)
    return ElementTree.tostring(root, encoding="unicode")


def is_ground(element) -> bool:
    """Whether this is the white rectangle that matplotlib draws under a whole figure."""
    shapes = list(element)
    return element.get("id") == "patch_1" and len(shapes) == 1 and bool(WHITE.search(shapes[0].get("style", "")))


def flow(text) -> None:
    """Let a line with mathematics in it run on in the page's font.

    matplotlib puts each of its characters where its own font would have it. Characters that stand one after the other
    are joined again, and a change of the baseline (an index) becomes a shift; stacked ones (a fraction) stay put.
    """
    spans = list(text)
    if not spans or any(span.tag != f"{{{SVG}}}tspan" or len((span.get("x") or "").split()) != 1 for span in spans):
        return
    across = [float(span.get("x")) for span in spans]
    if any(right <= left for left, right in itertools.pairwise(across)):
        return
    text.text = None
    last = baseline = None
    for span in spans:
        y = float(span.get("y", 0))
        span.tail = None
        if last is not None:
            del span.attrib["x"]
            span.attrib.pop("y", None)
            if y == baseline and span.get("style") == last.get("style"):
                last.text += span.text
                text.remove(span)
                continue
            if y != baseline:
                span.set("dy", f"{y - baseline:.4g}")
        last, baseline = span, y


def themed(value: str) -> str:
    value = HEX.sub(lambda match: VARIABLES.get(match[0].lower(), match[0]), value)
    return FONT.sub("font-family: var(--tg-figure-font)", value)


class InlineSvg(SphinxPostTransform):
    default_priority = 8  # after myst-nb has chosen one format of each output (4), before Sphinx copies images
    formats = ("html",)

    def run(self, **kwargs):
        for number, node in enumerate(list(self.document.findall(nodes.image))):
            alt = node.get("alt", "").strip()
            if not alt:
                LOG.warning("an image without alt text: %s", node["uri"], location=node, type="inline_svg")
            path = Path(self.app.srcdir, unquote(node["uri"]))
            if path.suffix != ".svg" or "://" in node["uri"]:
                continue
            try:
                markup = inline(path.read_text(encoding="utf-8"), f"f{number}-", alt)
            except (OSError, ElementTree.ParseError) as error:
                LOG.warning("an SVG that cannot be inlined: %s", error, location=node, type="inline_svg")
                continue
            node.replace_self(nodes.raw("", markup, format="html", classes=node["classes"]))


# a picture in a widget's still, which becomes part of the page as a figure's does: in its colours, with a description
STILL = re.compile(r'data-says="(?P<says>[^"]*)">(?P<svg><svg\b.*?</svg>)', re.S)


def inline_stills(app, still: str, prefix: str) -> str:
    """A widget's still with its pictures taken into the page; `prefix` begins their ids."""

    def picture(found: re.Match) -> str:
        return f'data-says="{found["says"]}">{inline(found["svg"], prefix, unescape(found["says"]))}'

    return STILL.sub(picture, still)


def connect(app, on):
    app.add_post_transform(InlineSvg)
    if "anywidget-still" in app.events.events:
        on("anywidget-still", inline_stills)
