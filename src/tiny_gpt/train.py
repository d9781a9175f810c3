"""Training: from a text of ids to a model, its history, and checkpoints that an interrupted run goes on from.

Shapes: N tokens in a text. Losses are in nats a token. A step is one update of the weights.
"""

import contextlib
import hashlib
import json
import math
import os
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import IO, Any, Literal, NamedTuple

import torch
from jaxtyping import Integer
from torch import Tensor, nn
from tqdm import tqdm

from .data import CharTokenizer, get_batch
from .model import GPTConfig, TinyGPT
from .muon import Muon
from .team import Team


@dataclass(frozen=True)
class TrainConfig:
    """How to train."""

    max_steps: int = 2000
    """Length of the run, in updates of the weights."""
    batch_size: int = 12
    """Windows in one forward pass, of all processes together if torchrun started several."""
    accumulate: int = 1
    """Forward passes whose gradients are averaged into one update."""
    learning_rate: float = 1e-3
    """Highest learning rate, reached after the warm-up."""
    min_lr: float = 1e-4
    """Learning rate at the end, where the schedule arrives."""
    warmup_steps: int = 100
    """Updates in which the learning rate rises linearly."""
    schedule: Literal["cosine", "linear"] = "cosine"
    """How the learning rate comes down after the warm-up: along half a cosine or a straight line."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """What updates the matrices in the blocks; embeddings, biases and LayerNorms are always AdamW's."""
    weight_decay: float = 0.1
    """Decay of matrices; biases and LayerNorms have none."""
    beta1: float = 0.9
    """AdamW's memory of the gradient, a fraction kept in each step."""
    beta2: float = 0.99
    """AdamW's memory of its square, a fraction kept in each step."""
    grad_clip: float = 1.0
    """Longest gradient, as the norm over all weights; 0 does not clip."""
    eval_every: int = 250
    """Updates between evaluations; a checkpoint is saved at each."""
    eval_batches: int = 100
    """Batches of each split in an evaluation, the same ones every time."""
    eval_seed: int = 2
    """Seed that the evaluation's batches are drawn with."""
    sample_every: int = 0
    """Updates between samples of text (also at the start and the end); 0 takes none."""
    sample_tokens: int = 200
    """Length of a sample, in tokens."""
    seed: int = 1337
    """Seed of the weights, the order of the data and dropout."""
    device: str = "auto"
    """'auto' (cuda, else mps, else cpu) or a torch device such as 'cuda:1'."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Precision of the forward pass; 'auto' is float32 but on a GPU, where it is bfloat16 if native, else float16."""
    compile: bool = False
    """Whether to try torch.compile: a minute at first, then faster steps, mostly on a GPU."""

    def __post_init__(self) -> None:
        """Raises ValueError for values that make no sense. (The class's own docstring is a heading in --help.)"""
        for counted in fields(self):  # a run of 2.5 steps would never end
            value = getattr(self, counted.name)
            if counted.type is int and not isinstance(value, int):
                raise ValueError(f"{counted.name} must be a whole number, got {value!r}: use int(...)")
        for name in ("max_steps", "batch_size", "accumulate", "eval_every", "eval_batches", "sample_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, got {getattr(self, name)}")
        for name in ("warmup_steps", "weight_decay", "grad_clip", "sample_every", "min_lr"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must be 0 or more, got {getattr(self, name)}")
        if not self.learning_rate > 0 or self.min_lr > self.learning_rate:
            raise ValueError(
                f"learning_rate={self.learning_rate} must be above 0 and at least min_lr={self.min_lr}: "
                "the schedule goes down from the one to the other"
            )
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must lie in [0, 1), got {getattr(self, name)}")
        choices = {
            "dtype": ("auto", "float32", "bfloat16", "float16"),
            "schedule": ("cosine", "linear"),
            "optimizer": ("adamw", "muon"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {getattr(self, name)!r}")


class Preset(NamedTuple):
    """A tried combination: ``GPTConfig(vocab_size=V, **preset.model)`` and ``preset.train``."""

    model: dict[str, Any]
    train: TrainConfig


# nanoGPT's model for a laptop, of both presets for a CPU
SMALL: dict[str, Any] = dict(block_size=64, n_layer=4, n_head=4, n_embd=128, dropout=0.0, bias=False)
PRESETS = {
    # nanoGPT's README for a laptop without a GPU: about a minute, validation loss 1.88.
    "cpu": Preset(
        SMALL,
        TrainConfig(),
    ),
    # The same model, below the loss of `cpu` in less than half its time: bench/speedrun.py has each ingredient's gain.
    "cpu-fast": Preset(
        SMALL,
        TrainConfig(
            max_steps=575,
            learning_rate=1e-2,
            min_lr=0.0,
            warmup_steps=20,
            schedule="linear",
            optimizer="muon",
            eval_every=115,
        ),
    ),
    # What a computer without a GPU does in an evening: 4.8 million parameters, an hour or two on one core.
    "cpu-long": Preset(
        dict(block_size=256, n_layer=6, n_head=4, n_embd=256, dropout=0.1, bias=False),
        TrainConfig(
            max_steps=3000,
            batch_size=8,
            learning_rate=5e-3,
            min_lr=0.0,
            schedule="linear",
            optimizer="muon",
            eval_batches=25,
            sample_every=500,
        ),
    ),
    # nanoGPT's shakespeare_char: some minutes on one GPU, best validation loss 1.47.
    "gpu": Preset(
        dict(block_size=256, n_layer=6, n_head=6, n_embd=384, dropout=0.2, bias=False),
        TrainConfig(max_steps=5000, batch_size=64, eval_batches=200),
    ),
}


def pick_device() -> torch.device:
    """The fastest device that is there: cuda, else mps, else cpu."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def usable_device(name: str | torch.device) -> torch.device:
    """The device of this name, ``pick_device()`` for 'auto'. Raises ValueError if it cannot compute here."""
    try:
        device = pick_device() if name == "auto" else torch.device(name)
        torch.zeros((), device=device).item()
    except Exception as error:  # torch has another class for each way in which a device can be missing
        reason = str(error).partition(". ")[0] or type(error).__name__
        raise ValueError(f"there is no device {str(name)!r} here ({reason}): take {pick_device().type!r}") from None
    return device


def learning_rate(step: int, config: TrainConfig) -> float:
    """The learning rate of update ``step`` (from 0): a straight line up, then ``schedule`` down to ``min_lr``."""
    if step < config.warmup_steps:
        return config.learning_rate * (step + 1) / (config.warmup_steps + 1)
    share = min(1.0, (step - config.warmup_steps) / max(1, config.max_steps - config.warmup_steps))  # from 0 to 1
    height = 1 - share if config.schedule == "linear" else (1 + math.cos(math.pi * share)) / 2  # from 1 to 0
    return config.min_lr + height * (config.learning_rate - config.min_lr)


# --- What happened ----------------------------------------------------------------------------------------------


@dataclass
class History:
    """What happened in a run. ``loss[s]`` belongs to update s, and ``train_loss[i]`` to ``eval_step[i]`` updates."""

    loss: list[float] = field(default_factory=list)  # nats, of each update's own batch
    lr: list[float] = field(default_factory=list)  # the learning rate of each update
    grad_norm: list[float] = field(default_factory=list)  # of each update, before clipping
    eval_step: list[int] = field(default_factory=list)  # how many updates the evaluated weights have had
    train_loss: list[float] = field(default_factory=list)  # nats, on fixed batches of the training split
    valid_loss: list[float] = field(default_factory=list)  # nats, on fixed batches of the validation split
    seconds: list[float] = field(default_factory=list)  # spent on updates until then, evaluations not counted
    samples: list[tuple[int, str]] = field(default_factory=list)  # (updates so far, text)
    interrupted: bool = field(default=False, compare=False)  # whether Ctrl-C ended the run early
    model: TinyGPT | None = field(default=None, repr=False, compare=False)  # with the weights of the last update

    @property
    def best(self) -> tuple[int, float]:
        """(updates, loss) of the lowest validation loss. Raises ValueError before the first evaluation."""
        if not self.eval_step:
            raise ValueError("nothing has been evaluated yet")
        loss, step = min(zip(self.valid_loss, self.eval_step, strict=True))
        return step, loss

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON lines: one for each update, evaluation and sample, each with its ``step``."""
        lines: list[dict[str, Any]] = []
        for step, (loss, lr, norm) in enumerate(zip(self.loss, self.lr, self.grad_norm, strict=True)):
            # JSON has no infinity; a float16 gradient can be infinite (its update is then left out).
            lines.append({"step": step, "loss": loss, "lr": lr, "grad_norm": norm if math.isfinite(norm) else None})
        for row in zip(self.eval_step, self.train_loss, self.valid_loss, self.seconds, strict=True):
            lines.append(dict(zip(("step", "train_loss", "valid_loss", "seconds"), row, strict=True)))
        lines += [{"step": step, "sample": text} for step, text in self.samples]
        lines.sort(key=lambda line: line["step"])
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        _write_atomically(Path(path), lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """Read what ``save`` wrote. Raises ValueError for a line that is none of its."""
        history = cls()
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
            try:
                entry = json.loads(line)
                for key, value in entry.items():
                    if key != "sample" and (key, value) != ("grad_norm", None) and not math.isfinite(value):
                        raise ValueError
                if "loss" in entry:
                    if entry["step"] != len(history.loss):
                        raise ValueError  # a line before it is missing, or comes twice
                    history.loss.append(entry["loss"])
                    history.lr.append(entry["lr"])
                    history.grad_norm.append(math.inf if entry["grad_norm"] is None else entry["grad_norm"])
                elif "sample" in entry:
                    history.samples.append((entry["step"], entry["sample"]))
                else:
                    history.eval_step.append(entry["step"])
                    history.train_loss.append(entry["train_loss"])
                    history.valid_loss.append(entry["valid_loss"])
                    history.seconds.append(entry["seconds"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"line {number} of {path} is not a line of a history: {line[:80]!r}") from error
        return history


# --- Training ---------------------------------------------------------------------------------------------------


def train(
    model: TinyGPT | GPTConfig,
    train_ids: Integer[Tensor, "N_train"],
    valid_ids: Integer[Tensor, "N_valid"],
    config: TrainConfig,
    *,
    tokenizer: CharTokenizer | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_eval: Callable[[History], object] | None = None,
    progress: bool = True,
) -> History:
    """Train ``model``, or a new one of these sizes, on ids (N_train,) and watch it on ids (N_valid,).

    The trained model is ``history.model``; a model that is passed is trained in place. The run depends on
    ``config.seed`` only: torch's global random state is neither used nor changed.

    ``out`` names a folder for ``last.pt`` (saved at each evaluation and at Ctrl-C), ``best.pt`` (the lowest
    validation loss) and ``history.jsonl``. ``resume=True`` goes on from ``last.pt``, and what follows is what
    would have followed without the break, to the bit on a CPU. ``tokenizer`` is saved along, and needed for
    samples. ``on_eval`` is called with the history after each evaluation, ``history.model`` at hand.

    Where ``torchrun`` started several processes, each calls this and they train together (see team.py): the first
    alone writes, shows and calls ``on_eval``.

    Raises ValueError for ids outside the vocabulary, a split shorter than a window, a folder that already holds a
    run (or, with ``resume``, holds none or a different one), and FloatingPointError if the loss becomes NaN.
    """
    run = Trainer(model, train_ids, valid_ids, config, tokenizer, None if out is None else Path(out))
    if resume:
        run.restore()
    elif run.out and any((run.out / name).exists() for name in ("last.pt", "best.pt")):
        raise ValueError(f"{run.out} already holds a run: resume it, or choose another folder")
    was_training = run.model.training
    precision = torch.get_float32_matmul_precision()
    if run.device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 in the matrix products that stay float32
    leads = run.team.rank == 0
    if run.out and leads:
        try:
            run.out.mkdir(parents=True, exist_ok=True)  # once: made anew later, it would hide that a drive has gone
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"{run.out} cannot be a run's folder, for a file is in its place: name another") from None
    run.team.connect(run.device)
    try:
        with (
            _Interrupts() as interrupts,
            _Bar(config, run.step, run.model.config.block_size, progress and leads) as bar,
        ):
            run.forward = run.compiled() if config.compile else run.model
            run.parallel = run.team.parallel(run.forward)
            run.loop(interrupts, bar, on_eval if leads else None)
    finally:
        run.model.train(was_training)
        torch.set_float32_matmul_precision(precision)
    if run.history.interrupted and leads:
        where = f"saved in {run.out}; resume=True (--resume) goes on from there" if run.out else "not saved: out=None"
        print(f"Interrupted after {run.step} of {config.max_steps} steps, {where}.", file=sys.stderr)
    return run.history


@torch.no_grad()
def evaluate(model: TinyGPT, ids: Integer[Tensor, "N"], config: TrainConfig, *, batches: int | None = None) -> float:
    """The model's mean loss, nats, on ``batches`` fixed batches of ids (N,): the same ones whenever it is called.

    By default as many as ``config.eval_batches``. Dropout is off meanwhile, the mode restored after.
    """
    device = model.wte.weight.device
    losses = _losses(model, model, ids.to(device), config, batches or config.eval_batches, _precision(config, device))
    return float(torch.stack(list(losses)).cpu().double().mean())  # an Apple GPU has no double precision


@torch.no_grad()
def whole_loss(model: TinyGPT, ids: Integer[Tensor, "N"]) -> float:
    """The mean loss, nats, of a model in eval mode on all windows of ids (N,) that do not overlap."""
    T = model.config.block_size
    n = (len(ids) - 1) // T
    ids = ids.to(model.wte.weight.device)
    x, y = ids[: n * T].view(n, T), ids[1 : n * T + 1].view(n, T)  # (n, T) each
    parts = [(len(a), model(a, b)[1].item()) for a, b in zip(x.split(64), y.split(64), strict=True)]
    total: float = sum(size * loss for size, loss in parts)
    return total / n


def _losses(
    model: TinyGPT,
    forward: nn.Module,
    ids: Integer[Tensor, "N"],
    config: TrainConfig,
    batches: int,
    dtype: torch.dtype,
    team: Team = Team(),  # noqa: B008 (frozen)
) -> Iterator[Tensor]:
    """The loss (a scalar) on this process's share of each fixed batch; ``forward`` may be the model's compiled form."""
    generator = torch.Generator().manual_seed(config.eval_seed)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for _ in range(batches):
            x, y = get_batch(ids, config.batch_size, model.config.block_size, generator=generator)  # (B, T) each
            with torch.no_grad(), _autocast(ids.device, dtype):
                yield forward(*team.share(x, y))[1]
    finally:
        for module, training in modes:
            module.training = training


def _precision(config: TrainConfig, device: torch.device) -> torch.dtype:
    if config.dtype != "auto":
        dtype: torch.dtype = getattr(torch, config.dtype)
        return dtype
    if device.type != "cuda":
        return torch.float32
    # Emulated bfloat16, as a T4 has it, is far slower than that GPU's own float16.
    with torch.cuda.device(device):
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float16


def _optimizers(model: TinyGPT, config: TrainConfig, device: torch.device) -> list[torch.optim.Optimizer]:
    """The optimizers that share the model's parameters among them: AdamW, and Muon if it is asked for."""
    betas = (config.beta1, config.beta2)
    adamw = model.configure_optimizers(config.weight_decay, config.learning_rate, betas, device.type)
    if config.optimizer == "adamw":
        return [adamw]
    matrices = [p for p in model.blocks.parameters() if p.dim() == 2]  # the embeddings are matrices, but look-up tables
    for group in adamw.param_groups:
        group["params"] = [p for p in group["params"] if not any(p is matrix for matrix in matrices)]
    return [adamw, Muon(matrices, config.learning_rate, config.weight_decay)]


def _autocast(device: torch.device, dtype: torch.dtype) -> contextlib.AbstractContextManager[object]:
    if dtype == torch.float32:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype)


class Trainer:
    """One run: everything that changes while it goes on, and how to save and restore it."""

    def __init__(
        self,
        model: TinyGPT | GPTConfig,
        train_ids: Integer[Tensor, "N_train"],
        valid_ids: Integer[Tensor, "N_valid"],
        config: TrainConfig,
        tokenizer: CharTokenizer | None,
        out: Path | None,
    ):
        self.config, self.tokenizer, self.out = config, tokenizer, out
        self.team = Team.here()
        self.device = usable_device(self.team.own_device(usable_device(config.device)))
        self.random = _OwnRandomness(self.device, config.seed)  # weights and dropout
        if isinstance(model, GPTConfig):
            with self.random:
                model = TinyGPT(model)
        self.model = model.to(self.device)
        self.forward: nn.Module = self.model  # the same, compiled if that is asked for
        self.parallel: nn.Module = self.model  # and with its gradients averaged over the team
        if self.team.rank:  # the same weights everywhere, but dropout of one's own
            self.random = _OwnRandomness(self.device, config.seed + self.team.rank)
        self._check(train_ids, valid_ids)
        self.data_hash = fingerprint(train_ids, valid_ids)
        self.train_ids, self.valid_ids = train_ids.to(self.device), valid_ids.to(self.device)
        self.order = torch.Generator().manual_seed(config.seed)  # which windows, in which order
        self.optimizers = _optimizers(self.model, config, self.device)
        self.dtype = _precision(config, self.device)
        # Small gradients vanish in float16: the scaler lifts them before, and lowers them after.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)
        self.history = History(model=self.model)
        self.step = 0
        self.training_seconds = 0.0  # spent on updates
        # (loss, gradient norm, learning rate, ...) of updates that are still only on the device
        self.pending: list[tuple[Tensor, Tensor, float, Tensor, Tensor, Tensor]] = []
        self.steepest = (0.0, "", 0)  # the largest gradient so far: its norm, whose it is, the update
        self.owns = False  # whether the checkpoints in `out` are this run's
        self.stopping = False  # whether somebody in the team was asked to stop, known to all at the same step

    def _check(self, train_ids: Integer[Tensor, "N_train"], valid_ids: Integer[Tensor, "N_valid"]) -> None:
        sizes, config = self.model.config, self.config
        for name, ids in (("training", train_ids), ("validation", valid_ids)):
            if len(ids) <= sizes.block_size:
                raise ValueError(
                    f"the {name} split has {len(ids)} tokens, fewer than one window of block_size={sizes.block_size} "
                    f"and a target: take a longer text or a smaller block_size"
                )
            low, high = (int(bound) for bound in torch.aminmax(ids))
            if low < 0 or high >= sizes.vocab_size:
                raise ValueError(
                    f"the {name} split has ids from {low} to {high}, and the model's vocab_size={sizes.vocab_size} "
                    f"allows 0 to {sizes.vocab_size - 1}"
                )
        if self.tokenizer and self.tokenizer.vocab_size > sizes.vocab_size:
            raise ValueError(
                f"the tokenizer has {self.tokenizer.vocab_size} characters, the model vocab_size={sizes.vocab_size}"
            )
        if config.batch_size % self.team.size:
            raise ValueError(
                f"batch_size={config.batch_size} cannot be shared by {self.team.size} processes: take a multiple"
            )
        if config.sample_every and not self.tokenizer:
            raise ValueError(f"sample_every={config.sample_every} needs a tokenizer to turn ids into text")

    # --- The loop

    def loop(self, interrupts: "_Interrupts", bar: "_Bar", on_eval: Callable[[History], object] | None) -> None:
        config, history = self.config, self.history
        while True:
            evaluated = bool(history.eval_step) and history.eval_step[-1] == self.step
            if not evaluated and (self.step % config.eval_every == 0 or self.step == config.max_steps):
                if self.evaluate(interrupts, bar):
                    self.sample(bar)
                    self.save(best=history.best[0] == self.step)
                    if on_eval:
                        on_eval(history)
            elif not evaluated:
                self.sample(bar)
            if self.step == config.max_steps and history.eval_step[-1:] == [self.step]:
                return
            if self.asked(interrupts):  # perhaps in the very last evaluation, which is then still to be done
                history.interrupted = True
                self.flush(bar)
                self.save(best=False)
                return
            start = time.perf_counter()
            self.update(interrupts.asked)
            if self.device.type == "cpu" or len(self.pending) == 20:
                self.flush(bar)  # asking for a number makes a GPU wait, so there it is asked seldom
            elapsed = time.perf_counter() - start
            self.training_seconds += elapsed
            bar.update(elapsed)

    def asked(self, interrupts: "_Interrupts") -> bool:
        """Whether to stop here. A team stops together, at a step at which all know that one of them was asked."""
        return interrupts.asked if self.team.size == 1 else self.stopping

    def update(self, asked: bool = False) -> None:
        """One update of the weights, with the averaged gradient of ``accumulate`` batches."""
        config, sizes = self.config, self.model.config
        lr = learning_rate(self.step, config)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
        self.model.train()
        losses = []
        for i in range(config.accumulate):
            x, y = get_batch(self.train_ids, config.batch_size, sizes.block_size, generator=self.order)  # (B, T)
            x, y = self.team.share(x, y)
            waits = self.team.size > 1 and i < config.accumulate - 1  # gradients travel once an update
            # The type ignored: in a team it is a DistributedDataParallel, which can wait.
            with self.parallel.no_sync() if waits else contextlib.nullcontext():  # type: ignore[operator]
                with self.random, _autocast(self.device, self.dtype):
                    _, loss = self.parallel(x, y)
                self.scaler.scale(loss / config.accumulate).backward()
            losses.append(loss.detach())
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        grads = [p.grad for p in self.model.parameters()]  # None for one that is frozen
        heights = torch.stack([torch.zeros((), device=self.device) if g is None else g.norm() for g in grads])
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.grad_clip or math.inf)
        loss = torch.stack(losses).mean().float()
        loss, stop = self.team.mean(torch.stack([loss, torch.full_like(loss, asked)]))
        self.pending.append((loss, norm, lr, stop, *heights.max(0)))
        # Each optimizer alone would look at its own parameters only, and one number that overflowed spoils them all.
        if not self.scaler.is_enabled() or norm.isfinite():
            for optimizer in self.optimizers:
                self.scaler.step(optimizer)
        self.scaler.update()
        self.model.zero_grad(set_to_none=True)
        self.step += 1

    def flush(self, bar: "_Bar") -> None:
        """Fetch the losses of the latest updates from the device, and stop if one is not a number."""
        if not self.pending:
            return
        history = self.history
        columns = list(zip(*self.pending, strict=True))
        rates = columns.pop(2)  # the only numbers that are here already
        losses, norms, stops, heights, whose = (torch.stack(numbers).tolist() for numbers in columns)
        self.stopping = self.stopping or any(stops)
        self.pending = []
        for loss, norm, lr, height, index in zip(losses, norms, rates, heights, whose, strict=True):
            if not math.isfinite(loss):
                raise FloatingPointError(self._diverged(loss, lr))
            if self.steepest[0] < height < math.inf:
                name = [name for name, _ in self.model.named_parameters()][index]
                self.steepest = (height, name, len(history.loss))
            history.loss.append(loss)
            history.lr.append(lr)
            history.grad_norm.append(norm)
        bar.show(losses[-1])

    def _diverged(self, loss: float, lr: float) -> str:
        history = self.history
        step = len(history.loss)
        height, name, at = self.steepest
        gradient = f", largest gradient that of {name} at step {at}, norm {height:.3g}" if name else ""
        saved = history.eval_step[-1] if self.out and history.eval_step else None
        kept = "" if saved is None else f" The checkpoint of step {saved} in {self.out} is whole."
        return (
            f"the loss became {loss} at step {step} (learning rate {lr:.3g}{gradient}). "
            f"Lower learning_rate, lengthen warmup_steps or clip gradients.{kept}"
        )

    def evaluate(self, interrupts: "_Interrupts", bar: "_Bar") -> bool:
        """Append the losses on both splits to the history; False if Ctrl-C came before they were there."""
        self.flush(bar)
        means = []
        for ids in (self.train_ids, self.valid_ids):
            losses = []
            batches = self.config.eval_batches
            for loss in _losses(self.model, self.forward, ids, self.config, batches, self.dtype, self.team):
                if self.asked(interrupts):
                    return False
                losses.append(loss)
            means.append(float(self.team.mean(torch.stack(losses)).cpu().double().mean()))
            if not math.isfinite(means[-1]):
                raise FloatingPointError(self._diverged(means[-1], learning_rate(max(0, self.step - 1), self.config)))
        history = self.history
        history.eval_step.append(self.step)
        history.train_loss.append(means[0])
        history.valid_loss.append(means[1])
        history.seconds.append(self.training_seconds)
        bar.say(f"step {self.step}: training loss {means[0]:.4f}, validation loss {means[1]:.4f} nats")
        return True

    def sample(self, bar: "_Bar") -> None:
        """Let the model write, from a generator of its own, so that samples change nothing else."""
        config, samples = self.config, self.history.samples
        due = config.sample_every and (self.step % config.sample_every == 0 or self.step == config.max_steps)
        if not due or self.tokenizer is None or self.team.rank or (samples and samples[-1][0] == self.step):
            return
        vocab = self.tokenizer.vocab
        start = self.tokenizer.encode("\n" if "\n" in vocab else vocab[0])[None].to(self.device)  # (1, 1)
        generator = torch.Generator(self.device).manual_seed(config.seed + self.step)
        ids = self.model.generate(start, config.sample_tokens, generator=generator)[0, 1:]  # (sample_tokens,)
        samples.append((self.step, self.tokenizer.decode(ids)))
        bar.say(f"--- a sample after {self.step} steps ---\n{samples[-1][1]}\n---")

    def compiled(self) -> nn.Module:
        """The compiled model, or the plain one and a sentence about why: tried on a batch that is then forgotten."""
        generator = torch.Generator().manual_seed(0)
        x, y = get_batch(self.train_ids, self.config.batch_size, self.model.config.block_size, generator=generator)
        x, y = self.team.share(x, y)
        before = self.random.state
        try:
            compiled: nn.Module = torch.compile(self.model)  # type: ignore[assignment]  # a Module, of a Module
            self.model.train()
            with self.random, _autocast(self.device, self.dtype):
                compiled(x, y)[1].backward()
            list(_losses(self.model, compiled, self.train_ids, self.config, 1, self.dtype, self.team))
        except Exception as error:  # whatever goes wrong in there, the plain model does the same work
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            warnings.warn(f"torch.compile does not work here ({reason}); training goes on without it", stacklevel=3)
            compiled = self.model
        self.model.zero_grad(set_to_none=True)
        self.random.state = before
        return compiled

    # --- Saving and restoring

    def save(self, best: bool) -> None:
        """Write the checkpoints. The first of a team does, and the others wait until they are there."""
        if self.out is None:
            return
        randoms = self.team.collect(self.random.state)
        if self.team.rank == 0:
            self.write(self.out, best, randoms)
        self.team.collect(None)

    def write(self, out: Path, best: bool, randoms: list[dict[str, Tensor]]) -> None:
        if not self.owns and (out / "last.pt").exists():
            raise ValueError(f"another run has begun in {out} meanwhile, and its checkpoints are left as they are")
        self.owns = True
        self.history.save(out / "history.jsonl")
        checkpoint = {
            "format": FORMAT,
            "step": self.step,
            "model": self.model.state_dict(),
            "model_config": asdict(self.model.config),
            "train_config": asdict(self.config),
            "vocab": self.tokenizer.vocab if self.tokenizer else None,
            "best": self.history.best if self.history.eval_step else None,
            "history": {f.name: getattr(self.history, f.name) for f in fields(History) if f.compare},
            "data": self.data_hash,
            "versions": _versions(),
        }
        if best:
            _save(out / "best.pt", checkpoint)
        checkpoint["resume"] = {
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "scaler": self.scaler.state_dict(),
            "order": self.order.get_state(),
            "randoms": randoms,
            "seconds": self.training_seconds,
        }
        _save(out / "last.pt", checkpoint)

    def restore(self) -> None:
        if self.out is None:
            raise ValueError("resume=True needs the folder of the run to go on with: out=...")
        path = self.out / "last.pt"
        if not path.exists():
            raise ValueError(f"there is nothing to resume in {self.out}: it has no last.pt")
        saved = _load(path, self.device)
        if "resume" not in saved:
            raise ValueError(f"{path} has weights but not the state of a run: it is a best.pt, which cannot go on")
        state = saved["resume"]
        if missing := {"optimizers", "scaler", "order", "randoms", "seconds"} - set(state):
            raise ValueError(
                f"{path} lacks {', '.join(sorted(missing))}: another version of this package saved it, and only that "
                "one can go on with it. Its weights can still be loaded"
            )
        theirs = {**saved["model_config"], **saved["train_config"]}
        ours = {**asdict(self.model.config), **asdict(self.config)}
        changed = [f"{key} was {theirs.get(key)!r}, is {ours[key]!r}" for key in ours if theirs.get(key) != ours[key]]
        changed = [text for text in changed if not text.startswith(("device ", "compile "))]
        if saved["data"] != self.data_hash:
            changed.append("the text is another one")
        if changed:
            raise ValueError(
                f"resuming goes on with the very same run, and the one in {self.out} differs: {'; '.join(changed)}. "
                "Give the same values, or start a new run in another folder"
            )
        self.model.load_state_dict(saved["model"])
        for optimizer, saved_state in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved_state)
        self.scaler.load_state_dict(state["scaler"])
        self.order.set_state(state["order"].cpu())
        if self.team.rank < len(state["randoms"]):  # one more process than before begins with a dropout of its own
            mine = state["randoms"][self.team.rank]
            self.random.state = {device: tensor.cpu() for device, tensor in mine.items()}
        self.training_seconds = state["seconds"]
        self.history = History(**saved["history"], model=self.model)
        self.history.samples = [(step, text) for step, text in self.history.samples]
        self.step = saved["step"]
        self.owns = True


class _OwnRandomness:
    """``with`` it, torch's global generators are this run's; outside, they are as the caller left them."""

    def __init__(self, device: torch.device, seed: int):
        self.device = device
        outside = self._get()
        torch.manual_seed(seed)
        self.state = self._get()
        self._set(outside)

    def _get(self) -> dict[str, Tensor]:
        state = {"cpu": torch.get_rng_state()}
        if self.device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(self.device)
        elif self.device.type == "mps":
            state["mps"] = torch.mps.get_rng_state()
        return state

    def _set(self, state: dict[str, Tensor]) -> None:
        torch.set_rng_state(state["cpu"])
        if "cuda" in state and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["cuda"], self.device)
        elif "mps" in state and self.device.type == "mps":
            torch.mps.set_rng_state(state["mps"])

    def __enter__(self) -> None:
        self._outside = self._get()
        self._set(self.state)

    def __exit__(self, *error: object) -> None:
        self.state = self._get()
        self._set(self._outside)


class _Interrupts:
    """``with`` it, Ctrl-C only sets ``asked``, so that no update is cut in two; a second one stops at once."""

    def __init__(self) -> None:
        self.asked = False
        self._before: Callable[[int, FrameType | None], object] | int | None = None

    def __enter__(self) -> "_Interrupts":
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) not in (None, signal.SIG_IGN):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def __exit__(self, *error: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)


class _Bar:
    """The progress bar: steps, loss, tokens a second, time left."""

    def __init__(self, config: TrainConfig, step: int, block_size: int, shown: bool):
        self.shown = shown
        self.tokens_per_step = config.batch_size * config.accumulate * block_size
        self.steps, self.seconds = 0, 0.0  # since this call began, evaluations not counted
        shape = "{l_bar}{bar}| step {n_fmt}/{total_fmt}{postfix}, {remaining} left"
        self.bar = tqdm(total=config.max_steps, initial=step, disable=not shown, bar_format=shape, mininterval=0.5)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *error: object) -> None:
        self.bar.close()

    def update(self, seconds: float) -> None:
        """One more step, which took so long."""
        self.steps += 1
        self.seconds += seconds
        self.bar.update(1)

    def show(self, loss: float) -> None:
        if self.shown:
            speed = f", {self.tokens_per_step * self.steps / self.seconds:,.0f} tokens/s" if self.steps else ""
            self.bar.set_postfix_str(f"loss {loss:.3f}{speed}", refresh=False)

    def say(self, text: str) -> None:
        if self.shown:
            self.bar.write(text, file=sys.stderr)


# --- Checkpoints ------------------------------------------------------------------------------------------------

FORMAT = "tiny-gpt checkpoint 1"
KEYS = (
    "step", "model", "model_config", "train_config", "vocab", "best", "history", "data", "versions",
)  # fmt: skip


def load_checkpoint(
    path: str | os.PathLike[str], device: str | torch.device = "cpu"
) -> tuple[TinyGPT, CharTokenizer | None, dict[str, Any]]:
    """A model saved by ``train``, its tokenizer (None if it had none) and what is known about how it came to be.

    ``path`` is a file, or a run's folder: then its ``best.pt``. The model is in eval mode. The third part has
    ``step`` (updates), ``best`` (updates and loss, nats), ``train_config``, ``history``, ``data`` (the SHA-256 of the
    ids) and ``versions``. Raises FileNotFoundError, or ValueError for a file that is damaged or no checkpoint of ours.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "best.pt"
    saved = _load(path, usable_device(device))
    try:
        model = TinyGPT(GPTConfig(**saved["model_config"])).to(device)
        model.load_state_dict(saved["model"])
        tokenizer = None if saved["vocab"] is None else CharTokenizer(saved["vocab"])
        history = History(**saved["history"])
        TrainConfig(**saved["train_config"])  # whoever goes on needs it
    except (TypeError, AttributeError, RuntimeError) as error:  # parts are there, but are not what they should be
        raise ValueError(f"the parts of {path} do not fit together: {' '.join(str(error).split())}") from error
    meta = {key: saved[key] for key in ("step", "best", "train_config", "data", "versions")}
    return model.eval(), tokenizer, {**meta, "history": history}


def _versions() -> dict[str, str]:
    from . import __version__  # here, because the package may still be importing this module

    return {"tiny_gpt": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def fingerprint(*splits: Integer[Tensor, "_"]) -> str:
    """The SHA-256 of the ids of a text's parts, each (N,): ``data`` in a checkpoint, by which a text is known again."""
    digest = hashlib.sha256()
    for ids in splits:
        digest.update(f"{len(ids)}:".encode())
        digest.update(ids.cpu().to(torch.int32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def _save(path: Path, checkpoint: dict[str, Any]) -> None:
    _write_atomically(path, lambda file: torch.save(checkpoint, file))


def _write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write beside and rename: whenever the machine stops, ``path`` is the old file or the new one, whole."""
    beside = path.with_name(path.name + ".part")
    try:
        with open(beside, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        # torch ends a file that could not be written with a RuntimeError of its own; the reason is what came before.
        cause = error.__context__ if isinstance(error, RuntimeError) and error.__context__ else error
        if not isinstance(cause, OSError):  # a second Ctrl-C
            raise cause from None
        if not path.parent.is_dir():
            raise OSError(
                f"the folder {path.parent} has gone, so {path.name} could not be saved: if it was on a drive, mount "
                "that again and resume"
            ) from error
        raise OSError(f"{path} could not be written ({cause}); what was there before is still there") from error


def _load(path: Path, device: torch.device) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        saved = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # torch raises almost anything for a damaged file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is damaged or not a checkpoint: {reason}") from error
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        found = f"a dict with {', '.join(sorted(map(str, saved))[:8])}" if isinstance(saved, dict) else type(saved)
        raise ValueError(
            f"{path} is not a checkpoint of this package ({FORMAT!r}) but {found}. For weights with nanoGPT's or "
            "GPT-2's names there is tiny_gpt.gpt2.from_gpt2"
        )
    if missing := [key for key in KEYS if key not in saved]:
        raise ValueError(f"{path} calls itself a checkpoint of this package but lacks {', '.join(missing)}")
    return saved
