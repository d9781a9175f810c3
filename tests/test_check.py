"""check: exercises, reports, the process of its own, parts, the command. The mistakes themselves: test_mutation.py."""

import json
import os
import re
import signal
import site
import sys
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from tiny_gpt import GPTConfig, TinyGPT, bugs, heads, model, numpy_head
from tiny_gpt.check import (
    CAUSES,
    PARTS,
    Finding,
    Report,
    _check_here,
    check,
    exercise,
    explain,
    parts,
    process,
    subject,
)
from tiny_gpt.check.causes import SECTIONS
from tiny_gpt.check.file import check_file
from tiny_gpt.check.generation import chi_square_p
from tiny_gpt.check.process import in_own_process
from tiny_gpt.check.subject import SIZES, Subject, is_library
from tiny_gpt.check.trace import recorded
from tiny_gpt.cli import main

DOUBLES = {"doubles 2": lambda f: f(2) == 4, "doubles -1": lambda f: f(-1) == -2}
BOOK = Path(__file__).parent.parent / "book"


# --- Exercises --------------------------------------------------------------------------------------------------


def test_right_work_passes():
    report = exercise(lambda x: 2 * x, DOUBLES)
    assert report.passed
    assert "all 2 of 2" in str(report)


def test_a_failing_property_is_named_and_the_others_stand():
    report = exercise(lambda x: x * x, DOUBLES)
    assert not report.passed
    assert report.held == ["doubles 2"]
    assert report.failed == ["doubles -1"]
    assert "1 of 2" in str(report)


def test_an_error_in_the_readers_code_is_quoted():
    def broken(x):
        return x / 0

    report = exercise(broken, DOUBLES)
    assert not report.passed
    assert "ZeroDivisionError" in str(report)


def test_what_is_not_written_is_said_in_plain_words():
    def nothing(x): ...

    def ellipsis(x):
        return ...

    def refused(x):
        raise NotImplementedError

    for unwritten in (nothing, ellipsis, refused):
        report = exercise(unwritten, {"rows": lambda f: f(2).sum() == 1, **DOUBLES})
        assert not report.passed
        assert not report.written
        assert "not written yet" in str(report)
        assert "Error" not in str(report)


def test_returning_none_once_is_a_failure_and_not_unwritten():
    report = exercise(lambda x: 4 if x == 2 else None, DOUBLES)
    assert report.written
    assert report.failed == ["doubles -1"]


def test_a_missing_return_is_named_once():
    def forgot(x):
        2 * x

    said = str(exercise(forgot, DOUBLES))
    assert "not written" not in said
    assert said.count("Is a `return` missing?") == 1


def test_a_typo_is_quoted_once_with_its_line():
    def mistyped(x):
        return 2 * y  # noqa: F821

    report = exercise(mistyped, DOUBLES)
    assert report.failed == list(DOUBLES)
    assert str(report).count("NameError") == str(report).count("return 2 * y") == 1


def test_what_came_is_shown_and_the_wrong_kind_gets_one_sentence():
    assert "It returned 9." in str(exercise(lambda x: 9, DOUBLES))
    said = str(exercise(lambda x: "four", {"sums": lambda f: f(2).sum() == 4, "is short": lambda f: f(1).size == 1}))
    assert "It returned 'four'." in said
    assert "object has no attribute 'sum'" in said


def test_a_class_can_be_judged():
    class Adder:
        def __init__(self, n):
            self.n = n

        def __call__(self, x):
            return self.n + x

    assert exercise(Adder, {"adds": lambda cls: cls(2)(3) == 5}).passed


# --- The table of causes ----------------------------------------------------------------------------------------


def test_sections_are_headings_of_the_book_under_their_labels():
    for section in SECTIONS.values():
        page = (BOOK / f"{section.page}.md").read_text(encoding="utf-8")
        assert re.search(rf"^\({section.label}\)=\n#+ {re.escape(section.heading)}$", page, re.M), section


def test_every_bug_of_the_catalogue_can_be_named():
    assert set(bugs.CATALOGUE) <= set(CAUSES)


def test_hints_lead_and_give_no_code():
    for about in CAUSES.values():
        assert about.cause.endswith(".")
        assert "?" in about.hint or about.hint.endswith(".")
        assert not re.search(r"\w\(.*,.*\)|self\.\w+\(|\w = [a-z]+\(|@ |dim=|diagonal=", about.hint), about.id


def test_explain_says_all_three_and_refuses_what_it_does_not_know():
    said = explain("scale-missing")
    for part in (CAUSES["scale-missing"].cause, CAUSES["scale-missing"].hint, "chapter 2"):
        assert part in said
    with pytest.raises(ValueError, match="near it: mask-missing"):
        explain("mask-mising")


# --- Reports ----------------------------------------------------------------------------------------------------


def a_report():
    found = Finding("mask-missing", "position 0 reads <9>", "my.py, line 3", ["future-leak: 0.3"])
    return Report("Mine", ["loss"], [found], ["another design"], [])


def test_a_report_says_everything_once():
    said = str(a_report())
    for part in (
        "Mine: 1 finding",
        "mask-missing",
        "position 0 reads <9>",
        "my.py, line 3",
        "future-leak",
        "chapter 3",
    ):
        assert said.count(part) == 1, part
    assert max(map(len, said.splitlines())) <= 100


def test_a_reports_html_escapes_what_the_reader_wrote():
    page = a_report()._repr_html_()
    assert "&lt;9&gt;" in page
    assert "<9>" not in page


def test_json_and_back():
    report = a_report()
    made = json.loads(report.to_json())
    assert made["passed"] is False
    assert made["findings"][0]["id"] == "mask-missing"
    assert set(made["findings"][0]) >= {"id", "cause", "evidence", "section", "hint"}
    assert str(Report.from_dict(made)) == str(report)


def test_passed_needs_all_written():
    assert Report("a").passed
    assert not Report("a", unwritten=["generate"]).passed


# --- The instruments --------------------------------------------------------------------------------------------


def test_a_trace_follows_elements_through_every_movement():
    x = torch.randn(3, 11, 24)
    layer = nn.Linear(24, 24, bias=False)
    with recorded(3, 11, [x], [layer.weight]) as trace:
        y = layer(x)  # (B, T, C)
        right = y.view(3, 11, 4, 6).transpose(1, 2).contiguous()  # (B, H, T, D)
        wrong = y.view(3, 4, 11, 6)
    rows = trace.rows(trace.info(right).index)  # (B, H, T, D)
    expected = torch.arange(33).view(3, 1, 11, 1).expand(3, 4, 11, 6)
    assert torch.equal(rows, expected)
    assert not torch.equal(trace.rows(trace.info(wrong).index), expected)
    columns = trace.columns(trace.info(right).index)
    assert (columns == columns[:1, :, :1]).all()  # each head has its own, at every position
    assert len(columns.unique()) == 24


def test_the_test_of_frequencies_keeps_its_word():
    g = torch.Generator().manual_seed(0)
    p = torch.randn(30, generator=g).softmax(0)
    q = (p.log() / 1.5).softmax(0)

    def value(drawn_from):
        draws = torch.multinomial(drawn_from, 2000, replacement=True, generator=g)
        return chi_square_p(torch.bincount(draws, minlength=30), p)

    values = torch.tensor([value(p) for _ in range(200)])
    assert (values < 0.05).float().mean() < 0.12
    assert abs(values.median() - 0.5) < 0.15
    assert all(value(q) < 1e-6 for _ in range(20))


def test_a_check_leaves_torch_as_it_found_it():
    torch.manual_seed(3)
    before = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    M, C = bugs.plant("global-state", 2)
    assert [found.id for found in _check_here(M, C).findings] == ["global-state"]
    after = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_findings_of_two_checks_are_the_same():
    M, C = bugs.plant("mask-sees-next", 0)
    assert str(_check_here(M, C)) == str(_check_here(M, C))


def test_amplified_weights_have_the_spread_that_is_said():
    loud = Subject(TinyGPT, GPTConfig).amplified()
    assert abs(loud.wte.weight.std() - 1) < 0.1
    assert abs(loud.blocks[0].attn.qkv.weight.std() * 24**0.5 - 1.6) < 0.15


# --- A process of its own ---------------------------------------------------------------------------------------


def forward_that(act):
    class Mine(TinyGPT):
        def forward(self, idx, targets=None):
            act()
            return super().forward(idx, targets)

    return Mine


def loop():
    while True:
        pass


def storm():
    while True:
        print("x" * 1000)


@pytest.mark.parametrize(
    ("act", "id", "says"),
    [
        (lambda: os._exit(0), "crashes", "ended the whole process"),
        (lambda: sys.exit("no"), "crashes", "SystemExit"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "crashes", "SIGSEGV"),
        (lambda: 1 / 0, "crashes", "ZeroDivisionError"),
        (loop, "does-not-end", "no end after 6"),
        (storm, "prints-too-much", "characters"),
    ],
    ids=["os._exit", "sys.exit", "segfault", "error", "loop", "print storm"],
)
def test_whatever_forward_does_is_a_finding(act, id, says, capfd, monkeypatch):
    monkeypatch.setattr(process, "PATIENCE", 100)  # computing time alone counts, however busy the machine is
    report = check(forward_that(act), GPTConfig, seconds=6 if act is loop else 20)  # more than imports take
    assert [found.id for found in report.findings] == [id]
    assert says in report.findings[0].evidence
    assert capfd.readouterr().out == ""


def test_an_error_is_located_in_the_readers_line():
    report = check(forward_that(lambda: 1 / 0), GPTConfig)
    assert "test_check.py" in report.findings[0].where
    assert "1 / 0" in report.findings[0].where


def test_views_of_the_targets_are_right():
    """A loop's batches are contiguous, so the lesson's own line is no mistake."""

    class Mine(TinyGPT):
        def forward(self, idx, targets=None):
            if targets is not None:
                idx.view(-1), targets.view(-1)
            return super().forward(idx, targets)

    report = check(Mine, GPTConfig)
    assert report.passed, report
    assert "view size" not in str(check.drop_in(Mine, GPTConfig))


def test_a_loop_that_swallows_every_error_is_stopped_by_the_clock():
    def stubborn():
        while True:
            try:
                time.sleep(0.01)
            except BaseException:
                continue

    assert [f.id for f in check(forward_that(stubborn), GPTConfig, seconds=0.7).findings] == ["does-not-end"]


def test_a_process_that_the_readers_code_forks_does_not_report_too():
    forked = []
    report = check(forward_that(lambda: forked or forked.append(os.fork())), GPTConfig)
    assert report.passed, report


def test_a_report_counts_when_it_is_whole_and_what_is_left_behind_is_ended():
    def work():
        child = os.fork()
        if child == 0:
            time.sleep(1000)  # with the pipe open
        return Report("a", checked=[str(child)])

    report = in_own_process("a", work, seconds=5)
    assert report.passed
    assert "was ended" in report.notes[0]
    state = Path("/proc", report.checked[0], "status")
    while state.exists() and "zombie" not in state.read_text():  # it dies when the system comes to it
        time.sleep(0.05)


def test_the_readers_code_sees_no_gpu_which_a_forked_process_cannot_use(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    class Mine(TinyGPT):
        def __init__(self, config):
            super().__init__(config)
            self.to("cuda" if torch.cuda.is_available() else "cpu")

    report = check(Mine, GPTConfig)
    assert report.passed, report
    assert torch.cuda.is_available()


def test_packages_are_libraries_wherever_a_system_puts_them(monkeypatch, tmp_path):
    debian = tmp_path / "lib" / "python3" / "dist-packages"
    monkeypatch.setattr(site, "getsitepackages", lambda: [str(debian)])
    subject._library_folders.cache_clear()
    try:
        assert is_library(str(debian / "numpy" / "x.py"))
        assert is_library(torch.nn.modules.linear.__file__)
        assert is_library(json.__file__)
        assert is_library("<frozen importlib>")
        assert not is_library(str(tmp_path / "site-packages-of-mine" / "gpt.py"))
        assert not is_library(__file__)
    finally:
        subject._library_folders.cache_clear()
    assert subject.base_name(r"C:\course\gpt.py") == subject.base_name("/course/gpt.py") == "gpt.py"


def test_nothing_that_happens_in_a_check_reaches_this_process():
    def work():
        torch.set_default_dtype(torch.float64)
        os.environ["LEFT_BEHIND"] = "1"
        return Report("a")

    assert in_own_process("a", work).passed
    assert torch.get_default_dtype() is torch.float32
    assert "LEFT_BEHIND" not in os.environ


def test_a_class_without_a_source_file_can_be_checked():
    made = {}
    exec("from tiny_gpt.model import TinyGPT as Base, GPTConfig\nclass Mine(Base): pass", made)
    report = check(made["Mine"], made["GPTConfig"])
    assert report.passed, report


def test_a_model_in_place_of_a_class_is_refused():
    with pytest.raises(ValueError, match="not TinyGPT"):
        check(TinyGPT(GPTConfig(**SIZES)))


def test_weights_that_are_scaled_after_the_softmax_are_not_called_masked():
    """A mask cannot touch the last row, which hides nothing."""

    class Late(heads.Head):
        def forward(self, x):
            q, k, v = self.query(x), self.key(x), self.value(x)
            scores = (q @ k.mT).masked_fill(torch.ones(x.size(1), x.size(1)).triu(1).bool(), -torch.inf)
            return self.dropout(scores.softmax(-1) * q.size(-1) ** -0.5) @ v

    report = check.head(Late)
    assert [found.id for found in report.findings] == ["scale-missing"]
    assert "after the softmax" in report.findings[0].evidence


def test_truncated_normal_weights_are_right():
    class Cut(TinyGPT):
        def __init__(self, config):
            super().__init__(config)
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.trunc_normal_(p, std=0.02, a=-0.04, b=0.04)

    report = check(Cut, GPTConfig)
    assert report.passed, report


def test_an_instance_in_place_of_a_part_is_refused():
    with pytest.raises(ValueError, match="the class or function itself, got a Head"):
        check.head(heads.Head(8, 4, 8))


def test_a_cache_that_is_wrong_from_the_second_token_on_is_found():
    class Stuck(TinyGPT):
        """Its second new token and later ones are read as if the prompt had no end."""

        @torch.no_grad()
        def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
            T = idx.size(1)
            for _ in range(max_new_tokens):
                known = idx if idx.size(1) == T else torch.cat([idx[:, :T], idx[:, -1:]], 1)
                idx = torch.cat([idx, super().generate(known, 1, temperature, top_k)[:, -1:]], 1)
            return idx

    report = check(Stuck, GPTConfig)
    assert len(report.findings) == 1
    assert report.findings[0].id in ("generate-cache", "generate-wrong-window")


# --- Not written yet --------------------------------------------------------------------------------------------


class Mixing(nn.Module):
    """No attention: in every layer each position adds what ``mix`` makes of all."""

    def __init__(self, config, mix):
        super().__init__()
        self.mix, self.layers = mix, config.n_layer
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx)
        for _ in range(self.layers):
            x = x + self.mix(x)
        logits = self.head(x)
        loss = None if targets is None else nn.functional.cross_entropy(logits.mT, targets, ignore_index=-1)
        return logits, loss


@pytest.mark.parametrize(
    ("mix", "id"),
    [
        (lambda x: x.mean(1, keepdim=True), "mask-missing"),
        (lambda x: torch.cat([x[:, 1:], x[:, -1:]], 1), "mask-sees-next"),
    ],
    ids=["mean", "next"],
)
def test_a_leak_has_its_cause_where_no_attention_is_found(mix, id):
    report = _check_here(lambda config: Mixing(config, mix), GPTConfig)
    assert report.findings[0].id == id
    assert not [note for note in report.notes if "could not be checked" in note]


def test_unwritten_is_an_answer():
    class Empty(nn.Module):
        def __init__(self, config):
            super().__init__()

    class NoForward(TinyGPT):
        def forward(self, idx, targets=None):
            raise NotImplementedError

    class Dots(TinyGPT):
        def forward(self, idx, targets=None): ...

    for Model in (Empty, NoForward, Dots):
        report = _check_here(Model, GPTConfig)
        assert (report.unwritten, report.findings) == (["the model"], [])
        assert "not written yet" in str(report)


def test_what_is_written_is_judged_though_generate_is_not():
    class Half(TinyGPT):
        def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
            raise NotImplementedError

    report = _check_here(Half, GPTConfig)
    assert report.unwritten == ["generate"]
    assert report.findings == []
    assert "loss" in report.checked


# --- Parts ------------------------------------------------------------------------------------------------------

RIGHT_PARTS = [
    (parts._causal_head, numpy_head.causal_head),
    (parts._head, heads.Head),
    (parts._multi_head, heads.MultiHeadAttention),
    (parts._multi_head, model.CausalSelfAttention),
    (parts._feed_forward, heads.FeedForward),
    (parts._feed_forward, model.FFN),
    (parts._block, heads.Block),
    (parts._block, model.Block),
]


@pytest.mark.parametrize(("work", "part"), RIGHT_PARTS, ids=lambda x: getattr(x, "__qualname__", ""))
def test_a_right_part_passes(work, part):
    report = parts.here("part", part, work)
    assert report.passed, report
    assert report.checked


def names(work, part):
    return [found.id for found in parts.here("part", part, work).findings]


class HeadNoScale(heads.Head):
    def forward(self, x):
        return super().forward(x) if False else self._attend(x, 1.0, float("-inf"), 0)

    def _attend(self, x, scale, fill, diagonal):
        k, q, v = self.key(x), self.query(x), self.value(x)
        hidden = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1 + diagonal)
        weights = (q @ k.mT * scale).masked_fill(hidden, fill).softmax(-1)
        return self.dropout(weights) @ v


class HeadSeesNext(HeadNoScale):
    def forward(self, x):
        return self._attend(x, self.key.out_features**-0.5, float("-inf"), 1)


class HeadSoft(HeadNoScale):
    def forward(self, x):
        return self._attend(x, self.key.out_features**-0.5, -10.0, 0)


class NoProjection(heads.MultiHeadAttention):
    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], -1)


class NoBend(heads.FeedForward):
    def forward(self, x):
        return self.net[3](self.net[2](self.net[0](x)))


class PostNorm(heads.Block):
    def forward(self, x):
        x = self.ln1(x + self.sa(x))
        return self.ln2(x + self.ffwd(x))


class NoResidual(heads.Block):
    def forward(self, x):
        x = x + self.sa(self.ln1(x))
        return self.ffwd(self.ln2(x))


class Parallel(heads.Block):
    def forward(self, x):
        return x + self.sa(self.ln1(x)) + self.ffwd(self.ln2(x))


class WrongShape(heads.FeedForward):
    def forward(self, x):
        return super().forward(x)[:, -1]


@pytest.mark.parametrize(
    ("work", "part", "id"),
    [
        (parts._head, HeadNoScale, "scale-missing"),
        (parts._head, HeadSeesNext, "mask-sees-next"),
        (parts._head, HeadSoft, "mask-soft"),
        (parts._multi_head, NoProjection, "out-projection-missing"),
        (parts._feed_forward, NoBend, "activation-missing"),
        (parts._feed_forward, WrongShape, "output-wrong"),
        (parts._block, PostNorm, "norm-post"),
        (parts._block, NoResidual, "residual-missing"),
        (parts._block, Parallel, "branches-parallel"),
    ],
    ids=lambda x: getattr(x, "__name__", x) if not callable(x) or isinstance(x, type) else "",
)
def test_a_wrong_part_is_named(work, part, id):
    assert names(work, part)[:1] == [id]


def numpy_heads():
    import numpy as np

    def wrong(scale=True, mask="before", axis=-1):
        def causal_head(q, k, v):
            z = q @ k.T / (np.sqrt(q.shape[-1]) if scale else 1)
            past = np.tril(np.ones(z.shape, dtype=bool))
            z = np.where(past, z, -np.inf) if mask == "before" else z
            p = np.exp(z - z.max(axis, keepdims=True))
            p = p / p.sum(axis, keepdims=True)
            p = p * past if mask == "after" else p
            return p @ v, p

        return causal_head

    return {
        "scale-missing": wrong(scale=False),
        "mask-missing": wrong(mask=None),
        "mask-after-softmax": wrong(mask="after"),
        "softmax-axis": wrong(axis=0),
    }


@pytest.mark.parametrize("id", numpy_heads())
def test_a_wrong_numpy_head_is_named(id):
    assert names(parts._causal_head, numpy_heads()[id])[:1] == [id]


def test_every_part_can_be_reached_both_ways_and_says_when_it_is_not_written():
    class Nothing(nn.Module):
        def __init__(self, n_embd=1):
            super().__init__()

        def forward(self, x): ...

    for part in PARTS:
        assert getattr(check, part.__name__) is part
    report = check.block(Nothing)
    assert (report.findings, report.unwritten) == ([], ["Block"])
    with pytest.raises(ValueError, match="class or function itself"):
        check.head("Head")


def test_a_constructor_with_unknown_arguments_is_refused_in_words():
    class Odd(nn.Module):
        def __init__(self, zebra):
            super().__init__()

    with pytest.raises(ValueError, match="zebra"):
        parts.make(Odd)


def test_drop_in_makes_nanogpts_calls():
    assert check.drop_in(TinyGPT, GPTConfig).passed

    class Bare(TinyGPT):
        configure_optimizers = None

        def crop_block_size(self, block_size):
            pass

    report = check.drop_in(Bare, GPTConfig)
    assert [found.id for found in report.findings] == ["drop-in"]
    assert "configure_optimizers" in report.findings[0].evidence
    assert "crop_block_size" in report.findings[0].evidence


# --- The command ------------------------------------------------------------------------------------------------


@pytest.fixture
def command(capfd):
    def call(*args):
        with pytest.raises(SystemExit) as end:
            main(["check", *map(str, args)])
        return end.value.code, *capfd.readouterr()

    return call


def test_the_command_on_a_right_file(command, tmp_path):
    file = tmp_path / "my_gpt.py"
    file.write_text(Path(model.__file__).read_text())
    code, out, _ = command(file)
    assert code == 0, out
    assert "my_gpt.py, TinyGPT" in out


def test_the_command_on_a_wrong_file_in_json(command, tmp_path):
    file = tmp_path / "mine.py"
    text = Path(model.__file__).read_text().replace("class TinyGPT", "class Writer").replace("nn.GELU()", "nn.ReLU()")
    file.write_text(text.replace('-> "TinyGPT"', '-> "Writer"').replace("class GPTConfig", "class Sizes"))
    file.write_text(file.read_text().replace("config: GPTConfig", "config: Sizes").replace("-> GPTConfig", "-> Sizes"))
    file.write_text(file.read_text().replace("return GPTConfig(", "return Sizes("))
    code, out, _ = command(file, "--json", "--model", "Writer", "--config", "Sizes")
    made = json.loads(out)
    assert code == 1
    assert [found["id"] for found in made["findings"]] == ["activation-wrong"]
    assert "ReLU" in made["findings"][0]["evidence"]


def test_a_file_that_cannot_be_read_is_a_finding_with_its_line(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("x = 1\nfor\n")
    report = check_file(file)
    assert [found.id for found in report.findings] == ["crashes"]
    assert "line 2" in report.findings[0].where


@pytest.mark.parametrize(
    ("text", "id", "says"),
    [
        ("while True: pass", "does-not-end", "line 1 of mine.txt runs while the file is read"),
        ("def main():\n    time.sleep(99)\nimport time\nmain()", "does-not-end", "line 4 of mine.txt runs while"),
        ("input('your name? ')", "crashes", "EOFError"),
        ("import ctypes\nctypes.string_at(0)", "crashes", "SIGSEGV"),
    ],
    ids=["loop", "sleep", "input", "segfault"],
)
def test_whatever_a_file_does_is_a_finding_with_its_line(tmp_path, text, id, says):
    file = tmp_path / "mine.txt"  # any name will do
    file.write_text(text)
    found = check_file(file, seconds=1).findings[0]
    assert found.id == id
    assert says in found.evidence
    assert found.where.startswith("mine.txt, line")
    assert str(tmp_path) not in found.where


def test_a_config_is_a_class_and_not_an_object_of_one(tmp_path):
    """What a file imports may stand before its own class."""
    (tmp_path / "sizes.py").write_text(
        "from dataclasses import dataclass\n\n@dataclass\nclass Other:\n    vocab_size: int = 3\n\nsmall = Other()\n"
    )
    file = tmp_path / "mine.py"
    text = Path(model.__file__).read_text().replace("GPTConfig", "Sized")
    file.write_text("from sizes import small\n" + text)
    assert check_file(file).findings == []


def notebook(*cells):
    made = [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["class GPT: a text"]}, *made]})


def test_a_notebooks_code_cells_are_read(tmp_path):
    file = tmp_path / "mine.ipynb"
    text = (Path(__file__).parent / "variants" / "compact.py").read_text()
    file.write_text(notebook("%pip install torch\nimport torch", "%%bash\nrm x", "assert (7\n% 2) == 1", text))
    assert check_file(file).findings == []
    file.write_text(notebook("x = 1", "\n1 / 0"))
    assert check_file(file).findings[0].where == "mine.ipynb, cell 2, line 2, in <module>: 1 / 0"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"a": null}', "it is JSON, and no notebook"),
        (b"<!DOCTYPE html>", "it is a page"),
        (b"PK\3\4\0", "it is a zip archive"),
        (b"%PDF-1.4\xff", "it is a PDF"),
        ("x = 1".encode("utf-16"), "UTF-16: save it as UTF-8"),
        (b"a\0", "not text in UTF-8"),
    ],
)
def test_a_file_that_is_not_python_is_told_what_it_is(tmp_path, content, says):
    file = tmp_path / "mine.py"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"mine.py is no Python file: .*{says}"):
        check_file(file)


@pytest.mark.parametrize("text", ["from tiny_gpt import *", "import tiny_gpt\nclass GPT(tiny_gpt.TinyGPT): pass"])
def test_the_packages_own_model_is_not_the_readers(tmp_path, text):
    file = tmp_path / "mine.py"
    file.write_text(text)
    with pytest.raises(ValueError, match="is the package's and not yours"):
        check_file(file)


def test_a_compiled_model_needs_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    file = tmp_path / "mine.py"
    text = (Path(__file__).parent / "variants" / "compact.py").read_text()
    file.write_text(f"{text}\nTinyGPT.forward = torch.compile(TinyGPT.forward)\n")
    assert check_file(file).findings == []


def test_the_command_refuses_what_is_not_there(command, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("class Nothing: pass\n")
    weights = tmp_path / "best.pt"
    weights.write_bytes(b"PK\3\4\0\0")
    missing = ([tmp_path / "no.py"], "there is no file")
    no_text = ([weights], "best.pt is no Python file")
    for args, says in (missing, no_text, ([file], "no class TinyGPT"), ([], "needs a file")):
        code, out, err = command(*args)
        assert (code, out) == (2, "")
        assert says in err


def test_the_command_explains(command):
    code, out, _ = command("--explain", "untied")
    assert code == 0
    assert CAUSES["untied"].cause in out


def test_a_wrong_axis_does_not_hide_a_missing_scale():
    softmax, scale = (bugs.CATALOGUE[id].plantings[0] for id in ("softmax-axis", "scale-missing"))
    both = check(*bugs.planting.build(softmax, scale))
    assert [finding.id for finding in both.findings] == ["softmax-axis", "scale-missing"]
    assert [finding.id for finding in check(*softmax.build()).findings] == ["softmax-axis"]
