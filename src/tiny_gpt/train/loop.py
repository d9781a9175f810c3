"""The training loop: batch, loss, backward, clip, step; evaluations, samples and checkpoints in between."""

import contextlib
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from .. import own
from ..check.subject import located, said
from ..data import CharTokenizer, get_batch
from ..files import write_beside
from ..model import GPTConfig, TinyGPT
from ..muon import Muon
from ..rng import OwnGenerators, seeded
from ..roles import NotCarriedOver, Roles, config_of, find_roles, matrices_of_blocks, prove
from ..team import Team
from .checkpoint import FORMAT, fingerprint, latest, read, versions
from .config import TrainConfig, learning_rate
from .device import autocast, precision, usable_device
from .evaluation import batch_losses
from .history import History
from .terminal import Bar, Interrupts


def train(
    model: nn.Module | type[nn.Module] | GPTConfig,
    train_ids: Integer[Tensor, "N_train"],
    valid_ids: Integer[Tensor, "N_valid"],
    config: TrainConfig,
    *,
    tokenizer: CharTokenizer | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    on_eval: Callable[[History], object] | None = None,
    progress: bool = True,
    sizes: GPTConfig | None = None,
    start_from: str | os.PathLike[str] | None = None,
) -> History:
    """Train ``model``, or a new one of these sizes, on ids (N_train,) and watch it on ids (N_valid,).

    A model is any that returns logits and loss for ``model(idx, targets)``, or its class, which is then built with
    ``sizes``; a GPTConfig stands for the book's own. The trained model is ``history.model``; one that is passed is
    trained in place. The run depends on ``config.seed`` only: torch's global random state is neither used nor changed.

    ``out`` names a folder for ``last.pt`` (saved at each evaluation and at Ctrl-C), ``best.pt`` (the lowest
    validation loss) and ``history.jsonl``. ``resume=True`` goes on from ``last.pt``, and what follows is what
    would have followed without the break, to the bit on a CPU, unless device or precision change. ``start_from`` names
    another run, or one of its checkpoints, of the same sizes: this one begins with its weights, and with a schedule, an
    optimizer and an order of the data of its own. ``tokenizer`` is saved along, and needed for samples.
    ``on_eval`` is called with the history after each evaluation, ``history.model`` at hand.

    Where ``torchrun`` started several processes, each calls this and they train together (see team.py): the first
    alone writes, shows and calls ``on_eval``.

    Raises ValueError for ids outside the vocabulary, a split shorter than a window, a folder that already holds a
    run (or, with ``resume``, holds none or a different one), a model that returns no loss; RuntimeError with the step
    and the line if somebody's model fails; and FloatingPointError if the loss becomes NaN.
    """
    run = Trainer(model, train_ids, valid_ids, config, tokenizer, None if out is None else Path(out), sizes)
    if resume:
        run.restore()
    elif run.out and any((run.out / name).exists() for name in ("last.pt", "best.pt")):
        raise ValueError(
            f"{run.out} already holds a run: resume it (--resume), or choose another folder (--out), perhaps with its "
            "weights to begin with (--from)"
        )
    elif start_from is not None:
        run.begin_with(latest(start_from))
    leads = run.team.rank == 0
    if run.out and leads:
        try:
            run.out.mkdir(parents=True, exist_ok=True)  # once: made anew later, it would hide that a drive has gone
        except (FileExistsError, NotADirectoryError):
            raise ValueError(f"{run.out} cannot be a run's folder, for a file is in its place: name another") from None
    run.team.connect(run.device)
    was_training = run.model.training
    matmul_precision = torch.get_float32_matmul_precision()
    try:
        if run.device.type == "cuda":
            torch.set_float32_matmul_precision("high")  # TF32 in the matrix products that stay float32
        with (
            Interrupts() as interrupts,
            Bar(config, run.step, run.sizes.block_size, progress and leads) as bar,
        ):
            run.forward = run.compiled() if config.compile else run.model
            run.parallel = run.team.parallel(run.forward)
            run.loop(interrupts, bar, on_eval if leads else None)
    finally:
        run.model.train(was_training)
        torch.set_float32_matmul_precision(matmul_precision)
    if run.history.interrupted and leads:
        where = f"saved in {run.out}; resume=True (--resume) goes on from there" if run.out else "not saved: out=None"
        print(f"Interrupted after {run.step} of {config.max_steps} steps, {where}.", file=sys.stderr)
    return run.history


def _optimizers(
    model: nn.Module, sizes: GPTConfig, config: TrainConfig, device: torch.device
) -> list[torch.optim.Optimizer]:
    """The optimizers that share the model's parameters among them: AdamW, and Muon if it is asked for."""
    betas = (config.beta1, config.beta2)
    # A model without a method of its own gets the book's, which asks for nothing but parameters and their dimensions.
    configure: Callable[..., torch.optim.Optimizer]
    configure = getattr(model, "configure_optimizers", None) or partial(TinyGPT.configure_optimizers, model)  # type: ignore[arg-type]
    adamw = configure(config.weight_decay, config.learning_rate, betas, device.type)
    if config.optimizer == "adamw":
        return [adamw]
    matrices = matrices_of_blocks(model, sizes)  # the embeddings are matrices too, but look-up tables
    for group in adamw.param_groups:
        group["params"] = [p for p in group["params"] if not any(p is matrix for matrix in matrices)]
    return [adamw, Muon(matrices, config.learning_rate, config.weight_decay)]


class Trainer:
    """One run: everything that changes while it goes on, and how to save and restore it."""

    def __init__(
        self,
        model: nn.Module | type[nn.Module] | GPTConfig,
        train_ids: Integer[Tensor, "N_train"],
        valid_ids: Integer[Tensor, "N_valid"],
        config: TrainConfig,
        tokenizer: CharTokenizer | None,
        out: Path | None,
        sizes: GPTConfig | None = None,
    ):
        self.config, self.tokenizer, self.out = config, tokenizer, out
        self.team = Team.here()
        self.device = usable_device(self.team.own_device(usable_device(config.device)))
        self.random = OwnGenerators(self.device, config.seed)  # weights and dropout
        if isinstance(model, GPTConfig):
            sizes, model = model, TinyGPT
        if isinstance(model, type):
            if sizes is None:
                raise ValueError(
                    f"a class needs sizes to be built with: train({model.__name__}, ..., sizes=GPTConfig(...))"
                )
            with self.random:
                model = own.build(model, sizes)
        self.model = model.to(self.device)
        self.sizes = sizes or config_of(model)
        self.source = None if isinstance(model, TinyGPT) else own.Source.of(model)  # a reader's own model
        self.roles: Roles | None = None  # of its parameters, once they are needed
        self.forward: nn.Module = self.model  # the same, compiled if that is asked for
        self.parallel: nn.Module = self.model  # and with its gradients averaged over the team
        if self.team.rank:  # the same weights everywhere, but dropout of one's own
            self.random = OwnGenerators(self.device, config.seed + self.team.rank)
        self._check(train_ids, valid_ids)
        self.data_hash = fingerprint(train_ids, valid_ids)
        self.train_ids, self.valid_ids = train_ids.to(self.device), valid_ids.to(self.device)
        self.order = torch.Generator().manual_seed(config.seed)  # which windows, in which order
        self.optimizers = _optimizers(self.model, self.sizes, config, self.device)
        self.dtype = precision(config, self.device)
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
        sizes, config = self.sizes, self.config
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

    def loop(self, interrupts: "Interrupts", bar: "Bar", on_eval: Callable[[History], object] | None) -> None:
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

    def asked(self, interrupts: "Interrupts") -> bool:
        """Whether to stop here. A team stops together, at a step at which all know that one of them was asked."""
        return interrupts.asked if self.team.size == 1 else self.stopping

    def update(self, asked: bool = False) -> None:
        """One update of the weights, with the averaged gradient of ``accumulate`` batches."""
        config, sizes = self.config, self.sizes
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
                with self.random, autocast(self.device, self.dtype):
                    loss = self.loss(self.parallel, x, y)
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

    def loss(self, forward: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        """The loss of one batch; what a reader's model does wrong is said with its line."""
        try:
            result = forward(x, y)
        except Exception as error:
            if self.source is None:
                raise
            where = f" in {located(error)}" if located(error) else ""
            raise RuntimeError(f"the model failed at step {self.step}{where}: {said(error)}.{self._kept()}") from error
        if not isinstance(result, tuple | list) or len(result) != 2 or not isinstance(result[1], Tensor):
            found = "a tuple" if isinstance(result, tuple | list) else f"a {type(result).__name__}"
            raise ValueError(
                f"at step {self.step} forward(idx, targets) returned {found}, where (logits, loss) is expected, the "
                f"loss one number.{self._kept()}"
            )
        loss: Tensor = result[1]
        return loss

    def flush(self, bar: "Bar") -> None:
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
        return (
            f"the loss became {loss} at step {step} (learning rate {lr:.3g}{gradient}). "
            f"Lower learning_rate, lengthen warmup_steps or clip gradients.{self._kept()}"
        )

    def _kept(self) -> str:
        saved = self.history.eval_step[-1] if self.out and self.history.eval_step else None
        return "" if saved is None else f" The checkpoint of step {saved} in {self.out} is whole."

    def evaluate(self, interrupts: "Interrupts", bar: "Bar") -> bool:
        """Append the losses on both splits to the history; False if Ctrl-C came before they were there."""
        self.flush(bar)
        means = []
        batch = 0
        clock = time.perf_counter()
        for ids in (self.train_ids, self.valid_ids):
            losses = []
            batches = self.config.eval_batches
            for loss in batch_losses(
                self.model,
                partial(self.loss, self.forward),
                ids,
                self.config,
                self.sizes,
                batches,
                self.dtype,
                self.team,
            ):
                if self.asked(interrupts):
                    return False
                losses.append(loss)
                batch += 1
                if batch == 2 and bar.estimate is None:  # the first of all is slower than the others
                    if loss.device.type != "cpu":
                        loss.item()
                    bar.foresee(time.perf_counter() - clock, self.device)
                clock = time.perf_counter()
                bar.show_evaluation(batch, 2 * batches)
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

    def sample(self, bar: "Bar") -> None:
        """Let the model write, from a generator of its own, so that samples change nothing else."""
        config, samples = self.config, self.history.samples
        due = config.sample_every and (self.step % config.sample_every == 0 or self.step == config.max_steps)
        if not due or self.tokenizer is None or self.team.rank or (samples and samples[-1][0] == self.step):
            return
        vocab = self.tokenizer.vocab
        start = self.tokenizer.encode("\n" if "\n" in vocab else vocab[0])[None].to(self.device)  # (1, 1)
        try:
            ids = self.written(start, config.seed + self.step)  # (sample_tokens,)
        except Exception as error:  # a reader's own generate: that is no reason to end the run
            if self.source is None:
                raise
            bar.say(f"no sample after {self.step} steps, for generate failed: {said(error)}")
            return
        samples.append((self.step, self.tokenizer.decode(ids)))
        bar.say(f"--- a sample after {self.step} steps ---\n{samples[-1][1]}\n---")

    def written(self, start: Tensor, seed: int) -> Tensor:
        """Ids (sample_tokens,) that the model writes after ``start`` (1, 1), drawn from ``seed``."""
        model, count = self.model, self.config.sample_tokens
        if isinstance(model, TinyGPT):
            generator = torch.Generator(self.device).manual_seed(seed)
            return model.generate(start, count, generator=generator)[0, 1:]
        with seeded(seed), torch.no_grad():  # the lesson's generate takes no generator
            model.eval()
            ids: Tensor = cast(Any, model).generate(start, count)[0, 1:]
        return ids

    def compiled(self) -> nn.Module:
        """The compiled model, or the plain one and a sentence about why: tried on a batch that is then forgotten."""
        generator = torch.Generator().manual_seed(0)
        x, y = get_batch(self.train_ids, self.config.batch_size, self.sizes.block_size, generator=generator)
        x, y = self.team.share(x, y)
        before = self.random.state
        try:
            compiled: nn.Module = torch.compile(self.model)  # type: ignore[assignment]  # a Module, of a Module
            self.model.train()
            with self.random, autocast(self.device, self.dtype):
                compiled(x, y)[1].backward()
            loss = partial(self.loss, compiled)
            list(batch_losses(self.model, loss, self.train_ids, self.config, self.sizes, 1, self.dtype, self.team))
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
        if not self.owns and (source := self.source) and source.text:
            write_beside(out / source.file, lambda file: file.write(source.text.encode()))
        first, self.owns = not self.owns, True
        before = set(out.iterdir()) if out.is_dir() else set()
        try:
            self._write(out, best, randoms)
        except BaseException:
            if first:  # what is left of a run that was never saved would be in the way of the next one
                self.owns = False
                for path in set(out.iterdir()) - before if out.is_dir() else ():
                    path.unlink()
            raise

    def _write(self, out: Path, best: bool, randoms: list[dict[str, Tensor]]) -> None:
        self.history.save(out / "history.jsonl")
        checkpoint = {
            "format": FORMAT,
            "step": self.step,
            **self.carried(),
            "train_config": asdict(self.config),
            "vocab": self.tokenizer.vocab if self.tokenizer else None,
            "best": self.history.best if self.history.eval_step else None,
            "history": {f.name: getattr(self.history, f.name) for f in fields(History) if f.compare},
            "data": self.data_hash,
            "versions": versions(),
        }
        if best:
            write_beside(out / "best.pt", lambda file: torch.save(checkpoint, file))
        checkpoint["resume"] = {
            "model": self.model.state_dict(),  # under the names of whoever wrote it
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "scaler": self.scaler.state_dict(),
            "order": self.order.get_state(),
            "randoms": randoms,
            "seconds": self.training_seconds,
            "sizes": asdict(self.sizes),
        }
        write_beside(out / "last.pt", lambda file: torch.save(checkpoint, file))

    def carried(self) -> dict[str, Any]:
        """The weights and sizes under the book's names; of a model that is another design, why it has none."""
        if isinstance(self.model, TinyGPT):
            return {"model": self.model.state_dict(), "model_config": asdict(self.model.config)}
        source = self.source and self.source.saved()
        try:
            self.roles = self.roles or find_roles(self.model, self.sizes)
            model = prove(self.model, self.roles)
        except NotCarriedOver as error:
            own = {"state": self.model.state_dict(), "refused": str(error)}
            return {"model": None, "model_config": asdict(self.sizes), "own": {**(source or {}), **own}}
        return {"model": model.state_dict(), "model_config": asdict(model.config), "own": source}

    def _other_source(self, theirs: dict[str, Any] | None) -> list[str]:
        """What is different about the code of the model that the saved run trained."""
        if (theirs is None) != (self.source is None):
            whose = "the book's own" if theirs is None else f"{theirs['name']} of {theirs['file'] or 'a notebook'}"
            return [f"the model was {whose}"]
        if theirs is None or self.source is None:
            return []
        change = self.source.change_from(own.Source(theirs["file"], theirs["text"], theirs["name"]))
        return [change] if change else []

    def begin_with(self, path: Path) -> None:
        """Take another run's weights, and nothing else of it."""
        saved = read(path, self.device)
        resume = saved.get("resume", {})
        theirs = resume.get("sizes", saved["model_config"])
        ours = asdict(self.sizes)
        different = [
            f"{key} is {theirs.get(key)!r} there, is {ours[key]!r} here" for key in ours if theirs.get(key) != ours[key]
        ]
        different = [text for text in different if not text.startswith("dropout ")]
        if saved["vocab"] and self.tokenizer and saved["vocab"] != self.tokenizer.vocab:
            different.append("its text has other characters")
        if different:
            raise ValueError(
                f"a run can begin with the weights of {path} if all sizes are its own: {'; '.join(different)}"
            )
        try:
            self.model.load_state_dict(resume.get("model") or saved["model"] or saved["own"]["state"])
        except RuntimeError as error:
            whose = (saved.get("own") or {}).get("file") or "the book's model"
            raise ValueError(
                f"the weights of {path} are those of {whose}, and do not fit this model: begin with last.pt of a run "
                "of the same file"
            ) from error

    def restore(self) -> None:
        if self.out is None:
            raise ValueError("resume=True needs the folder of the run to go on with: out=...")
        path = self.out / "last.pt"
        if not path.exists():
            raise ValueError(f"there is nothing to resume in {self.out}: it has no last.pt")
        saved = read(path, self.device)
        if "resume" not in saved:
            raise ValueError(f"{path} has weights but not the state of a run: it is a best.pt, which cannot go on")
        state = saved["resume"]
        if missing := {"model", "optimizers", "scaler", "order", "randoms", "seconds"} - set(state):
            raise ValueError(
                f"{path} lacks {', '.join(sorted(missing))}: another version of this package saved it, and only that "
                "one can go on with it. Its weights can still be loaded"
            )
        theirs = {**saved["resume"].get("sizes", saved["model_config"]), **saved["train_config"]}
        ours = {**asdict(self.sizes), **asdict(self.config)}
        changed = [f"{key} was {theirs.get(key)!r}, is {ours[key]!r}" for key in ours if theirs.get(key) != ours[key]]
        changed = [text for text in changed if not text.startswith(("device ", "dtype ", "compile "))]
        if saved["data"] != self.data_hash:
            changed.append("the text is another one")
        changed += self._other_source(saved.get("own"))
        if changed:
            raise ValueError(
                f"resuming goes on with the very same run, and the one in {self.out} differs: {'; '.join(changed)}. "
                "Give the same values, or start a new run in another folder (--out), with this one's weights if it "
                "shall be trained longer (--from)"
            )
        self.model.load_state_dict(state["model"])
        for optimizer, saved_state in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved_state)
        if state["scaler"] and self.scaler.is_enabled():  # only float16 has one, and the precision may be another
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
