"""A second build waits for the first, and none begins where another broke off."""

import subprocess
import sys
import threading

from sphinx_project import build

WARNS = {"index": "# Page\n\n[](nowhere.md)\n", "other": "---\norphan: true\n---\n# Other\n"}


def holder(folder, then: str) -> subprocess.Popen:
    """Another process that takes the lock and then does something."""
    (folder / "_build").mkdir()
    code = f"import filelock; lock = filelock.FileLock({str(folder / '_build' / 'building.lock')!r}); lock.acquire(); "
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code + then], **pipes)


def test_a_second_build_says_that_it_waits_and_then_goes_on(tmp_path):
    with holder(tmp_path, "print(flush=True); input()") as other:
        other.stdout.readline()  # it has the lock
        timer = threading.Timer(1, other.communicate, ("\n",))
        timer.start()
        site = build(tmp_path, {"index": "# Page\n"}, ["single_build"])
        timer.join()
    assert site.status.count("Another build of this book is running") == 1
    assert "Page" in site.html()


def test_a_lock_that_was_left_behind_stops_nobody(tmp_path):
    with holder(tmp_path, "import os; os._exit(1)"):
        pass
    assert (tmp_path / "_build" / "building.lock").exists()
    assert "Another build" not in build(tmp_path, {"index": "# Page\n"}, ["single_build"]).status


def test_after_a_build_with_a_warning_every_page_is_read_again(tmp_path):
    assert "nowhere" in build(tmp_path, WARNS, ["single_build"]).warnings
    site = build(tmp_path, {}, ["single_build"])
    assert "nowhere" in site.warnings, "it is not forgotten"
    assert site.updated == {"index", "other"}
    assert build(tmp_path, {"index": "# Page\n"}, ["single_build"]).warnings == ""
    assert build(tmp_path, {}, ["single_build"]).updated == set()
