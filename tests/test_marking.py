"""Marking: what is taken for a submission, what the table says, and that no submission harms another, or you."""

import csv
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tiny_gpt import cli, marking
from tiny_gpt.check.report import Finding, Report
from tiny_gpt.marking import Mark, Submission, marks, sandbox
from tiny_gpt.marking.submissions import SMALL, beside

VARIANTS = Path(__file__).parent / "variants"
SKELETON = Path(cli.__file__).with_name("skeleton.py")

needs_sandbox = pytest.mark.skipif(not sandbox.protects(), reason="no bubblewrap here, or it may not make a sandbox")


def handed_in(folder: Path, **files: str) -> list[str]:
    """Write files, by name and content, and say which of them are submissions."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    found = marking.submissions(folder, folder.with_name(f"{folder.name}.unpacked"))
    return [one.name for one in found if not one.refused]


# --- What was handed in -----------------------------------------------------------------------------------------


def test_submissions_lie_in_the_folder_or_in_one_for_each_learner(tmp_path):
    files = dict.fromkeys(["b.py", "anna/my_gpt.py", "anna/deeper/not_this.py", "c/deeper/gpt.ipynb"], "")
    assert handed_in(tmp_path, **files) == ["anna/my_gpt.py", "b.py", "c/deeper/gpt.ipynb"]


def test_of_several_files_in_a_learners_folder_those_that_define_a_gpt_are_submissions(tmp_path):
    gpt = "import helper\n\nclass TinyGPT(helper.Base):\n    pass\n"
    bob = {"bob/main.py": gpt, "bob/helper.py": "# class TinyGPT is in main.py\nclass TinyGPTs: ..."}
    cleo = dict.fromkeys(["cleo/one.py", "cleo/two.py"], "class Model: ...")
    dora = dict.fromkeys(["dora/old.py", "dora/new.py"], "class GPT: ...")
    emil = {"emil/try.py": "", "emil/deep/gpt.ipynb": json.dumps({"source": ["x\n", "class GPT: ..."]}, indent=1)}
    assert handed_in(tmp_path / "b", **bob) == ["bob/main.py"]
    assert handed_in(tmp_path / "c", **cleo) == ["cleo/one.py", "cleo/two.py"]  # none does: all
    assert handed_in(tmp_path / "d", **dora) == ["dora/new.py", "dora/old.py"]
    assert handed_in(tmp_path / "e", **emil) == ["emil/deep/gpt.ipynb"]


def test_what_a_system_adds_is_no_submission(tmp_path):
    added = ["._b.py", ".venv/x.py", "__MACOSX/._b.py", "__MACOSX/x.py", "anna/._a.py", "anna/__init__.py"]
    assert handed_in(tmp_path, **dict.fromkeys([*added, "anna/a.py", "b.py"], "")) == ["anna/a.py", "b.py"]


def test_every_entry_gets_a_row_and_the_exit_code_says_that_not_all_were_marked(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "handed_in"
    handed_in(folder, **dict.fromkeys(["a.py", "b.PY", "c.py.txt", "d.ipynb", "essay.docx", "old.rar"], ""))
    handed_in(folder, **{"e.txt": "class TinyGPT: ...", "none/notes.txt": "", "no.zip": "no zip"})
    with zipfile.ZipFile(folder / "f.zip", "w") as packed:
        packed.writestr("fay/gpt.py", "class GPT: ...")
        packed.writestr("../../out.py", "class GPT: ...")
    os.mkfifo(folder / "pipe.py")
    (folder / "link.py").symlink_to("/etc/passwd")
    outcome(monkeypatch)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(folder), "--unprotected"])
    assert end.value.code == 1
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    marked = [name for name, said in lines if said == "all holds"]
    assert marked == ["a.py", "b.PY", "c.py.txt", "d.ipynb", "e.txt", "f.zip/fay/gpt.py"]
    refused = {name: said for name, said in lines if said.startswith("not marked: ")}
    assert set(refused) == {"essay.docx", "old.rar", "none", "no.zip", "pipe.py", "link.py"}
    assert lines[-1] == ["6", "of 12 pass."]
    assert not list(tmp_path.rglob("out.py"))


def test_small_files_beside_a_submission_come_along_and_links_do_not(tmp_path):
    files = dict.fromkeys(["gpt.py", "helper.py", "data/meta.json", "large.bin", ".git/x"], "x")
    handed_in(tmp_path, **{f"anna/{name}": text for name, text in files.items()})
    (tmp_path / "anna" / "large.bin").write_bytes(bytes(SMALL + 1))
    (tmp_path / "anna" / "secret.py").symlink_to("/etc/passwd")
    (tmp_path / "anna" / "etc").symlink_to("/etc")
    one = Submission("anna/gpt.py", tmp_path / "anna" / "gpt.py", accompanied=True)
    found = [path.relative_to(tmp_path / "anna").as_posix() for path in beside(one)]
    assert found == ["gpt.py", "data/meta.json", "helper.py"]
    assert beside(Submission("gpt.py", one.file)) == [one.file]  # the rest is by others


# --- The sandbox ------------------------------------------------------------------------------------------------

ATTACKS = """
import ctypes, json, os, socket, subprocess
def size(path):
    written = 0
    try:
        for number in range(40):  # a file of its own each, since one has a limit as well
            with open(f"{path}/fill{number}", "wb") as file:
                for _ in range(16):
                    written += file.write(bytes(1 << 20))
    except OSError:
        pass
    return written
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
seen = {
    "capabilities": [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")],
    "remounted": ctypes.CDLL(None).mount(b"none", b"/", None, 32 | 4096, None) == 0,
    "namespace": subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode == 0,
    "environment": os.environ.get("SECRET"),
    "home": os.listdir(os.environ["HOME"]),
    "top": sorted({"var", "run", "srv", "mnt", "media", "boot", "opt"} & set(os.listdir("/"))),
    "markers home": sorted(os.listdir(HOME)) if os.path.isdir(HOME) else [],
    "spied": [path for path in SPIED if os.path.exists(path)],
    "network": socket.if_nameindex(),
    "processes": [name for name in os.listdir("/proc") if name.isdigit() and int(name) > os.getpid()],
    "filled": {path: size(path) for path in (".", "/tmp", "/dev/shm", "/", "/dev", "/usr")},
}
print(json.dumps(seen))
"""


@needs_sandbox
def test_the_attacks_fail(tmp_path, monkeypatch):
    """Each succeeded, as root, before the sandbox showed Python alone, without capabilities and with bounds."""
    copy, folder = tmp_path / "copy", tmp_path / "handed_in"
    copy.mkdir()
    handed_in(folder, **{"other.py": ""})
    (copy / "beside.txt").write_text("x")
    monkeypatch.setenv("SECRET", "word")
    home = Path.home()
    python = [Path(name) for name in (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), cli.__file__)]
    needed = {path.relative_to(home).parts[0] for path in python if path.is_relative_to(home)}
    spied = [str(folder / "other.py"), str(Path(__file__)), "/etc/passwd", str(copy)]
    done = sandbox.run([sys.executable, "-c", f"SPIED, HOME = {spied}, {str(home)!r}\n{ATTACKS}"], copy, hidden=folder)
    assert done.code == 0, done
    seen = json.loads(done.out)
    filled = seen.pop("filled")
    assert seen == {
        "capabilities": [0, 0, 0], "remounted": False, "namespace": False, "environment": None, "home": [], "top": [],
        "markers home": sorted(needed), "spied": [], "network": [[1, "lo"]], "processes": [],
    }  # fmt: skip
    assert filled["."] + filled["/tmp"] <= sandbox.WRITTEN
    assert 0 < filled["/dev/shm"] <= sandbox.WRITTEN
    assert filled["/"] == filled["/dev"] == filled["/usr"] == 0
    assert [path.name for path in copy.iterdir()] == ["beside.txt"]


FLOOD = "import os\nwhile True: os.write(1, bytes(1 << 20))"
DAEMON = "import os, time\nif os.fork() == 0: os.setsid(); time.sleep(1000)\nprint('done')"


@needs_sandbox
def test_a_flood_is_bounded_and_a_process_left_behind_holds_nothing_up(tmp_path):
    flood = sandbox.run([sys.executable, "-c", FLOOD], tmp_path, hidden=None)
    assert flood.out is None
    assert flood.code not in (0, None)  # it was ended by the limit of the file, not by the clock
    done = sandbox.run([sys.executable, "-c", DAEMON], tmp_path, hidden=None, seconds=60)
    assert (done.code, done.out) == (0, "done\n")


@needs_sandbox
@pytest.mark.parametrize("around", [Path(sys.prefix).parent, Path(cli.__file__).parents[1]], ids=["python", "package"])
def test_python_and_the_package_are_there_even_if_the_marked_folder_holds_them(around):
    assert sandbox.starts(around)


@pytest.mark.parametrize("marked", [".", "env/handed_in", "handed_in"])
def test_a_marked_folder_is_shown_empty_and_the_environment_around_or_in_it_is_not(tmp_path, monkeypatch, marked):
    environment, folder = tmp_path / "env", tmp_path / marked
    monkeypatch.setattr(sys, "prefix", str(environment))
    parts = sandbox._shown(folder)
    shown = parts.index(str(environment))
    assert parts[shown - 1 : shown + 1] in (["--ro-bind-try", str(environment)], ["--ro-bind", str(environment)])
    if marked == "env/handed_in":
        assert parts.index("--tmpfs") > shown
        assert parts[parts.index("--tmpfs") + 1] == str(folder)
    else:  # nothing that is shown holds it
        assert "--tmpfs" not in parts


def test_systemd_holds_all_processes_together_where_it_can(tmp_path, monkeypatch):
    fake_one = tmp_path / "systemd-run"
    fake_one.write_text("#!/bin/sh\nwhile [ $1 != -- ] && [ $1 != true ]; do shift; done\nexit $CODE\n")
    fake_one.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for code, begins in (("0", "systemd-run"), ("1", sandbox.BUBBLEWRAP)):
        monkeypatch.setenv("CODE", code)
        sandbox._bounded.cache_clear()
        line = sandbox.command_line(tmp_path, None)
        assert line[0] == begins
        assert (f"MemoryMax={sandbox.MEMORY}" in line) == (f"TasksMax={sandbox.PROCESSES}" in line) == (code == "0")
    sandbox._bounded.cache_clear()


def test_where_python_cannot_start_in_the_sandbox_that_is_said_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").touch()
    monkeypatch.setattr(sandbox, "protects", lambda: True)
    monkeypatch.setattr(sandbox, "starts", lambda hidden: False)
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
    monkeypatch.setattr(sandbox, "PROCESSES", 20)
    bomb = "for i in $(seq 60); do sleep 1 & done; echo all"
    someone = {"user": 65534} if os.getuid() == 0 else {}  # for root itself there is no such limit
    done = subprocess.run(["sh", "-c", bomb], capture_output=True, text=True, preexec_fn=sandbox._limit, **someone)
    assert "all" not in done.stdout
    assert "fork" in done.stderr


# --- Marks ------------------------------------------------------------------------------------------------------

FORGER = """import json, os, signal
good = {"name": "x", "passed": True, "checked": [], "findings": [], "notes": [], "unwritten": []}
open(f"/proc/{os.getppid()}/fd/1", "w").write(json.dumps(good))
os.kill(os.getppid(), signal.SIGKILL)
"""


@needs_sandbox
def test_a_table_and_pages_of_all_and_none_harms_the_rest(tmp_path, capsys):
    folder, table, pages = tmp_path / "handed_in", tmp_path / "marks.csv", tmp_path / "pages"
    right = (VARIANTS / "compact.py").read_text()
    told = tmp_path / "told"
    told.touch()
    handed_in(folder, **{
        "begun.py": SKELETON.read_text(),
        "forger.py": FORGER,
        "right/gpt.py": f"import helper\nassert open('two.txt').read() == helper.two\n{right}",
        "right/helper.py": "two = '2'",
        "right/two.txt": "2",
        "theirs.py": "from tiny_gpt import GPTConfig, TinyGPT\n",
        "vandal/gpt.py": (
            "import pathlib, shutil\n"
            f"for path in ({str(folder)!r}, {str(tmp_path)!r}):\n"
            "    shutil.rmtree(path, ignore_errors=True)\n"
            f"pathlib.Path({str(told)!r}).parent.mkdir(parents=True, exist_ok=True)\n"
            f"pathlib.Path({str(told)!r}).write_text('x')\n"
            "raise ValueError('<b>')\n"
        ),
    })  # fmt: skip
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(folder), "--csv", str(table), "--report", str(pages)])
    assert end.value.code == 1
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == ["begun.py", "forger.py", "right/gpt.py", "theirs.py", "vandal/gpt.py", "1"]
    begun, forger, marked, theirs, vandal = [said for _, said in lines[:-1]]
    assert begun == "not written: the model"
    assert forger.startswith("not marked: the check was broken off")
    assert marked == "all holds"
    assert "not yours" in theirs
    assert vandal == "crashes"
    rows = list(csv.DictReader(table.open(encoding="utf-8-sig")))
    assert [row["passed"] for row in rows] == ["False", "False", "True", "False", "False"]
    assert rows[0]["not written"] == "the model"
    assert rows[4]["findings"] == "crashes"
    assert told.read_text() == ""
    assert len([path for path in folder.rglob("*") if path.is_file()]) == 7
    assert "all that was checked holds" in (pages / "right" / "gpt.py.html").read_text()
    assert "not yours" in (pages / "theirs.py.html").read_text()
    said = (pages / "vandal" / "gpt.py.html").read_text()
    assert "OSError" in said or "ValueError: &lt;b&gt;" in said
    assert "<b>" not in said


EMPTY = Report("").as_dict()
NO_ID = json.dumps({**EMPTY, "findings": [{"id": 5, "evidence": "", "where": "", "follows": []}]})
NO_PART = json.dumps({**EMPTY, "unwritten": [5]})
PAINTS = json.dumps({**EMPTY, "unwritten": ["\x1b[1K"]})
NO_WORDS = json.dumps({**EMPTY, "findings": [{"id": "crashes", "evidence": 5, "where": "", "follows": []}]})


@pytest.mark.parametrize(
    "said",
    ['{"passed": true}', "[" * 100_000, NO_ID, NO_PART, PAINTS, NO_WORDS],
    ids=["part", "deep", "id", "no part", "paints", "no words"],
)
@pytest.mark.parametrize("code", [0, 1])
def test_what_is_no_report_stops_nothing(said, code):
    with pytest.raises(ValueError, match="no report"):
        marks._understood(said, code)


@pytest.mark.parametrize(("code", "passed"), [(1, True), (0, False)])
def test_the_exit_code_must_agree_with_the_report(code, passed):
    report = Report("x", unwritten=[] if passed else ["the model"])
    assert marks._understood(report.to_json(), 1 - code) == report
    with pytest.raises(ValueError, match="broken off"):
        marks._understood(report.to_json(), code)


def outcome(monkeypatch, **findings):
    """Nothing is run; every check gives these findings."""
    report = Report("gpt.py", findings=[Finding("crashes", evidence) for evidence in findings.values()])
    monkeypatch.setattr(marks, "run", lambda *_, **__: sandbox.Outcome(int(not report.passed), report.to_json(), ""))


def test_what_is_absent_here_is_the_markers_matter(tmp_path, monkeypatch):
    file = tmp_path / "gpt.py"
    for text, says in (
        ("import no_such_module", "it imports no_such_module, which is neither installed here"),
        ("open('meta.json')", "it reads the file meta.json, which was not handed in beside it"),
    ):
        file.write_text(text)
        one = marking.mark(Submission("gpt.py", file), protected=False)
        assert one.refused.startswith(says)
        assert one.findings == ()
    outcome(monkeypatch, one="while the file was read: KeyError: 'x'")
    assert marking.mark(Submission("gpt.py", file)).findings == ("crashes",)


def test_a_flooded_report_is_none():
    with pytest.raises(ValueError, match="printed more"):
        marks._understood(None, 0)


@pytest.mark.parametrize("name", ["=1+1.py", "+1.py", "-1.py", "@x.py"])
def test_no_cell_of_the_table_is_a_formula(tmp_path, name):
    with marking.table(tmp_path / "m.csv") as add:
        add(Mark(name, False, refused="=1+1"))
        add(Mark("anna.py", True))
    data = (tmp_path / "m.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf")
    first, second = csv.DictReader(data.decode("utf-8-sig").splitlines())
    assert (first["submission"], first["not marked because"]) == (f"'{name}", "'=1+1")
    assert second["submission"] == "anna.py"


def test_a_name_like_an_option_is_a_file(tmp_path):
    file = tmp_path / "--help.py"
    file.write_text("")
    one = marking.mark(Submission(file.name, file), protected=False)
    assert one.refused == "--help.py has no class TinyGPT, nor another model"


def test_what_never_ends_is_ended(tmp_path):
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time\ntime.sleep(1000)\n")
    one = marking.mark(Submission("sleeper.py", sleeper), protected=False, seconds=4)
    assert not one.passed
    assert one.verdict == "not marked: it did not end within 4 seconds"


ANOTHER = "has no class TinyGPT, but My: for a class of another name there is tiny-gpt check FILE --model NAME"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "from torch import nn\nglobals()['\\x1bMy'] = nn.Module\n",
            ANOTHER.replace("My", "\N{REPLACEMENT CHARACTER}My"),
        ),
        ("\0", "is no Python file: it is not text in UTF-8"),
    ],
    ids=["paints", "no text"],
)
def test_a_file_without_a_model_is_told_by_its_own_name(tmp_path, text, says):
    other = tmp_path / "essay.py"
    other.write_text(text)
    assert marking.mark(Submission("essay.py", other), protected=False).refused == f"essay.py {says}"


@pytest.mark.parametrize(("args", "said"), [(["nowhere"], "is no folder"), (["."], "is empty")])
def test_wrong_folders_are_told(tmp_path, monkeypatch, capsys, args, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", *args, "--unprotected"])
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_without_a_sandbox_it_asks_first(tmp_path, monkeypatch, capsys):
    (tmp_path / "a.py").touch()
    monkeypatch.setattr(sandbox, "BUBBLEWRAP", "no-such-program")
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path)])
    assert end.value.code == 2
    assert "--unprotected" in capsys.readouterr().err


def fake(monkeypatch, marked=lambda file: Mark(file.name, True)):
    """No file is really checked: for tests of what is around."""
    monkeypatch.setattr(marking, "mark", lambda one, **_: marked(one.file))


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
        return Mark(file.name, True)

    fake(monkeypatch, interrupted)
    with pytest.raises(SystemExit) as end:
        cli.main(["mark", str(tmp_path / "handed_in"), "--unprotected", "--csv", str(tmp_path / "m.csv")])
    assert end.value.code == 130
    assert [row["submission"] for row in csv.DictReader((tmp_path / "m.csv").open(encoding="utf-8-sig"))] == ["a.py"]
