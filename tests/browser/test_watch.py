"""The watch itself: what it must complain about on a page, it complains about."""

import pytest
from chromium import find_chromium

FINE = "<!doctype html><title>x</title><link rel=icon href='data:,'><p>fine"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("<script>console.error('bad')</script>", "console error: bad"),
        ("<script>console.warn('hm')</script>", "console warning: hm"),
        ("<script>throw new Error('thrown')</script>", "error: thrown"),
        ("<img src='gone.png' alt='x'>", "404: "),
        ("<script src='https://example.org/x.js'></script>", "off-origin: https://example.org/x.js"),
        ("<script>fetch('http://example.org/').catch(() => {})</script>", "off-origin: http://example.org/"),
        ("<style>p { background: url(https://example.org/x.png) }</style>", "off-origin: https://example.org/x.png"),
    ],
)
def test_it_complains(body, complaint, tmp_path, serve, watch):
    (tmp_path / "index.html").write_text(FINE + body)
    base = serve(tmp_path)
    watched = watch(base)
    watched.open(f"{base}/index.html")
    assert [c for c in watched.complaints if c.startswith(complaint)], watched.complaints


def test_it_is_content_with_a_quiet_page(tmp_path, serve, watch):
    (tmp_path / "index.html").write_text(FINE)
    base = serve(tmp_path)
    watched = watch(base)
    watched.open(f"{base}/index.html")
    assert watched.complaints == []


def test_a_browser_that_is_named_and_missing_is_an_error(monkeypatch):
    import types

    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    with pytest.raises(FileNotFoundError, match="CHROMIUM names"):
        find_chromium(types.SimpleNamespace())
