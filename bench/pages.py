"""What a page of the built book weighs and how soon it can be used: the table that `make bench` adds to its results.

A page can be used when its script has run and all its widgets have started. Twice: here, and as on a modest phone
(10 Mbit/s, 40 ms, a processor four times slower). Served from the loopback, compressed as any host would.
"""

import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from chromium import ARGS, BOOK, Compressed, Server, find_chromium  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402

WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
const timer = setInterval(() => {
  const widgets = [...document.querySelectorAll(".static-widget")];
  const { domContentLoadedEventEnd } = performance.getEntriesByType("navigation")[0];
  if (!domContentLoadedEventEnd || widgets.some((w) => w.dataset.state !== "ready")) return;
  window.usable = widgets.length ? performance.now() : domContentLoadedEventEnd;
  clearInterval(timer);
}, 5);
"""


def visit(browser, url: str, slow: bool) -> dict:
    """One visit with nothing in the cache: requests, bytes over the wire, seconds until usable, layout shift."""
    context = browser.new_context()
    page = context.new_page()
    page.add_init_script(WATCH)
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    found = {"requests": 0, "bytes": 0}

    addresses = {}
    session.on(
        "Network.requestWillBeSent", lambda event: addresses.update({event["requestId"]: event["request"]["url"]})
    )

    def arrived(event):
        if addresses[event["requestId"]].startswith("http"):  # what is part of the page (data:) is not asked for
            found["requests"] += 1
            found["bytes"] += event["encodedDataLength"]

    session.on("Network.loadingFinished", arrived)
    if slow:
        rate = 10e6 / 8
        limits = {"offline": False, "latency": 40, "downloadThroughput": rate, "uploadThroughput": rate}
        session.send("Network.emulateNetworkConditions", limits)
        session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    page.goto(url, wait_until="load")
    page.wait_for_function("window.usable")
    page.wait_for_timeout(300)
    found |= {"seconds": page.evaluate("window.usable") / 1000, "shift": page.evaluate("window.shifted")}
    context.close()
    return found


def table(rounds: int = 3) -> list[str]:
    if not BOOK.exists():
        raise SystemExit("The book is not built: run `make book` first (`make bench` does).")
    lines = [
        "| page | requests | kB, compressed | usable here, s | 10 Mbit/s, 40 ms, CPU 4× slower, s | layout shift |",
        "|:--|--:|--:|--:|--:|--:|",
    ]
    server = Server(BOOK, Compressed)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(playwright), args=ARGS)
        for path in sorted(BOOK.glob("book/*.html")):
            visits = {
                slow: [visit(browser, f"{server.url}/book/{path.name}", slow) for _ in range(rounds)]
                for slow in (False, True)
            }
            one = visits[False][0]
            here, there = (statistics.median(v["seconds"] for v in visits[slow]) for slow in (False, True))
            shift = max(v["shift"] for several in visits.values() for v in several)
            weight = f"{one['requests']} | {one['bytes'] / 1000:.0f}"
            lines.append(f"| {path.stem} | {weight} | {here:.2f} | {there:.2f} | {shift:.3f} |")
        browser.close()
    server.shutdown()
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
