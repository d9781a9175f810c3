"""What a site has besides its pages: cards for links, 404.html, sitemap.xml, robots.txt, and the book as a PDF.

sphinxext-opengraph, sphinx-notfound-page and sphinx-sitemap make the first three. Where the site's address is known
(site_address.py) they carry it; where it is not, nothing is made up: there is no sitemap then, and no card.
"""

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

from .solutions import KINDS


def configure(app, config):
    site = config.html_baseurl
    config.printed = pdf(app).stat().st_mtime_ns if pdf(app).exists() else 0
    config.ogp_site_url = config.ogp_canonical_url = site
    config.ogp_site_name = config.html_title or config.project
    # a picture in a card has to be named with its whole address
    config.ogp_social_cards = {"enable": bool(site), "font": "DejaVu Sans"}
    config.sitemap_url_scheme = "{link}"
    config.sitemap_excludes = ["404.html", "genindex.html", "search.html"]
    if not site:
        config.suppress_warnings = [*config.suppress_warnings, "sitemap.configuration"]
    # a host shows it at any depth, so its links start from the site's root
    config.notfound_urls_prefix = urlsplit(site).path or "/"
    home = f"{config.notfound_urls_prefix}{config.root_doc}.html"
    title = "There is no such page"
    config.notfound_context = {
        "title": title,
        "body": f'<h1>{title}</h1><p>Perhaps it has moved. Begin at <a href="{home}">the first page</a>, '
        "look in the contents, or search for a word of it.</p>",
    }


def pdf(app) -> Path:
    """Where `make pdf` puts the book that it prints from the built site; the next build takes it in."""
    return Path(app.outdir).parent / f"tiny-gpt{KINDS[app.config.solutions]}.pdf"


def link_to_print(app, pagename, templatename, context, doctree):
    if app.config.printed and "pathto" in context:
        context["theme_extra_footer"] = f'<a href="{context["pathto"](pdf(app).name, 1)}">The whole book as a PDF</a>'


def keep_sitemap(app):
    sitemap = Path(app.outdir, "sitemap.xml")
    app.earlier_sitemap = sitemap.read_text(encoding="utf-8") if sitemap.exists() else ""


def finish(app, pages):
    out, site = Path(app.outdir), app.config.html_baseurl
    published, sitemap = out / pdf(app).name, out / "sitemap.xml"
    if app.config.printed:
        shutil.copyfile(pdf(app), published)
    else:
        published.unlink(missing_ok=True)
    robots = "User-agent: *\nAllow: /\n"
    if site:
        # sphinx-sitemap lists the pages that were written just now, and a build after a change writes few
        if app.earlier_sitemap and sitemap.read_text(encoding="utf-8").count("<loc>") < len(app.env.found_docs):
            sitemap.write_text(app.earlier_sitemap, encoding="utf-8")
        robots += f"Sitemap: {site}sitemap.xml\n"
    else:
        sitemap.unlink(missing_ok=True)
        missing = out / "404.html"  # from a folder, too, it has to find its files: they lie beside it
        pages[missing] = re.sub(r'\b(href|src)="/', r'\1="', pages[missing])
    (out / "robots.txt").write_text(robots, encoding="utf-8")


def connect(app, on):
    for extension in ("sphinxext.opengraph", "notfound.extension", "sphinx_sitemap"):
        app.setup_extension(extension)
    app.add_config_value("printed", 0, "html")
    on("config-inited", configure)
    on("builder-inited", keep_sitemap)
    on("html-page-context", link_to_print)
