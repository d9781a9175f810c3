"""A browser and a server for the built book: where Chromium is, how it is started, and a folder on the loopback."""

import functools
import gzip
import http.server
import os
import shutil
import threading
import time
from pathlib import Path

from playwright.sync_api import Frame, Page, TimeoutError

TEXT = (".html", ".css", ".js", ".svg", ".json")
ROOT = Path(__file__).parent.parent.parent
BOOK = ROOT / "_build" / "html"

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge"]
PLACES = [
    "/usr/bin/chromium",
    "/snap/bin/chromium",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
]
# nothing of the browser's own may call out either; names resolve to nowhere, but for the loopback
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def find_chromium(playwright) -> str | None:
    """The browser named by CHROMIUM, one in a usual place, or Playwright's own."""
    named = os.environ.get("CHROMIUM")
    if named:
        found = shutil.which(named)
        if not found:
            raise FileNotFoundError(f"CHROMIUM names {named!r}, which is no program that can be run.")
        return found
    own = playwright.chromium.executable_path
    for place in [*map(shutil.which, NAMES), *PLACES, own]:
        if place and Path(place).is_file():
            return place
    return None


def wait_for_function(page: Page | Frame, expression: str, *, arg=None, timeout: float = 30_000):
    """Wait until the expression is true. Playwright's own asks by eval in the page, which the book's policy stops."""
    end = time.monotonic() + timeout / 1000
    while not (found := page.evaluate(expression, arg)):
        if time.monotonic() > end:
            raise TimeoutError(f"not true within {timeout:g} ms: {expression}")
        page.wait_for_timeout(50)
    return found


Page.wait_for_function = Frame.wait_for_function = wait_for_function


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


class Compressed(QuietHandler):
    """Text compressed, as any host sends it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        body, text = path.read_bytes(), path.suffix in TEXT
        body = gzip.compress(body, 6) if text else body
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Length", str(len(body)))
        if text:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """A folder on the loopback address."""

    daemon_threads = True

    def __init__(self, folder: Path, handler=QuietHandler):
        super().__init__(("127.0.0.1", 0), functools.partial(handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
