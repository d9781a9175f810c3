"""Marking a folder of submissions: what the table says, and that no submission harms another."""

import csv
import json
import os
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


def handed_in(folder: Path, **files: str) -> list[str]:
    """Write files, by name and content, and say which of them are submissions."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return [str(p.relative_to(folder)) for p in marking.submissions(folder)]


def test_submissions_lie_in_the_folder_or_in_one_for_each_learner(tmp_path):
    files = dict.fromkeys(["b.py", "anna/my_tiny_gpt.py", "anna/deeper/not_this.py", "notes.txt"], "")
    assert handed_in(tmp_path, **files) == ["anna/my_tiny_gpt.py", "b.py"]


def test_of_several_files_in_a_learners_folder_those_that_define_a_gpt_are_submissions(tmp_path):
    gpt = "import helper\n\nclass TinyGPT(helper.Base):\n    pass\n"
    bob = {"bob/main.py": gpt, "bob/helper.py": "# class TinyGPT is in main.py\nclass TinyGPTs: ..."}
    cleo = dict.fromkeys(["cleo/one.py", "cleo/two.py"], "class Model: ...")
    dora = dict.fromkeys(["dora/old.py", "dora/new.py"], "class GPT: ...")
    assert handed_in(tmp_path / "b", **bob) == ["bob/main.py"]
    assert handed_in(tmp_path / "c", **cleo) == ["cleo/one.py", "cleo/two.py"]  # none does: all
    assert handed_in(tmp_path / "d", **dora) == ["dora/new.py", "dora/old.py"]


def test_what_a_system_adds_is_no_submission(tmp_path):
    added = ["._b.py", ".venv/x.py", "__MACOSX/._b.py", "__MACOSX/x.py", "anna/._a.py", "anna/__init__.py"]
    assert handed_in(tmp_path, **dict.fromkeys([*added, "anna/a.py", "b.py"], "")) == ["anna/a.py", "b.py"]


def test_what_lies_beside_a_submission_can_be_imported_by_it(tmp_path):
    rest = (VARIANTS / "compact.py").read_text()
    bob = {"bob/main.py": f"import helper\nassert helper.two == 2\n{rest}", "bob/helper.py": "two = 2"}
    handed_in(tmp_path, **bob)
    one = marking.mark(tmp_path / "bob" / "main.py", hidden=tmp_path, protected=False)
    assert (one.submission, one.verdict) == ("bob/main.py", "all holds")


FORGER = """import json, os, signal
good = {"name": "x", "passed": True, "checked": [], "findings": [], "notes": [], "unwritten": []}
open(f"/proc/{os.getppid()}/fd/1", "w").write(json.dumps(good))
os.kill(os.getppid(), signal.SIGKILL)
"""


@needs_sandbox
def test_a_forged_report_of_a_check_that_was_killed_is_none(tmp_path):
    forger = tmp_path / "forger.py"
    forger.write_text(FORGER)
    one = marking.mark(forger, hidden=tmp_path)
    assert not one.passed
    assert one.refused.startswith("the check was broken off")


EMPTY = marking.Report("").as_dict()
NO_ID = json.dumps({**EMPTY, "findings": [{"id": 5, "evidence": "", "where": "", "follows": []}]})
NO_PART = json.dumps({**EMPTY, "unwritten": [5]})
PAINTS = json.dumps({**EMPTY, "unwritten": ["\x1b[1K"]})


@pytest.mark.parametrize(
    "said", ['{"passed": true}', "[" * 100_000, NO_ID, NO_PART, PAINTS], ids=["part", "deep", "id", "no part", "paints"]
)
@pytest.mark.parametrize("code", [0, 1])
def test_what_is_no_report_stops_nothing(said, code):
    with pytest.raises(ValueError, match="no report"):
        marking._understood(said, code)


@pytest.mark.parametrize(("code", "passed"), [(1, True), (0, False)])
def test_the_exit_code_must_agree_with_the_report(code, passed):
    report = marking.Report("x", unwritten=[] if passed else ["the model"])
    assert marking._understood(report.to_json(), 1 - code) == report
    with pytest.raises(ValueError, match="broken off"):
        marking._understood(report.to_json(), code)


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
        "1 / 0\n"
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


@needs_sandbox
@pytest.mark.parametrize("around", [Path(sys.prefix).parent, Path(cli.__file__).parents[1]], ids=["python", "package"])
def test_python_and_the_package_are_there_even_if_the_marked_folder_holds_them(around, tmp_path):
    script = "import torch, tyro, tiny_gpt.cli; print(tiny_gpt.cli.__file__)"
    command = [*marking._sandbox(around, tmp_path), sys.executable, "-P", "-c", script]
    environment = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == (f"{cli.__file__}\n", "")
    assert marking.starts(around)


@needs_sandbox
@pytest.mark.parametrize("marked", [".", "env/handed_in", "handed_in"])
def test_an_environment_under_tmp_is_there_and_the_submissions_are_not(tmp_path, monkeypatch, marked):
    folder, shown = tmp_path / marked, tmp_path / "shown"
    for made in (tmp_path / "env" / "bin", shown, folder):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "other.py").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    command = [*marking._sandbox(folder, shown), "find", str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    assert str(tmp_path / "env" / "bin") in found
    assert str(folder / "other.py") not in found


def test_where_python_cannot_start_in_the_sandbox_that_is_said_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").touch()
    monkeypatch.setattr(marking, "protects", lambda: True)
    monkeypatch.setattr(marking, "_sandbox", lambda hidden, shown: [sys.executable, "-c", "raise SystemExit(1)"])
    monkeypatch.setattr(marking, "mark", None)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path)])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Python does not start in the sandbox" in err


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no /proc here: the number of processes has no limit")
def test_the_number_of_processes_has_a_limit(monkeypatch):
    pytest.importorskip("resource")  # already here, since another user may not read where it is
    monkeypatch.setattr(marking, "PROCESSES", 20)
    bomb = "for i in $(seq 60); do sleep 1 & done; echo all"
    someone = {"user": 65534} if os.getuid() == 0 else {}  # for root itself there is no such limit
    done = subprocess.run(["sh", "-c", bomb], capture_output=True, text=True, preexec_fn=marking._limit, **someone)
    assert "all" not in done.stdout
    assert "fork" in done.stderr


def test_what_never_ends_is_ended(tmp_path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(1000)\n")
    one = marking.mark(sleeper, protected=False, seconds=4)
    assert not one.passed
    assert one.verdict == "not marked: it did not end within 4 seconds"


ANOTHER = "has no class TinyGPT, but My: for a class of another name there is tiny-gpt check FILE --model NAME"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no class TinyGPT, nor another model"),
        ("from torch import nn\nclass My(nn.Module): ...\n", ANOTHER),
        (
            "from torch import nn\nglobals()['\\x1bMy'] = nn.Module\n",
            ANOTHER.replace("My", "\N{REPLACEMENT CHARACTER}My"),
        ),
        ("\0", "is no Python file: it is not text in UTF-8"),
    ],
    ids=["nothing", "another", "paints", "no text"],
)
def test_a_file_without_a_model_is_told_by_its_own_name(tmp_path, text, says):
    other = tmp_path / "essay.py"
    other.write_text(text)
    assert marking.mark(other, protected=False).refused == f"essay.py {says}"


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


def fake(monkeypatch, marked=lambda file: marking.Mark(file.name, True)):
    """No file is really checked: for tests of what is around."""
    monkeypatch.setattr(marking, "mark", lambda file, **_: marked(file))


@pytest.mark.parametrize(
    ("table", "says"), [("nowhere/m.csv", "there is no folder"), ("handed_in", "cannot be written")]
)
def test_a_table_that_cannot_be_written_is_told_before_anything_is_marked(tmp_path, monkeypatch, capsys, table, says):
    handed_in(tmp_path, **{"handed_in/a.py": ""})
    fake(monkeypatch)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path / "handed_in"), "--unprotected", "--csv", str(tmp_path / table)])
    assert end.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert "Errno" not in err


def test_what_was_marked_before_an_interruption_is_in_the_table(tmp_path, monkeypatch):
    handed_in(tmp_path, **{"handed_in/a.py": "", "handed_in/b.py": ""})

    def interrupted(file):
        if file.name == "b.py":
            assert "a.py" in (tmp_path / "m.csv").read_text()  # at once, should even the process be killed
            raise KeyboardInterrupt
        return marking.Mark(file.name, True)

    fake(monkeypatch, interrupted)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path / "handed_in"), "--unprotected", "--csv", str(tmp_path / "m.csv")])
    assert end.value.code == 130
    assert [row["submission"] for row in csv.DictReader((tmp_path / "m.csv").open())] == ["a.py"]
