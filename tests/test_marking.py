"""Marking a folder of submissions: what the table says, and that no submission harms another."""

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tiny_gpt import cli
from tiny_gpt.check import marking

VARIANTS = Path(__file__).parent / "variants"
SKELETON = Path(cli.__file__).with_name("skeleton.py")

needs_sandbox = pytest.mark.skipif(not marking.protects(), reason="no bubblewrap here, or it may not make a sandbox")


def test_submissions_lie_in_the_folder_or_in_one_for_each_learner(tmp_path):
    for name in ("b.py", "anna/my_tiny_gpt.py", "anna/deeper/not_this.py", "notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [str(p.relative_to(tmp_path)) for p in marking.submissions(tmp_path)] == ["anna/my_tiny_gpt.py", "b.py"]


@needs_sandbox
def test_a_table_of_all_and_none_harms_the_rest(tmp_path, capsys):
    folder, table = tmp_path / "handed_in", tmp_path / "marks.csv"
    (folder / "vandal").mkdir(parents=True)
    shutil.copy(VARIANTS / "compact.py", folder / "right.py")
    shutil.copy(SKELETON, folder / "begun.py")
    told = tmp_path / "told"
    told.touch()
    (folder / "vandal" / "gpt.py").write_text(
        "import pathlib, shutil\n"
        f"for path in ({str(folder)!r}, {str(tmp_path)!r}):\n"
        "    shutil.rmtree(path, ignore_errors=True)\n"
        f"pathlib.Path({str(told)!r}).write_text('x')\n"
    )
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(folder), "--csv", str(table)])
    assert end.value.code == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["begun.py", "right.py", "vandal/gpt.py", "1"]
    assert lines[0].endswith("not written: the model")
    assert lines[1].endswith("all holds")
    assert lines[2].endswith("crashes")
    rows = list(csv.DictReader(table.open(encoding="utf-8")))
    assert [row["passed"] for row in rows] == ["False", "True", "False"]
    assert rows[0]["not written"] == "the model"
    assert rows[2]["findings"] == "crashes"
    # all is still there, and untouched
    assert sorted(p.name for p in folder.rglob("*.py")) == ["begun.py", "gpt.py", "right.py"]
    assert told.read_text() == ""


@needs_sandbox
def test_the_sandbox_has_no_network_and_hides_the_others(tmp_path):
    (tmp_path / "other.py").touch()
    spy = f"import os, socket; print(os.listdir({str(tmp_path)!r}), socket.if_nameindex())"
    command = [*marking._sandbox(tmp_path, None), sys.executable, "-c", spy]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[] [(1, 'lo')]\n"


def test_what_never_ends_is_ended(tmp_path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(1000)\n")
    one = marking.mark(sleeper, protected=False, seconds=4)
    assert not one.passed
    assert one.verdict == "not marked: it did not end within 4 seconds"


def test_a_file_without_a_model_is_told_by_its_own_name(tmp_path):
    other = tmp_path / "essay.py"
    other.write_text("print('{}')\n")
    one = marking.mark(other, protected=False)
    assert one.refused.startswith("essay.py has no class TinyGPT")


@pytest.mark.parametrize(("args", "said"), [(["nowhere"], "is no folder"), (["."], "no .py file")])
def test_wrong_folders_are_told(tmp_path, monkeypatch, capsys, args, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", *args])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_without_a_sandbox_it_asks_first(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").touch()
    monkeypatch.setattr(marking, "BUBBLEWRAP", "no-such-program")
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path)])
    assert end.value.code == 2
    assert "--unprotected" in capsys.readouterr().err
