"""What a site needs around its pages: a security policy, cards for links, the PDF, 404.html, robots.txt, sitemap.xml.

Where the site's address is known (address.py), the cards, the sitemap and the page for what is not there carry it;
where it is not, nothing is made up: no sitemap then, and addresses stay relative.
"""

import base64
import hashlib
import re
import shutil
from html import escape
from pathlib import Path

# What a page may load: files of the site, and what its own scripts make (the widgets' modules and workers are blobs,
# the engine's kernel is WebAssembly). Scripts that stand in a page are named one by one, by their hashes. Styles in
# the page are allowed: figures are inline SVG, which carries its colours so. No form sends anything elsewhere.
POLICY = {
    "default-src": "'none'",
    "script-src": "'self' blob: 'wasm-unsafe-eval'",
    "worker-src": "blob:",
    "connect-src": "'self' blob: data:",
    "style-src": "'self' 'unsafe-inline' blob:",
    "img-src": "'self' data: blob:",
    "font-src": "'self' data:",
    "form-action": "'self'",
    "base-uri": "'self'",
}
META = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.S | re.I)
DATA = re.compile(r'type="(?:application|text)/(?!javascript)')  # a block of data is not run
MISSING = "404"
PDF = "tiny-gpt.pdf"  # `make pdf` prints it from the built site, beside it; the next build takes it in


def policy(html: str) -> str:
    """The policy of one page, for its `content` attribute: POLICY, and the hash of each script that stands in it."""
    scripts = SCRIPT.findall(html)
    inline = [text for attributes, text in scripts if "src=" not in attributes and not DATA.search(attributes)]
    hashes = {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inline}
    allowed = " ".join([POLICY["script-src"], *(f"'sha256-{value}'" for value in sorted(hashes))])
    return "; ".join(f"{name} {value}" for name, value in {**POLICY, "script-src": allowed}.items())


def guard(html: str) -> str:
    """The page with its policy before anything that the policy is for."""
    html = META.sub("", html)
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(html)}">\n'
    # the encoding has to stand within the first kilobyte, and the policy is longer
    return re.sub(r'(<meta charset="[^"]*"\s*/?>\s*)', lambda match: match[0] + meta, html, count=1)


def configure(app, config):
    printed = Path(app.outdir).parent / PDF
    config.printed = printed.stat().st_mtime_ns if printed.exists() else 0
    config.ogp_site_url = config.html_baseurl
    config.ogp_canonical_url = config.html_baseurl
    config.ogp_site_name = config.html_title or config.project
    # a picture in a card has to be named with its whole address
    config.ogp_social_cards = {"enable": bool(config.html_baseurl), "font": "DejaVu Sans"}


def missing_page(app):
    """404.html, which a host shows for an address that is not there, with the search and the contents beside it."""
    home = f"{app.config.root_doc}.html"
    body = (
        "<h1>There is no such page</h1>"
        f'<p>Perhaps it has moved. Begin at <a href="{home}">the first page</a>, look in the contents, '
        "or search for a word of it.</p>"
    )
    yield MISSING, {"title": "There is no such page", "body": body}, "page.html"


def link_to_print(app, pagename, templatename, context, doctree):
    if app.config.printed and "pathto" in context:
        context["theme_extra_footer"] = f'<a href="{context["pathto"](PDF, 1)}">The whole book as a PDF</a>'


def finish(app, exception):
    if exception or app.builder.format != "html":
        return
    out, site = Path(app.outdir), app.config.html_baseurl
    if app.config.printed:
        shutil.copyfile(out.parent / PDF, out / PDF)
    else:
        (out / PDF).unlink(missing_ok=True)
    for path in out.rglob("*.html"):
        if "_static" in path.relative_to(out).parts:
            continue
        html = path.read_text(encoding="utf-8")
        guarded = guard(html)
        if path == out / f"{MISSING}.html" and site and "<base " not in html:
            # a host shows it at any depth, so its links have to start from the site's own address
            guarded = guarded.replace("<head>", f'<head>\n<base href="{escape(site)}">', 1)
        if guarded != html:
            path.write_text(guarded, encoding="utf-8")
    robots = "User-agent: *\nAllow: /\n"
    if site:
        pages = sorted(app.env.found_docs)
        targets = map(app.builder.get_target_uri, pages)
        urls = "".join(f"  <url><loc>{escape(site + target)}</loc></url>\n" for target in targets)
        xmlns = "http://www.sitemaps.org/schemas/sitemap/0.9"
        sitemap = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="{xmlns}">\n{urls}</urlset>\n'
        (out / "sitemap.xml").write_text(sitemap, encoding="utf-8")
        robots += f"Sitemap: {site}sitemap.xml\n"
    else:
        (out / "sitemap.xml").unlink(missing_ok=True)
    (out / "robots.txt").write_text(robots, encoding="utf-8")


def setup(app):
    app.setup_extension("address")
    app.setup_extension("sphinxext.opengraph")
    app.add_config_value("printed", 0, "html")
    app.connect("html-page-context", link_to_print)
    app.connect("config-inited", configure, priority=600)  # after address.py
    app.connect("html-collect-pages", missing_page)
    app.connect("build-finished", finish, priority=950)  # after bundle.py has changed the pages
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
