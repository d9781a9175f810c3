"""train.py: the schedule, the very same run after a break, checkpoints that are whole, and runs that fail well."""

import contextlib
import functools
import itertools
import json
import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tiny_gpt import files
from tiny_gpt import train as training
from tiny_gpt.data import CharTokenizer, get_batch
from tiny_gpt.model import GPTConfig, TinyGPT
from tiny_gpt.train import (
    PRESETS,
    History,
    TrainConfig,
    evaluate,
    learning_rate,
    load_checkpoint,
    pick_device,
    train,
)

TEXT = "the cat sat on the mat and the dog sat on the log.\n" * 30
TOKENIZER = CharTokenizer(TEXT)
IDS = TOKENIZER.encode(TEXT)
TRAIN, VALID = IDS[:1200], IDS[1200:]
# Dropout, so that a resumed run also has to get torch's random numbers right.
SIZES = GPTConfig(vocab_size=TOKENIZER.vocab_size, block_size=16, n_layer=2, n_head=2, n_embd=16, dropout=0.2)
SHORT = TrainConfig(
    max_steps=12, batch_size=4, warmup_steps=3, eval_every=4, eval_batches=3, learning_rate=1e-2, device="cpu"
)


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def run(config=SHORT, model=SIZES, **kwargs):
    return train(model, TRAIN, VALID, config, progress=False, **kwargs)


class Stop(Exception):
    """Raised from a callback: the power goes off."""


def stop_at(step):
    def callback(history):
        if history.eval_step[-1] == step:
            raise Stop

    return callback


# --- The numbers


def test_the_learning_rate_goes_up_a_line_and_down_half_a_cosine():
    config = TrainConfig(max_steps=110, warmup_steps=9, learning_rate=1.0, min_lr=0.2)
    rates = [learning_rate(step, config) for step in range(111)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert rates[9] == max(rates) == 1.0
    assert rates[110] == pytest.approx(0.2)
    # Half a cosine is symmetric about its middle, and flat at both ends.
    assert all(rates[9 + i] + rates[110 - i] == pytest.approx(1.2) for i in range(50))
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[9] - rates[10] < 0.001 < rates[59] - rates[60]


def test_a_linear_schedule_comes_down_in_equal_steps():
    config = TrainConfig(max_steps=110, warmup_steps=10, learning_rate=1.0, min_lr=0.2, schedule="linear")
    rates = [learning_rate(step, config) for step in range(111)]
    assert rates[10] == max(rates) == 1.0
    assert rates[110] == pytest.approx(0.2)
    assert all(a - b == pytest.approx(0.008) for a, b in itertools.pairwise(rates[10:]))


def test_the_loop_is_the_textbook_one():
    """The same run spelled out with nothing of train.py but its schedule."""
    config = replace(SHORT, max_steps=5, weight_decay=0.3, grad_clip=0.5)
    # No biases: a key's bias has no gradient (softmax does not feel it), and Adam makes whole steps of its rounding.
    sizes = replace(SIZES, dropout=0.0, bias=False)
    history = run(config, sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = TinyGPT(sizes)
    order = torch.Generator().manual_seed(config.seed)
    optimizer = model.configure_optimizers(0.3, 1.0, (0.9, 0.99), "cpu")
    for step in range(5):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, config)
        x, y = get_batch(TRAIN, 4, 16, generator=order)
        _, loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        norm = math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in model.parameters()))
        for p in model.parameters():
            p.grad *= min(1.0, 0.5 / (norm + 1e-6))
        optimizer.step()
        assert history.loss[step] == pytest.approx(loss.item(), abs=1e-6)
        assert history.grad_norm[step] == pytest.approx(norm, rel=1e-5)
        assert history.lr[step] == learning_rate(step, config)
    for name, tensor in model.state_dict().items():
        assert torch.allclose(history.model.state_dict()[name], tensor, atol=1e-5)


def test_accumulated_batches_are_one_larger_batch():
    sizes = replace(SIZES, dropout=0.0)
    # Windows are drawn one after another from one generator: 2 x 4 of them are the 8 of one batch.
    one, two = run(replace(SHORT, batch_size=8), sizes), run(replace(SHORT, batch_size=4, accumulate=2), sizes)
    assert one.loss == pytest.approx(two.loss, abs=1e-5)
    assert one.grad_norm == pytest.approx(two.grad_norm, rel=1e-3)


def test_history_says_what_the_weights_were_worth():
    seen = []

    def look(history):
        seen.append((history.eval_step[-1], evaluate(history.model, VALID, SHORT)))

    history = run(on_eval=look)
    assert history.eval_step == [0, 4, 8, 12] == [step for step, _ in seen]
    assert history.valid_loss == [loss for _, loss in seen]  # to the bit: the batches are the same every time
    assert len(history.loss) == len(history.lr) == len(history.grad_norm) == 12
    assert history.best == (
        history.eval_step[history.valid_loss.index(min(history.valid_loss))],
        min(history.valid_loss),
    )
    assert history.valid_loss[0] == pytest.approx(math.log(SIZES.vocab_size), abs=0.1)
    assert history.valid_loss[-1] < history.valid_loss[0] - 0.2
    assert history.seconds == sorted(history.seconds)
    with pytest.raises(ValueError, match="nothing has been evaluated"):
        History().best  # noqa: B018


def test_evaluation_is_without_dropout_and_the_mean_over_its_batches():
    history = run()
    model = history.model.train()
    model.blocks[0].attn.eval()  # a mode that somebody chose
    loss = evaluate(model, VALID, SHORT)
    assert model.training
    assert not model.blocks[0].attn.training
    generator = torch.Generator().manual_seed(SHORT.eval_seed)
    model.eval()
    batches = [get_batch(VALID, 4, 16, generator=generator) for _ in range(3)]
    assert loss == pytest.approx(sum(model(x, y)[1].item() for x, y in batches) / 3, abs=1e-6)


def test_the_seed_is_all_that_counts_and_the_callers_randomness_is_left_alone(generator):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed() % 1000)
        before = torch.get_rng_state()
        first = run()
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(1)
        second = run(on_eval=lambda history: torch.rand(5))  # callbacks may draw as they like
    assert first == replace(second, seconds=first.seconds)
    assert same(weights(first.model), weights(second.model))
    assert run(replace(SHORT, seed=1)).loss != first.loss


def test_a_model_that_is_passed_is_trained_in_place_and_keeps_its_mode(make):
    model = make(SIZES).eval()
    before = weights(model)
    history = run(model=model)
    assert history.model is model
    assert not same(before, weights(model))
    assert not model.training
    assert history.valid_loss[-1] < history.valid_loss[0]


def test_presets_are_the_published_configurations():
    cpu, gpu = PRESETS["cpu"], PRESETS["gpu"]
    assert TinyGPT(GPTConfig(vocab_size=65, **cpu.model)).get_num_params(False) == 804_096
    assert cpu.train.max_steps == 2000
    assert (gpu.model["block_size"], gpu.model["n_embd"], gpu.model["dropout"]) == (256, 384, 0.2)
    assert (gpu.train.max_steps, gpu.train.batch_size) == (5000, 64)
    assert PRESETS["cpu-fast"].model == cpu.model
    for _, config in (cpu, gpu):
        assert (config.optimizer, config.schedule) == ("adamw", "cosine")
        assert (config.learning_rate, config.min_lr, config.warmup_steps) == (1e-3, 1e-4, 100)
        assert (config.beta2, config.weight_decay, config.grad_clip) == (0.99, 0.1, 1.0)
    assert pick_device().type in ("cuda", "mps", "cpu")


# --- Breaks


@pytest.mark.parametrize(
    ("stopped_at", "recipe"),
    [(0, {}), (4, {}), (8, {}), (4, {"optimizer": "muon", "schedule": "linear", "min_lr": 0.0})],
)
def test_a_resumed_run_is_the_uninterrupted_one_to_the_bit(tmp_path, stopped_at, recipe):
    config = replace(SHORT, sample_every=4, sample_tokens=20, **recipe)
    whole = run(config, tokenizer=TOKENIZER, out=tmp_path / "whole")
    with pytest.raises(Stop):
        run(config, tokenizer=TOKENIZER, out=tmp_path / "broken", on_eval=stop_at(stopped_at))
    resumed = run(config, tokenizer=TOKENIZER, out=tmp_path / "broken", resume=True)
    assert resumed == replace(whole, seconds=resumed.seconds)  # losses, rates, norms, evaluations, samples
    assert same(weights(resumed.model), weights(whole.model))
    for name in ("last.pt", "best.pt"):
        ours, theirs = load_checkpoint(tmp_path / "broken" / name), load_checkpoint(tmp_path / "whole" / name)
        assert same(weights(ours[0]), weights(theirs[0]))
        assert ours[2]["step"] == theirs[2]["step"]
    again = run(config, tokenizer=TOKENIZER, out=tmp_path / "broken", resume=True)  # finished: nothing is left to do
    assert again == resumed


def test_the_best_weights_are_kept_when_later_ones_are_worse(tmp_path):
    config = replace(SHORT, max_steps=40)

    def spoil(history):  # after the evaluation at step 20 the weights are noise, from which 20 updates do not recover
        if history.eval_step[-1] == 20:
            generator = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for p in history.model.parameters():
                    p.copy_(3 * torch.randn(p.shape, generator=generator))

    history = run(config, tokenizer=TOKENIZER, out=tmp_path, on_eval=spoil)
    step, loss = history.best
    assert 0 <= step <= 20
    model, tokenizer, meta = load_checkpoint(tmp_path)
    assert tokenizer == TOKENIZER
    assert not model.training
    assert (meta["step"], meta["best"]) == (step, (step, loss))
    assert evaluate(model, VALID, config) == loss
    last, _, meta = load_checkpoint(tmp_path / "last.pt")
    assert meta["step"] == 40
    assert meta["train_config"]["seed"] == config.seed
    assert meta["versions"]["torch"] == str(torch.__version__)
    assert meta["history"] == history
    assert evaluate(last, VALID, config) == history.valid_loss[-1]


def test_history_as_json_lines_comes_back(tmp_path):
    history = run(replace(SHORT, sample_every=5), tokenizer=TOKENIZER, out=tmp_path)
    assert History.load(tmp_path / "history.jsonl") == history
    assert [step for step, _ in history.samples] == [0, 5, 10, 12]
    assert all(len(text) == SHORT.sample_tokens for _, text in history.samples)
    lines = [json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines()]
    assert sum("valid_loss" in line for line in lines) == 4
    history.grad_norm[3] = math.inf
    history.save(tmp_path / "other.jsonl")
    assert History.load(tmp_path / "other.jsonl") == history
    (tmp_path / "other.jsonl").write_text('{"step": 0, "los')
    with pytest.raises(ValueError, match="line 1 of"):
        History.load(tmp_path / "other.jsonl")


def test_a_folder_with_a_run_is_not_written_over(tmp_path):
    run(out=tmp_path)
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(ValueError, match=r"already holds a run: resume it \(--resume\)"):
        run(replace(SHORT, seed=2), out=tmp_path)
    assert (tmp_path / "last.pt").read_bytes() == before


def test_a_run_of_another_version_says_so(tmp_path):
    run(out=tmp_path)
    saved = torch.load(tmp_path / "last.pt", weights_only=True)
    del saved["resume"]["optimizers"]
    torch.save(saved, tmp_path / "last.pt")
    with pytest.raises(ValueError, match=r"last\.pt lacks optimizers: another version"):
        run(out=tmp_path, resume=True)
    assert load_checkpoint(tmp_path / "last.pt")[2]["step"] == 12


def test_resuming_something_else_is_refused(tmp_path):
    run(out=tmp_path)
    with pytest.raises(ValueError, match="max_steps was 12, is 50; seed was 1337, is 3"):
        run(replace(SHORT, max_steps=50, seed=3), out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="n_layer was 2, is 1"):
        run(model=replace(SIZES, n_layer=1), out=tmp_path, resume=True)
    with pytest.raises(ValueError, match="text is another one"):
        train(SIZES, TRAIN[1:], VALID, SHORT, out=tmp_path, resume=True, progress=False)
    with pytest.raises(ValueError, match="nothing to resume"):
        run(out=tmp_path / "elsewhere", resume=True)
    with pytest.raises(ValueError, match="needs the folder"):
        run(resume=True)
    (tmp_path / "best.pt").replace(tmp_path / "last.pt")
    with pytest.raises(ValueError, match="which cannot go on"):
        run(out=tmp_path, resume=True)


PRELUDE = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
from dataclasses import replace
from test_train import SHORT, SIZES, TOKENIZER, TRAIN, VALID, train, training
"""


def script(code):
    """A Python process of its own that runs ``code``; it sees this file's names."""
    source = PRELUDE.format(tests=str(Path(__file__).parent)) + textwrap.dedent(code)
    path = os.pathsep.join(p for p in (str(Path(training.__file__).parents[2]), os.environ.get("PYTHONPATH")) if p)
    return subprocess.Popen(
        [sys.executable, "-c", source],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


LONG = replace(SHORT, max_steps=100_000, eval_every=50)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_saves_says_how_to_go_on_and_the_run_goes_on_exactly(tmp_path):
    process = script(f"""
        config = replace(SHORT, max_steps=100_000, eval_every=50)
        history = train(SIZES, TRAIN, VALID, config, out={str(tmp_path)!r}, progress=False)
        print("interrupted", history.interrupted, len(history.loss))
    """)
    end = time.monotonic() + 300
    while not (tmp_path / "last.pt").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    steps = int(out.split()[-1])
    assert out.startswith("interrupted True")
    assert f"Interrupted after {steps} of 100000 steps, saved in {tmp_path}; resume=True (--resume) goes on" in err
    *_, meta = load_checkpoint(tmp_path / "last.pt")
    assert meta["step"] == steps > 0
    # Go on until the next evaluation but one, and compare with a run without a break.
    goal = (steps // 50 + 2) * 50
    with pytest.raises(Stop):
        run(LONG, out=tmp_path, resume=True, on_eval=stop_at(goal))
    with pytest.raises(Stop):
        run(LONG, out=tmp_path / "whole", on_eval=stop_at(goal))
    resumed, whole = (load_checkpoint(folder / "last.pt") for folder in (tmp_path, tmp_path / "whole"))
    assert resumed[2]["history"] == replace(whole[2]["history"], seconds=resumed[2]["history"].seconds)
    assert same(weights(resumed[0]), weights(whole[0]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_kill_while_saving_leaves_the_old_checkpoint_whole(tmp_path, moment):
    process = script(f"""
        saves = []
        before = os.{moment}
        def killed(*args):
            # each evaluation writes three files; the kill comes in the last.pt of the second evaluation
            saves.append(args)
            if len(saves) > 3 and any(name.startswith("last.pt.") for name in os.listdir({str(tmp_path)!r})):
                os.kill(os.getpid(), signal.SIGKILL)
            return before(*args)
        os.{moment} = killed
        train(SIZES, TRAIN, VALID, SHORT, out={str(tmp_path)!r}, progress=False)
    """)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.glob("last.pt.*.part"))  # it was in the middle of it
    *_, meta = load_checkpoint(tmp_path / "last.pt")
    assert meta["step"] == 0
    resumed = run(out=tmp_path, resume=True)
    assert resumed == replace(run(), seconds=resumed.seconds)
    assert not (tmp_path / "last.pt.part").exists()


def test_a_full_disk_is_reported_and_the_old_checkpoint_stays(tmp_path, monkeypatch):
    with pytest.raises(Stop):
        run(out=tmp_path, on_eval=stop_at(4))
    before = (tmp_path / "last.pt").read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"could not be written .*No space left.* still there"):
        run(out=tmp_path, resume=True)
    assert (tmp_path / "last.pt").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_a_checkpoint_that_finds_no_room_loses_nothing(tmp_path):
    """The system's own refusal, in the middle of a file."""
    import resource

    with pytest.raises(Stop):
        run(out=tmp_path, on_eval=stop_at(4))
    before = (tmp_path / "last.pt").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))
    try:
        with pytest.raises(OSError, match=r"\.pt could not be written .*File too large.* still there"):
            run(out=tmp_path, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "last.pt").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))
    resumed = run(out=tmp_path, resume=True)
    assert resumed == replace(run(), seconds=resumed.seconds)


def test_a_folder_that_has_gone_is_missed_and_not_made_anew(tmp_path):
    drive = tmp_path / "drive"

    def unmount(history):
        if history.eval_step[-1] == 4:
            drive.rename(tmp_path / "elsewhere")

    with pytest.raises(OSError, match=r"folder .*drive.run has gone, so history\.jsonl could not be saved.*mount"):
        run(out=drive / "run", on_eval=unmount)
    assert not drive.exists()
    (tmp_path / "elsewhere").rename(drive)
    resumed = run(out=drive / "run", resume=True)
    assert resumed == replace(run(), seconds=resumed.seconds)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_kill_at_any_moment_costs_the_steps_since_the_checkpoint_only(tmp_path):
    """With Muon, whose momentum has to come back too."""
    config = replace(LONG, optimizer="muon", schedule="linear")
    process = script(f"""
        config = replace(SHORT, max_steps=100_000, eval_every=50, optimizer="muon", schedule="linear")
        train(SIZES, TRAIN, VALID, config, out={str(tmp_path / "killed")!r}, progress=False)
    """)
    end = time.monotonic() + 300
    while not (tmp_path / "killed" / "last.pt").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)  # anywhere
    process.kill()
    process.communicate(timeout=300)
    step = load_checkpoint(tmp_path / "killed" / "last.pt")[2]["step"]
    for folder, resume in (("killed", True), ("whole", False)):
        with pytest.raises(Stop):
            run(config, out=tmp_path / folder, resume=resume, on_eval=stop_at(step + 50))
    resumed, whole = (load_checkpoint(tmp_path / folder / "last.pt") for folder in ("killed", "whole"))
    assert resumed[2]["history"] == replace(whole[2]["history"], seconds=resumed[2]["history"].seconds)
    assert same(weights(resumed[0]), weights(whole[0]))


# --- Checkpoints that are none


def test_damaged_and_foreign_checkpoints(tmp_path):
    run(out=tmp_path)
    whole = (tmp_path / "best.pt").read_bytes()
    path = tmp_path / "bad.pt"
    for data in (whole[: len(whole) // 2], whole[:-1], b"", b"hello"):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"bad\.pt is damaged or not a checkpoint"):
            load_checkpoint(path)
    torch.save({"model": {}, "model_args": {}, "iter_num": 3}, path)
    with pytest.raises(ValueError, match=r"a dict with iter_num, model, model_args.*from_gpt2"):
        load_checkpoint(path)
    torch.save(torch.zeros(3), path)
    with pytest.raises(ValueError, match="is not a checkpoint of this package"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_forged_checkpoint_is_an_error_in_words(tmp_path):
    run(out=tmp_path)
    whole = torch.load(tmp_path / "best.pt", weights_only=True)
    path = tmp_path / "forged.pt"
    for key in set(whole) - {"format"}:
        torch.save({k: v for k, v in whole.items() if k != key}, path)
        with pytest.raises(ValueError, match=rf"forged\.pt calls itself a checkpoint .* lacks {key}$"):
            load_checkpoint(path)
    for key, part in {"model": {}, "model_config": {"layers": 3}, "history": {"lost": []}}.items():
        torch.save({**whole, key: part}, path)
        with pytest.raises(ValueError, match=r"parts of .*forged\.pt do not fit together"):
            load_checkpoint(path)


def test_a_checkpoint_cannot_run_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    torch.save({"format": training.checkpoint.FORMAT, "model": Bomb()}, tmp_path / "bomb.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Bomb(), protocol=2))
    for name in ("bomb.pt", "plain.pt"):
        with pytest.raises(ValueError, match="damaged or not a checkpoint"):
            load_checkpoint(tmp_path / name)
    assert not (tmp_path / "exploded").exists()


# --- Runs that cannot go well


def test_a_loss_that_is_not_a_number_stops_the_run_and_says_where(tmp_path, make):
    class Breaks(TinyGPT):
        def forward(self, idx, targets=None):
            logits, loss = super().forward(idx, targets)
            if self.training:
                self.calls = getattr(self, "calls", 0) + 1
                if self.calls == 7:
                    loss = loss * math.nan
                if self.calls == 3:  # a bias that is pulled hardest of all, once
                    loss = loss + 1e3 * self.blocks[1].mlp.fc2.bias[0]
            return logits, loss

    model = Breaks(SIZES)
    with pytest.raises(FloatingPointError) as caught:
        run(model=model, out=tmp_path)
    history = History.load(tmp_path / "history.jsonl")
    says = str(caught.value)
    assert "the loss became nan at step 6" in says
    assert f"learning rate {learning_rate(6, SHORT):.3g}" in says
    assert "largest gradient that of blocks.1.mlp.fc2.bias at step 2, norm 1e+03" in says
    assert f"The checkpoint of step 4 in {tmp_path} is whole" in says
    assert len(history.loss) == 4
    *_, meta = load_checkpoint(tmp_path / "last.pt")
    assert meta["step"] == 4


@pytest.mark.parametrize(
    ("change", "says"),
    [({"max_steps": 0}, "max_steps must be 1 or more, got 0"), ({"grad_clip": -1.0}, "grad_clip must be 0 or more"),
     ({"min_lr": 1.0}, "learning_rate=0.001 must be above 0 and at least min_lr=1.0"),
     ({"optimizer": "sgd"}, "optimizer must be one of adamw, muon, got 'sgd'"),
     ({"schedule": "steps"}, "schedule must be one of cosine, linear, got 'steps'"),
     ({"beta2": 1.0}, r"beta2 must lie in \[0, 1\), got 1.0"), ({"learning_rate": math.nan}, "learning_rate=nan")],
)  # fmt: skip
def test_configurations_that_make_no_sense(as_installed, change, says):
    with pytest.raises(ValueError, match=says):
        TrainConfig(**change)


def test_inputs_that_do_not_fit():
    def attempt(train_ids=TRAIN, valid_ids=VALID, sizes=SIZES, config=SHORT, **kwargs):
        return train(sizes, train_ids, valid_ids, config, progress=False, **kwargs)

    with pytest.raises(ValueError, match="validation split has 16 tokens, fewer than one window of block_size=16"):
        attempt(valid_ids=VALID[:16])
    with pytest.raises(ValueError, match=r"training split has ids from 0 to \d+, and the model's vocab_size=5"):
        attempt(sizes=replace(SIZES, vocab_size=5))
    with pytest.raises(ValueError, match="needs a tokenizer"):
        attempt(config=replace(SHORT, sample_every=2))
    with pytest.raises(ValueError, match="the tokenizer has 60 characters"):
        attempt(tokenizer=CharTokenizer("".join(map(chr, range(100, 160)))))


def test_compile_that_does_not_work_is_said_and_changes_nothing(monkeypatch):
    def broken(model):
        def forward(x, y):
            torch.rand(3)
            raise RuntimeError("no C++ compiler\nand much more")

        return forward

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.warns(UserWarning, match=r"torch.compile does not work here \(no C\+\+ compiler\); training goes on"):
        history = run(replace(SHORT, compile=True))
    assert history == replace(run(), seconds=history.seconds)


def test_the_bar_shows_loss_speed_and_time_left(capsys):
    train(SIZES, TRAIN, VALID, replace(SHORT, max_steps=40), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "step 40: training loss" in shown.err
    for piece in ("step 40/40", "loss ", "tokens/s", " left"):
        assert piece in shown.err
    run()
    assert capsys.readouterr().err == ""


def test_bfloat16_on_request_trains_too():
    history = run(replace(SHORT, dtype="bfloat16"))
    assert history.valid_loss[-1] < history.valid_loss[0]
    assert history.loss != run().loss
    assert all(p.dtype == torch.float32 for p in history.model.parameters())


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_float16_trains_with_a_scaler_and_goes_on_after_a_break(tmp_path, optimizer):
    config = replace(SHORT, dtype="float16", optimizer=optimizer)
    whole = run(config)
    assert whole.valid_loss[-1] < whole.valid_loss[0]
    # Half precision rounds each number by 2^-11 of itself at most: the first losses are the single precision's nearly.
    first = run(replace(config, dtype="float32"))
    assert 0 < abs(whole.loss[0] - first.loss[0]) < first.loss[0] * 2**-9
    assert all(p.dtype == torch.float32 for p in whole.model.parameters())
    with pytest.raises(Stop):
        run(config, out=tmp_path, on_eval=stop_at(4))
    resumed = run(config, out=tmp_path, resume=True)
    assert resumed.loss == whole.loss
    assert same(weights(resumed.model), weights(whole.model))


@pytest.mark.parametrize(("begun", "ends"), [("float32", "float16"), ("float16", "float32")])
def test_a_run_goes_on_in_another_precision(tmp_path, begun, ends):
    with pytest.raises(Stop):
        run(replace(SHORT, dtype=begun), out=tmp_path, on_eval=stop_at(8))
    resumed = run(replace(SHORT, dtype=ends), out=tmp_path, resume=True)
    whole = run(replace(SHORT, dtype=begun))
    assert resumed.loss[:8] == whole.loss[:8]
    # four updates later the roundings of half precision, 2^-11 each, are still small beside a loss of 3
    assert resumed.loss[8:] == pytest.approx(whole.loss[8:], rel=0.02)


def test_a_run_begins_with_the_weights_of_another_and_with_nothing_else_of_it(tmp_path):
    first = run(out=tmp_path / "first")
    second = run(replace(SHORT, seed=5), out=tmp_path / "second", start_from=tmp_path / "first")
    assert second.valid_loss[0] == first.valid_loss[-1]
    assert second.eval_step == first.eval_step
    assert second.lr == first.lr
    with pytest.raises(ValueError, match="n_layer is 2 there, is 1 here"):
        run(model=replace(SIZES, n_layer=1), start_from=tmp_path / "first")
    with pytest.raises(ValueError, match=r"weights if it .*longer \(--from\)"):
        run(replace(SHORT, max_steps=50), out=tmp_path / "first", resume=True)


def test_a_long_run_is_foreseen_after_a_batch_and_the_evaluation_shows_where_it_is(capsys, monkeypatch):
    clock = iter(range(0, 10**6, 2))
    monkeypatch.setattr(training.loop.time, "perf_counter", lambda: float(next(clock)))
    train(SIZES, TRAIN, VALID, SHORT, progress=True)
    err = capsys.readouterr().err
    # two seconds a forward pass: 12 updates of 3 passes each, and 4 evaluations of 2 x 3
    assert "about 2 minutes" not in err  # less than is worth saying
    assert "evaluating 1/6" in err
    train(SIZES, TRAIN, VALID, replace(SHORT, max_steps=120, eval_every=120), progress=True)
    err = capsys.readouterr().err
    assert "about 12 minutes on this cpu. For a CPU there are --preset cpu" in err  # 2 * (3 * 120 + 2 * 2 * 3) s


def test_a_first_save_that_fails_is_no_dead_end(tmp_path, monkeypatch):
    real = os.replace

    def full(beside, path):
        if Path(path).name == "last.pt":
            raise OSError(28, "No space left on device")
        real(beside, path)

    monkeypatch.setattr(files.os, "replace", full)
    with pytest.raises(OSError, match=r"last\.pt could not be written \(No space"):
        run(out=tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    run(out=tmp_path)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.parametrize("name", ["wte.weight", "blocks.0.mlp.fc1.weight"])  # AdamW's, Muon's
def test_a_gradient_that_overflowed_leaves_the_whole_update_out(bad, name):
    trainer = training.Trainer(SIZES, TRAIN, VALID, replace(SHORT, dtype="float16", optimizer="muon"), None, None)
    trainer.update()
    before, scale = weights(trainer.model), trainer.scaler.get_scale()
    hook = trainer.model.get_parameter(name).register_hook(lambda grad: grad * bad)
    trainer.update()
    assert same(weights(trainer.model), before)
    assert trainer.scaler.get_scale() == scale / 2
    hook.remove()
    trainer.update()
    assert not same(weights(trainer.model), before)
    assert all(p.isfinite().all() for p in trainer.model.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_compiled_model_trains_to_the_same_losses(monkeypatch, dtype):
    """The model as torch.compile traces it, forward and backward, run without generating code, which takes minutes."""
    calls = []

    def traced(model):
        calls.append(model)
        return torch.compile.__wrapped__(model, backend="aot_eager", fullgraph=True)

    functools.update_wrapper(traced, torch.compile)
    monkeypatch.setattr(torch, "compile", traced)
    config = replace(SHORT, dtype=dtype)
    compiled = run(replace(config, compile=True))
    assert calls
    plain = run(config)
    eps = 2.0**-23 if dtype == "float32" else 2.0**-8
    assert compiled.loss == pytest.approx(plain.loss, rel=30 * eps)


@pytest.mark.parametrize(
    ("device", "capability", "expected"),
    [("cpu", None, "float32"), ("mps", None, "float32"), ("cuda", (7, 5), "float16"), ("cuda", (8, 0), "bfloat16")],
)  # fmt: skip
def test_the_precision_is_the_devices_own(monkeypatch, device, capability, expected):
    """A T4 (7.5) has no bfloat16 of its own, an A100 (8.0) has."""
    emulated = {True: True, False: (capability or (0,))[0] >= 8}
    monkeypatch.setattr(torch.cuda, "device", lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: emulated[including_emulation])
    assert training.device.precision(TrainConfig(), torch.device(device)) == getattr(torch, expected)
    assert training.device.precision(TrainConfig(dtype="float32"), torch.device(device)) == torch.float32


FULL, CTRL_C = OSError(28, "No space left on device"), KeyboardInterrupt("a second Ctrl-C")


@pytest.mark.parametrize("room", [0, 500, 20_000])
@pytest.mark.parametrize(("reason", "says"), [(FULL, "No space left on device.*still there"), (CTRL_C, "Ctrl-C")])
def test_what_stops_torch_while_it_writes_is_told_and_the_old_file_stays(tmp_path, monkeypatch, room, reason, says):
    class Disk:
        def __init__(self, *args):
            self.file, self.left = open(*args), room  # noqa: SIM115 (it is the file that _save closes)

        def write(self, data):
            self.left -= len(data)
            if self.left < 0:
                raise reason
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

    path = tmp_path / "last.pt"
    path.write_text("the old one")
    monkeypatch.setattr(files, "open", Disk, raising=False)
    with pytest.raises(type(reason), match=says):
        files.write_beside(path, lambda file: torch.save({"x": torch.zeros(10_000)}, file))
    assert [file.name for file in tmp_path.iterdir()] == ["last.pt"]
    assert path.read_text() == "the old one"


def test_weights_that_an_update_broke_stop_the_run_at_the_evaluation(tmp_path):
    wild = replace(SHORT, learning_rate=1e30, min_lr=0.0, warmup_steps=0, eval_every=1)
    with pytest.raises(FloatingPointError, match=r"nan at step 1 .*checkpoint of step 0 .* is whole"):
        run(wild, out=tmp_path)
    assert History.load(tmp_path / "history.jsonl").eval_step == [0]
    assert load_checkpoint(tmp_path / "last.pt")[2]["step"] == 0


def test_a_stop_in_the_last_evaluation_keeps_the_last_updates(tmp_path, monkeypatch, capsys):
    config = replace(SHORT, eval_every=1000)  # evaluated before the first update, and after the last
    asked = []
    evaluated = training.Trainer.evaluate

    def stopped(self, interrupts, bar):
        if self.step == config.max_steps and not asked:
            interrupts.asked = True
            asked.append(self.step)
        return evaluated(self, interrupts, bar)

    monkeypatch.setattr(training.Trainer, "evaluate", stopped)
    history = run(config, out=tmp_path)
    assert history.interrupted
    assert load_checkpoint(tmp_path / "last.pt")[2]["step"] == config.max_steps
    assert "resume=True" in capsys.readouterr().err
    resumed = run(config, out=tmp_path, resume=True)
    monkeypatch.undo()
    assert resumed == replace(run(config), seconds=resumed.seconds)


def test_of_two_runs_that_begin_in_one_folder_the_second_to_save_gives_way(tmp_path, monkeypatch):
    sample = training.Trainer.sample
    other = []

    def begin_another(self, bar):
        if not other:  # between this run's look at the folder and its first checkpoint
            other.append(True)
            other.append(run(replace(SHORT, seed=1), out=tmp_path))
        sample(self, bar)

    monkeypatch.setattr(training.Trainer, "sample", begin_another)
    with pytest.raises(ValueError, match="another run has begun"):
        run(out=tmp_path)
    assert load_checkpoint(tmp_path / "last.pt")[2]["train_config"]["seed"] == 1


def test_a_file_in_the_place_of_the_runs_folder(tmp_path):
    (tmp_path / "best.pt").write_text("x")
    for out in (tmp_path / "best.pt", tmp_path / "best.pt" / "run"):
        with pytest.raises(ValueError, match="a file is in its place"):
            run(out=out)
    assert (tmp_path / "best.pt").read_text() == "x"


def test_a_checkpoint_of_another_version_is_said_to_be_one(tmp_path):
    run(out=tmp_path)
    saved = torch.load(tmp_path / "last.pt", weights_only=True)
    saved["train_config"]["momentum"] = 0.9
    torch.save(saved, tmp_path / "last.pt")
    with pytest.raises(ValueError, match=r"do not fit together: .*momentum"):
        load_checkpoint(tmp_path / "last.pt")


def test_a_rank_without_a_team_is_nobody(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    assert run(out=tmp_path).eval_step[-1] == SHORT.max_steps
    assert (tmp_path / "last.pt").exists()


def test_the_best_weights_alone_are_not_written_over_either(tmp_path):
    run(out=tmp_path)
    (tmp_path / "last.pt").unlink()
    before = (tmp_path / "best.pt").read_bytes()
    with pytest.raises(ValueError, match="already holds a run"):
        run(out=tmp_path)
    assert (tmp_path / "best.pt").read_bytes() == before


@pytest.mark.parametrize("name", ["meta", "nonsense"])
def test_a_device_that_is_not_there_is_named(tmp_path, name):
    run(out=tmp_path)
    with pytest.raises(ValueError, match=f"no device '{name}'"):
        run(replace(SHORT, device=name))
    with pytest.raises(ValueError, match=f"no device '{name}'"):
        load_checkpoint(tmp_path, name)


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:2], *lines[3:]],  # one lost
        lambda lines: [*lines[:3], *lines[2:]],  # one twice
        lambda lines: [*lines, "5"],
        lambda lines: [*lines, "[]"],
        lambda lines: [*lines, '{"step": 12, "loss": "low", "lr": 1, "grad_norm": 1}'],
        lambda lines: [*lines, '{"step": 12, "train_loss": NaN, "valid_loss": 1, "seconds": 1}'],
    ],
)
def test_a_damaged_history_is_not_read_as_another_one(tmp_path, damage):
    path = tmp_path / "history.jsonl"
    History(loss=[3.0, 2.0, 1.0, 0.5], lr=[0.1] * 4, grad_norm=[1.0, math.inf, 1.0, 1.0]).save(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join(damage(lines)))
    with pytest.raises(ValueError, match="is not a line of a history"):
        History.load(path)


@pytest.mark.parametrize("value", [2.5, math.nan, "3", None])
def test_what_is_counted_is_a_whole_number(as_installed, value):
    with pytest.raises(ValueError, match="max_steps must be a whole number"):
        replace(SHORT, max_steps=value)


def test_a_run_on_a_cpu_leaves_the_gpus_generators_alone(monkeypatch):
    """torch.manual_seed would reseed them all, or note down to do so once CUDA is started."""
    for module in (torch.cuda, torch.mps, torch.xpu):
        for name in ("manual_seed", "manual_seed_all"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda seed: pytest.fail("a GPU's generator was reseeded"))
    run(replace(SHORT, max_steps=1))


def test_a_folder_that_cannot_be_made_leaves_the_precision_of_products_alone(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    made = training.Trainer.__init__

    def on_a_gpu(self, *args):
        made(self, *args)
        self.device = torch.device("cuda")

    monkeypatch.setattr(training.Trainer, "__init__", on_a_gpu)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ValueError, match="a file is in its place"):
        run(out=tmp_path / "file")
    assert asked == []


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_a_seed_beyond_64_bits_is_a_sentence(seed):
    with pytest.raises(ValueError, match="64 bits"):
        TrainConfig(seed=seed)
