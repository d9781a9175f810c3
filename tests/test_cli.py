"""cli.py: the command as a reader runs it, in a process of its own."""

import io
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import tiny_gpt
from tiny_gpt.cli import main
from tiny_gpt.train import History, load_checkpoint

TEXT = "to be, or not to be: that is the question.\n" * 40
TINY = {"block-size": 8, "n-layer": 1, "n-head": 2, "n-embd": 8, "batch-size": 2, "eval-batches": 2, "device": "cpu"}
TINY = [str(part) for name, value in TINY.items() for part in (f"--{name}", value)]
SOURCE = str(Path(tiny_gpt.__file__).parents[1])


def start(*args, **kwargs):
    env = {name: value for name, value in os.environ.items() if name != "TINY_GPT_DATA"}
    env |= {"PYTHONPATH": os.pathsep.join(p for p in (SOURCE, env.get("PYTHONPATH")) if p), "COLUMNS": "200"}
    env |= kwargs.pop("env", {})
    command = [sys.executable, "-m", "tiny_gpt", *map(str, args)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, **kwargs)


def tiny_gpt_(*args, **kwargs):
    process = start(*args, **kwargs)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.fixture
def in_here(capsys):
    """``in_here(*args)``: the same without a process, which takes seconds to start: (exit code, stdout, stderr)."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return end.value.code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(in_here):
    """``refused(*args, says=...)``: exit code 2, nothing on stdout, one line on stderr that says it."""

    def check(*args, says):
        code, out, err = in_here(*args)
        assert (code, out) == (2, "")
        assert err.startswith("tiny-gpt: error: ")
        assert err.count("\n") == 1
        assert says in err

    return check


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "hamlet.txt"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory, text):
    out = tmp_path_factory.mktemp("cli") / "run"
    code, printed, err = tiny_gpt_(
        "train", "--out", out, "--data", text, *TINY, "--max-steps", 20, "--eval-every", 10, "--warmup-steps", 2
    )
    assert code == 0, err
    return out, printed, err


def test_train_leaves_a_run_behind_and_says_what_is_next(trained):
    out, printed, err = trained
    assert "hamlet.txt (the file that you named): 1,720 characters, 17 of them different." in printed
    assert f"tiny-gpt sample --out {out}" in printed
    assert "step 20: training loss" in err
    model, tokenizer, meta = load_checkpoint(out)
    assert tokenizer.vocab == "".join(sorted(set(TEXT)))
    assert (model.config.n_embd, model.config.bias, meta["train_config"]["batch_size"]) == (8, False, 2)
    assert History.load(out / "history.jsonl").eval_step == [0, 10, 20]


def test_sample_writes_the_prompt_and_the_continuation(trained, in_here):
    out, *_ = trained
    code, written, err = tiny_gpt_("sample", "--out", out, "--prompt", "to be", "--max-new-tokens", 30, "--seed", 5)
    assert (code, err) == (0, "")
    model, tokenizer, _ = load_checkpoint(out)
    ids = model.generate(tokenizer.encode("to be")[None], 30, generator=torch.Generator().manual_seed(5))
    assert written == tokenizer.decode(ids[0]) + "\n"
    again = in_here("sample", "--out", out / "last.pt", "--max-new-tokens", 10, "--temperature", 0, "--device", "cpu")
    assert again[0] == 0
    assert again[1].startswith("\n")


def test_each_character_is_shown_at_once(trained, monkeypatch):
    class Screen(io.StringIO):
        def __init__(self):
            super().__init__()
            self.shown = []

        def flush(self):
            self.shown.append(self.getvalue())

    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    with pytest.raises(SystemExit):
        main(["sample", "--out", str(trained[0]), "--prompt", "to", "--max-new-tokens", "9", "--device", "cpu"])
    text = screen.getvalue()
    assert len(text) == 2 + 9 + 1
    assert screen.shown[:9] == [text[: 3 + i] for i in range(9)]


@pytest.mark.slow
def test_a_reader_may_stop_listening(trained):
    with start("sample", "--out", trained[0], "--max-new-tokens", 10**9, "--seed", 1) as process:
        assert len(process.stdout.read(200)) == 200  # long before the end
        process.stdout.close()  # as `head` does
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 0


def test_help_names_flags_and_units(in_here, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, err = in_here("--help")
    assert (code, err) == (0, "")
    for present in ("train", "sample", "export", "check"):
        assert present in out
    assert "serve" not in out
    code, out, _ = in_here("train", "--preset", "gpu", "--help")
    assert code == 0
    for piece in ("--n-layer", "--learning-rate", "in tokens", "updates", "(default: 384)", "(default: 5000)"):
        assert piece in out
    assert "vocab" not in out.replace("that of the vocabulary comes from the text", "")
    code, out, _ = in_here("sample", "--help")
    assert "in tokens (characters)" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [(["train", "--n-head", "3"], "n_embd=128 is not divisible by n_head=3"),
     (["train", "--preset", "tpu"], "'tpu'"), (["train", "--nonsense"], "--nonsense"), ([], "train, sample"),
     (["train", "--nonsense"], "See tiny-gpt train --help"), (["export"], "RUN"),
     (["train", "--resume", "--from", "nowhere"], "there is no checkpoint nowhere"),
     (["train", "--max-steps"], "--max-steps"), (["train", "--beta1", "2"], "beta1 must lie in [0, 1), got 2.0"),
     (["train", "--data", "nowhere.txt"], "there is no file nowhere.txt"),
     (["sample", "--out", "nowhere"], "there is no checkpoint nowhere")],
)  # fmt: skip
def test_wrong_arguments_are_one_line(args, says, refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    refused(*args, says=says)
    assert not list(tmp_path.iterdir())


def test_debug_shows_the_traceback_beside_the_sentence(in_here):
    code, _, err = in_here("sample", "--out", "nowhere", "--debug")
    assert code == 2
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("tiny-gpt: error: there is no checkpoint")


def test_unknown_characters_in_the_prompt_are_shown(trained, refused):
    refused("sample", "--out", trained[0], "--prompt", "to bé", says="'é' not among the 17 characters")
    refused("sample", "--out", trained[0], "--prompt", "", says="the prompt is empty")
    refused("sample", "--out", trained[0], "--temperature", "-1", says="temperature must be 0 or more")


def test_a_truncated_checkpoint_is_one_line(trained, refused, tmp_path):
    path = tmp_path / "half.pt"
    path.write_bytes((trained[0] / "best.pt").read_bytes()[:2000])
    refused("sample", "--out", path, says="half.pt is damaged or not a checkpoint")


@pytest.mark.slow
def test_a_run_is_not_written_over_by_the_command(trained, text):
    code, _, err = tiny_gpt_("train", "--out", trained[0], "--data", text, *TINY)
    assert code == 2
    assert err.count("\n") == 1
    assert "already holds a run: resume it (--resume)" in err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_and_resume_with_the_runs_own_settings(text, in_here, tmp_path):
    out = tmp_path / "run"
    args = ("train", "--out", out, "--data", text, *TINY, "--max-steps", 600, "--eval-every", 50)
    unblock = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    process = start(*args, **unblock)
    end = time.monotonic() + 60
    while not (out / "last.pt").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in err
    assert "Traceback" not in err
    *_, meta = load_checkpoint(out / "last.pt")
    assert meta["step"] < 600
    code, printed, err = tiny_gpt_("train", "--out", out, "--data", text, "--resume")
    assert code == 0, err
    assert "Lowest validation loss" in printed
    *_, meta = load_checkpoint(out / "last.pt")
    assert meta["step"] == 600
    assert len(meta["history"].loss) == 600
    code, _, err = in_here("train", "--out", out, "--data", text, "--resume", "--max-steps", 700)
    assert code == 2
    assert "max_steps was 600, is 700" in err


def test_a_finished_run_goes_on_in_another_with_a_schedule_that_is_said(trained, text, in_here, refused, tmp_path):
    out, *_ = trained
    args = ("train", "--from", out, "--out", tmp_path / "longer", "--data", text, "--max-steps", 4, "--device", "cpu")
    code, printed, err = in_here(*args)
    assert code == 0, err
    assert f"begins with the weights of {out} after 20 updates" in printed
    assert "2 updates up to 0.001, then down to 0.0001 at update 4" in printed
    model, _, meta = load_checkpoint(tmp_path / "longer" / "last.pt")
    assert (model.config.n_embd, meta["train_config"]["batch_size"], meta["step"]) == (8, 2, 4)
    before, *_ = load_checkpoint(out / "last.pt")
    # four updates of AdamW move a weight by about four learning rates at most: they are the other run's weights still
    change = [(p - q).abs().max().item() for p, q in zip(model.parameters(), before.parameters(), strict=True)]
    assert 0 < max(change) < 10e-3
    refused("train", "--from", out, "--resume", "--out", tmp_path / "x", "--data", text, says="give one of the two")
    assert "n_embd is 8 there, is 16" in in_here(*args, "--n-embd", 16, "--out", tmp_path / "x")[2]


def test_help_and_version_need_no_pytorch(in_here):
    code = (
        "import sys\nfrom tiny_gpt.cli import main\ntry:\n  main([{0!r}])\nfinally: assert 'torch' not in sys.modules"
    )
    for asked in ("--help", "--version"):
        subprocess.run([sys.executable, "-c", code.format(asked)], check=True, capture_output=True)
    assert in_here("--version") == (0, f"tiny-gpt {tiny_gpt.__version__}\n", "")


def test_line_ends_of_another_system_change_no_number_and_are_said(in_here, text, tmp_path):
    """The same text as Windows saves it: the same vocabulary, the same losses."""
    crlf = tmp_path / "crlf.txt"
    crlf.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    losses = []
    for file in (text, crlf):
        args = ("train", "--data", file, "--out", tmp_path / file.stem, *TINY, "--max-steps", 2)
        code, printed, err = in_here(*args)
        assert code == 0, err
        losses.append(History.load(tmp_path / file.stem / "history.jsonl").loss)
    assert losses[0] == losses[1]
    assert "the byte-order mark was left out and 40 line ends of another system became \\n" in printed


def test_a_prompt_is_taken_in_the_form_that_the_model_knows(in_here, tmp_path):
    path = tmp_path / "cafe.txt"
    path.write_text("caf\u00e9 noir, caf\u00e9 cr\u00e8me. " * 40, encoding="utf-8")
    assert in_here("train", "--data", path, "--out", tmp_path / "run", *TINY, "--max-steps", 1)[0] == 0
    write = ("sample", "--out", tmp_path / "run", "--max-new-tokens", 0, "--device", "cpu", "--prompt")
    assert in_here(*write, "cafe\u0301") == (0, "caf\u00e9\n", "")


def test_a_file_that_hides_the_package_is_pointed_out(in_here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = in_here("start", "my_gpt.py")
    assert (code, err) == (0, "")
    code, _, err = in_here("start", "tiny_gpt.py")
    assert code == 0
    assert "tiny_gpt.py in this folder hides the book's package" in err
    assert "my_gpt.py" in err


def test_a_full_disk_is_named_and_leaves_nothing(in_here, trained, text, tmp_path, monkeypatch):
    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    new = tmp_path / "new"
    for args, file in (
        (("start", new / "my_gpt.py"), "my_gpt.py"),
        (("export", trained[0], new / "m.safetensors", "--data", text), "m.safetensors"),
        (("train", "--out", new, "--data", text, *TINY, "--max-steps", 1), "history.jsonl"),
    ):
        new.mkdir(exist_ok=True)
        code, _, err = in_here(*args)
        assert code == 2
        assert f"{new / file} could not be written (No space left on device), and nothing of it is left" in err
        assert not list(new.iterdir())
    monkeypatch.undo()
    assert in_here("train", "--out", new, "--data", text, *TINY, "--max-steps", 1)[0] == 0


def test_importing_the_package_is_only_importing():
    code = (
        "import sys, torch; state = torch.get_rng_state(); import tiny_gpt, tiny_gpt.data, tiny_gpt.train\n"
        "assert torch.equal(state, torch.get_rng_state())\n"
        "print([m for m in ('matplotlib', 'tyro', 'safetensors', 'huggingface_hub', 'IPython') if m in sys.modules])"
    )
    env = {**os.environ, "PYTHONPATH": SOURCE}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_a_sentence(text, tmp_path, trained, refused, in_here):
    refused("sample", "--out", trained[0], "--device", "cuda", says="there is no device 'cuda' here")
    code, _, err = in_here("train", "--data", text, "--out", tmp_path / "run", *TINY, "--device", "cuda")
    assert code == 2
    assert "there is no device 'cuda' here" in err


def test_nothing_to_add_is_the_prompt_alone(trained, in_here):
    out, *_ = trained
    written = in_here("sample", "--out", out, "--prompt", "to be", "--max-new-tokens", 0, "--device", "cpu")
    assert written == (0, "to be\n", "")


@pytest.mark.slow
def test_errors_are_a_sentence_also_where_boxes_cannot_be_drawn():
    code, _, err = tiny_gpt_("train", "--foo", env={"PYTHONIOENCODING": "ascii"})
    assert code == 2
    assert err.startswith("tiny-gpt: error: Unrecognized options: --foo")


@pytest.mark.slow
def test_a_terminal_without_a_character_shows_its_number(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("→é\n" * 200, encoding="utf-8")
    env = {"PYTHONIOENCODING": "ascii"}
    assert tiny_gpt_("train", "--data", path, "--out", tmp_path / "run", *TINY, "--max-steps", 1, env=env)[0] == 0
    write = ("sample", "--out", tmp_path / "run", "--prompt", "→é", "--max-new-tokens", 0, "--device", "cpu")
    assert tiny_gpt_(*write, env=env) == (0, "\\u2192\\xe9\n", "")


def test_a_file_to_begin_with(in_here, refused, tmp_path):
    mine = tmp_path / "my_gpt.py"
    code, out, _ = in_here("start", mine)
    assert code == 0
    assert f"Next: tiny-gpt check {mine}" in out
    assert f"tiny-gpt train --model {mine}" in mine.read_text()
    code, out, _ = in_here("check", mine)
    assert code == 1
    assert "not written yet" in out.lower()
    mine.write_text("x = 1  # hours of work\n")
    refused("start", mine, says="exists and is left as it is")
    assert mine.read_text() == "x = 1  # hours of work\n"


def test_a_loss_that_hardly_falls_has_no_minus_before_its_zeros(trained, text, in_here, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    path.touch()
    monkeypatch.setattr("tiny_gpt.weights.export", lambda *_, **__: (2.0, 1.99999))
    _, printed, _ = in_here("export", trained[0], path, "--data", text)
    assert "2.0000 nats a character, +0.0000 by the rounding" in printed
    assert "the same 20 batches" in printed


def test_export_writes_one_file_and_prints_what_the_rounding_costs(trained, text, in_here, refused, tmp_path):
    out, _, _ = trained
    path = tmp_path / "m.safetensors"
    code, printed, err = in_here("export", out, path, "--int8", "--data", text)
    assert (code, err) == (0, "")
    assert path.is_file()
    first, second = printed.splitlines()
    assert first.endswith("m.safetensors: 0.00 MB, int8.")
    after, change, before = map(float, re.findall(r"[-+]?\d+\.\d{4}", second))
    assert after - before == pytest.approx(change, abs=1.1e-4)
    code, written, err = in_here("sample", "--out", path, "--prompt", "to be", "--max-new-tokens", 5, "--seed", 1)
    assert (code, err) == (0, "")
    assert re.fullmatch(r"to be(.|\n){5}\n", written)
    refused("export", out / "last.pt", tmp_path / "no.safetensors", "--data", __file__, says="is not the one that")
    refused("export", tmp_path, tmp_path / "no.safetensors", "--data", text, says="there is no checkpoint")
    assert not (tmp_path / "no.safetensors").exists()
