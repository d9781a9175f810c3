"""A security policy in every page: it runs the scripts that the build put there, and asks no other server."""

import base64
import hashlib
import re

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


def finish(app, pages):
    for path, html in pages.items():
        pages[path] = guard(html)
