"""One style sheet and one script for every page, and fonts of the icons that pages show: few requests, few bytes.

The theme and its extensions bring some twenty files a page. Here they are joined, in the order in which the page would
have loaded them, into `_static/bundle.css` and `_static/bundle.js`; what a single page needs besides (its widgets, the
search) stays apart. The theme's rules for 2000 icons, and its fonts of them (300 kB), are cut down to those in use.
The script is deferred: a page is read before it is made to move. Works under any path and from file://.
"""

import base64
import hashlib
import io
import posixpath
import re
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from sphinx.util import logging

LOG = logging.getLogger(__name__)
# what the theme's template links by itself, before and after the files of all extensions; theme_patches takes it out
FIRST_SHEETS = ["basic.css", "styles/pydata-sphinx-theme.css"]  # styles/theme.css only imports the first
LAST_SCRIPTS = ["scripts/bootstrap.js", "scripts/pydata-sphinx-theme.js"]
OWN = "widgets/"  # files of a page's own
# Scripts in the page itself that say which page it is: only the theme's switch of versions would ask.
OF_THE_PAGE = "DOCUMENTATION_OPTIONS."
ICON = re.compile(r"(?:\.fa-[\w-]+:before,?)+\{content:\"\\[0-9a-f]+\"\}")
URL = re.compile(r"url\(\s*(['\"]?)(?!data:|[a-z]+:|/|#)([^'\")?#]+)([^'\")]*)\1\s*\)")


def parts(files) -> list[str]:
    """The files among these that all pages share, in their order; a script in the page is its text after a colon."""
    found = []
    for file in sorted(files, key=lambda file: file.priority):
        body = file.attributes.get("body", "")
        if file.filename and not own(file):
            found.append(str(file.filename).removeprefix("_static/"))
        elif body and not body.startswith(OF_THE_PAGE):
            found.append(f":{body}")
    return list(dict.fromkeys(found))


def own(file) -> bool:
    return OWN in str(file.filename)


def join(app, pagename, templatename, context, doctree):
    """Let the page ask for the bundles, and remember what they are to hold."""
    if app.builder.format != "html" or "css_files" not in context:
        return
    held = {"css": parts(context["css_files"]), "js": parts(context["script_files"])}
    known = app.builder.__dict__.setdefault("bundles", held)
    for kind, names in held.items():
        if names != known[kind]:
            LOG.warning(
                "%s asks for other files than the pages before it, and one bundle.%s serves all: %s",
                *(pagename, kind, " ".join(set(names) ^ set(known[kind]))),
                type="bundle",
            )
    for kind in ("css_files", "script_files"):
        context[kind][:] = filter(own, context[kind])  # the page's lists: Sphinx has others for the next page
    app.add_css_file("bundle.css", priority=100)
    app.add_js_file("bundle.js", priority=100, loading_method="defer")


def sheet(static: Path, names: list[str]) -> str:
    """The style sheets as one, in which addresses start from its own place."""
    texts = []
    for name in names:
        here = posixpath.dirname(name)

        def moved(match, here=here):
            return f'url("{posixpath.normpath(posixpath.join(here, match[2]))}{match[3]}")'

        texts.append(URL.sub(moved, (static / name).read_text(encoding="utf-8")))
    return "\n".join(texts)


def script(static: Path, names: list[str]) -> str:
    """The scripts as one. A script in strict mode stays so for itself only because it is not the first."""
    texts = [name[1:] if name.startswith(":") else (static / name).read_text(encoding="utf-8") for name in names]
    return "\n;\n".join(re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.M).strip() for text in texts) + "\n"


def icons(pages: str, css: str) -> str:
    """The sheet without the rules of icons that no page and no script names."""
    used = set(re.findall(r"\bfa-[\w-]+", pages))
    return ICON.sub(lambda rule: rule[0] if used & set(re.findall(r"fa-[\w-]+", rule[0])) else "", css)


def cut_font(path: Path, characters: set[int]) -> bytes:
    font = TTFont(path)
    options = subset.Options(flavor="woff2", name_IDs=["*"], layout_features=[], hinting=False)
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes=characters)
    cutter.subset(font)
    font.flavor = "woff2"
    out = io.BytesIO()
    font.save(out)
    return out.getvalue()


def cut_fonts(static: Path, css: str, cache: Path) -> str:
    """The sheet with each icon font in it, cut down to the characters that the sheet still shows."""
    characters = {int(code, 16) for code in re.findall(r'"\\([ef][0-9a-f]{3})"', css)}
    characters |= {ord(character) for character in css if "\ue000" <= character <= "\uf8ff"}
    css = re.sub(r',\s*url\("vendor/[^"]*\.ttf"\)\s*format\("truetype"\)', "", css)
    for name in sorted(set(re.findall(r'url\("(vendor/fontawesome/[^"]*\.woff2)"\)', css))):
        whole = static / name
        key = hashlib.sha256(whole.read_bytes() + repr(sorted(characters)).encode()).hexdigest()[:16]
        kept = cache / f"{whole.stem}-{key}.woff2"  # cutting takes a second: once for each set of icons
        if not kept.exists():
            kept.write_bytes(cut_font(whole, characters))
        css = embed(css, name, kept)
    return css


def embed(css: str, name: str, font: Path) -> str:
    """The sheet with the font itself in the place of its address: text never moves because a font came late."""
    data = base64.b64encode(font.read_bytes()).decode()
    return css.replace(f'url("{name}")', f'url("data:font/woff2;base64,{data}")')


def finish(app, pages):
    """Write the bundles, and have every page ask for their present state, also one that was not written again."""
    known = getattr(app.builder, "bundles", None)
    if known is None:
        return
    static = Path(app.outdir, "_static")
    sheets, scripts = FIRST_SHEETS + known["css"], known["js"] + LAST_SCRIPTS
    js = script(static, scripts)
    css = icons("".join(pages.values()) + js, sheet(static, sheets))
    css = cut_fonts(static, css, Path(app.doctreedir))
    if (static / "math.woff2").exists():
        css = embed(css, "math.woff2", static / "math.woff2")
    for kind, text in (("css", css), ("js", js)):
        (static / f"bundle.{kind}").write_text(text, encoding="utf-8")
        version = hashlib.sha256(text.encode()).hexdigest()[:8]
        pattern = re.compile(rf'(?<=_static/bundle\.{kind})(\?v=\w*)?(?=")')
        for path, page in pages.items():
            pages[path] = pattern.sub(f"?v={version}", page)
    for name in [*sheets, *scripts, "styles/theme.css"]:
        if not name.startswith(":"):
            (static / name).unlink(missing_ok=True)
    for font in (static / "vendor").rglob("*.woff2"):
        font.unlink()


def connect(app, on):
    on("html-page-context", join)
