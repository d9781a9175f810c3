"""One build at a time, and none that begins where another broke off.

A second build of the same folder waits for the first; a lock that the operating system drops with its process cannot
be left behind. Sphinx repeats no warning of a page that has not changed, so after a build that did not end well (a
warning, a failed cell, Ctrl-C) the next one reads every page again: _build/complete is there only after a good one.
"""

from pathlib import Path

from filelock import FileLock, Timeout
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def complete(app) -> Path:
    return Path(app.outdir).parent / "complete"


def wait_for_other(app, config):
    folder = Path(app.outdir).parent
    folder.mkdir(parents=True, exist_ok=True)
    app.single_build_lock = FileLock(folder / "building.lock")  # let go when the application or its process ends
    try:
        app.single_build_lock.acquire(blocking=False)
    except Timeout:
        LOG.info("Another build of this book is running: waiting until it has ended.")
        app.single_build_lock.acquire()


def read_all_after_failure(app, env, added, changed, removed):
    if app.builder.format != "html":
        return []
    whole = complete(app).exists()
    complete(app).unlink(missing_ok=True)
    return [] if whole else list(env.found_docs)


def end(app, exception):
    # the count that Sphinx itself makes its exit status of, which it does only after this event
    if app.builder.format == "html" and not exception and not app._warncount:
        complete(app).touch()
    app.single_build_lock.release()


def connect(app, on):
    on("config-inited", wait_for_other)
    on("env-get-outdated", read_all_after_failure)
    on("build-finished", end)
