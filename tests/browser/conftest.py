"""The built book in a browser, with everything else on the network cut off, and a watch over what its pages do."""

import contextlib
import os
import sys
from pathlib import Path

import pytest
from chromium import ARGS, BOOK, ROOT, Server, find_chromium

sys.path.insert(0, str(ROOT / "tests"))  # sphinx_project, whatever part of the tests is run


@pytest.fixture(scope="session")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = find_chromium(playwright)
        if path is None:
            reason = "No Chromium was found: THE BUILT BOOK IS NOT TESTED. Install one, or name one with CHROMIUM=..."
            if os.environ.get("CI", "").lower() not in ("", "0", "false"):
                pytest.fail(reason)
            pytest.skip(reason)
        browser = playwright.chromium.launch(executable_path=path, args=ARGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def book() -> Path:
    if not (BOOK / "index.html").exists():
        pytest.fail("The book is not built: run `make book` first (`make test` does).")
    return BOOK


@pytest.fixture(scope="session")
def book_url(book):
    server = Server(book)
    yield server.url
    server.shutdown()


@pytest.fixture
def serve():
    """A function that serves a folder and returns its address."""
    servers = []

    def start(folder: Path) -> str:
        servers.append(Server(folder))
        return servers[-1].url

    yield start
    for server in servers:
        server.shutdown()


class Watched:
    """A page of the browser, and everything about it that a reader should never meet: `complaints`."""

    def __init__(self, page, allowed: str):
        self.page, self.allowed = page, allowed
        self.complaints: list[str] = []
        page.on("console", self.on_console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("requestfailed", lambda request: self.complaints.append(f"failed: {request.url} {request.failure}"))
        page.on("response", self.on_response)
        page.route("**/*", self.on_request)

    def on_console(self, message):
        if message.type in ("error", "warning", "assert"):
            self.complaints.append(f"console {message.type}: {message.text} ({message.location.get('url')})")

    def on_response(self, response):
        if response.status >= 400:
            self.complaints.append(f"{response.status}: {response.url}")

    def on_request(self, route):
        url = route.request.url
        if url.startswith((self.allowed, "data:", "blob:")):
            route.continue_()
        else:
            self.complaints.append(f"off-origin: {url}")
            route.abort()

    def open(self, url: str):
        self.page.goto(url, wait_until="load")
        self.page.evaluate("document.fonts.ready")
        self.page.wait_for_timeout(150)  # what the page does of its own accord once it is loaded
        return self.page


@pytest.fixture(scope="session")
def watching(browser):
    """A function for `with`: a watched page, closed at the end. `watching(allowed_prefix, **context_settings)`."""

    @contextlib.contextmanager
    def make(allowed: str, **settings):
        context = browser.new_context(**settings)
        context.set_default_timeout(90_000)  # a busy machine may take its time; what is never there fails all the same
        try:
            yield Watched(context.new_page(), allowed)
        finally:
            context.close()

    return make


@pytest.fixture
def watch(watching):
    """A function that makes watched pages, all closed after the test: `watch(allowed_prefix, **context_settings)`."""
    with contextlib.ExitStack() as stack:
        yield lambda allowed, **settings: stack.enter_context(watching(allowed, **settings))


@pytest.fixture(scope="session")
def axe() -> str:
    path = ROOT / "node_modules" / "axe-core" / "axe.min.js"
    if not path.exists():
        reason = "axe-core is not installed: ACCESSIBILITY IS NOT TESTED. Run `npm ci` (`make test` does)."
        if os.environ.get("CI", "").lower() not in ("", "0", "false"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path.read_text(encoding="utf-8")
