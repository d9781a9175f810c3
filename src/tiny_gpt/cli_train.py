"""The command ``tiny-gpt train``: its flags, which are dataclass fields, their defaults, and what it does."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import torch
from torch import nn
from tyro.conf import Suppress, arg

from . import own
from .check.file import check_file
from .data import CharTokenizer, load_text, split
from .model import GPTConfig
from .team import Team
from .train import PRESETS, TrainConfig, train
from .train.checkpoint import latest, read, settings


@dataclass(frozen=True)
class Sizes(GPTConfig):
    """The model's sizes; that of the vocabulary comes from the text."""

    vocab_size: Suppress[int] = 1


@dataclass(frozen=True)
class Train:
    """The flags of ``tiny-gpt train``."""

    sizes: Sizes
    training: TrainConfig
    out: Annotated[Path, arg(metavar="RUN")] = Path("out")
    """Folder for last.pt, best.pt and history.jsonl."""
    preset: Literal["auto", "cpu", "cpu-fast", "cpu-long", "gpu"] = "auto"
    """Where the defaults come from; 'auto' is gpu if there is a CUDA GPU, else cpu. cpu-fast: cpu in half the time.
    cpu-long: a larger model, in an hour or two."""
    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """A UTF-8 text file to train on; Shakespeare if not given."""
    model: Annotated[str | None, arg(metavar="FILE.py")] = None
    """A file of your own with a class TinyGPT (or FILE:CLASS), to be trained in the place of the book's model. It is
    run here, without the checker's protection."""
    resume: bool = False
    """Go on with the run in --out, with its own settings; its --data and --model have to be named again."""
    start_from: Annotated[Path | None, arg(name="from", metavar="RUN")] = None
    """Begin with the weights of another run, perhaps to train it longer. Its settings are the defaults then.
    The learning rate warms up and comes down anew, over the --max-steps of this run."""


def default(args: list[str]) -> Train:
    """The defaults of the flags in ``args``, the words after ``tiny-gpt train``: they depend on four of those flags."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--preset", default="auto")
    first.add_argument("--out", type=Path, default=Path("out"))
    first.add_argument("--resume", action="store_true")
    first.add_argument("--from", type=Path, dest="start_from")
    try:
        known, _ = first.parse_known_args(args)
    except argparse.ArgumentError:  # a flag without its value: the real parser says it better
        known = first.parse_args([])
    preset = PRESETS.get(known.preset, PRESETS["gpu" if torch.cuda.is_available() else "cpu"])
    sizes, training = preset.model, vars(preset.train)
    before = known.out if known.resume and (known.out / "last.pt").exists() else known.start_from
    if before is not None:
        sizes, settled = settings(before)
        training = settled if known.preset not in PRESETS else training
    return Train(sizes=Sizes(**sizes), training=TrainConfig(**training))


def run(command: Train) -> int:
    if command.resume and command.start_from:
        raise ValueError("--resume goes on with the run in --out, and --from begins a new one: give one of the two")
    text = load_text(command.data)
    tokenizer = CharTokenizer(text.text)
    if command.start_from:
        earlier = read(latest(command.start_from), torch.device("cpu"))
        if earlier["vocab"] and set(text.text) <= set(earlier["vocab"]):
            tokenizer = CharTokenizer(earlier["vocab"])  # a text that lacks some characters can be learned all the same
    train_ids, valid_ids = split(tokenizer.encode(text.text))
    config = GPTConfig(**{**vars(command.sizes), "vocab_size": tokenizer.vocab_size})
    leads = Team.here().rank == 0  # of the processes that torchrun started, one speaks
    if leads:
        print(f"{text.name} ({text.source}): {len(text.text):,} characters, {tokenizer.vocab_size} of them different.")
        if text.mended:
            print(text.mended)
        if command.start_from:
            plan = command.training
            print(
                f"It begins with the weights of {command.start_from} after {earlier['step']} updates. The schedule is "
                f"a new one: {plan.warmup_steps} updates up to {plan.learning_rate:g}, then down to {plan.min_lr:g} at "
                f"update {plan.max_steps}."
            )
    model: GPTConfig | type[nn.Module] = config
    if command.model is not None:
        file, name = own.split_name(command.model)
        model = own.model_class(own.load_my(file), name)
        if leads:
            print(_judged(file, model.__name__), flush=True)
    history = train(
        model,
        train_ids,
        valid_ids,
        command.training,
        tokenizer=tokenizer,
        out=command.out,
        resume=command.resume,
        sizes=config,
        start_from=command.start_from,
    )
    if history.interrupted:
        return 130
    if not leads:
        return 0
    step, loss = history.best
    print(f"Lowest validation loss {loss:.4f} nats a character, at step {step}: {command.out / 'best.pt'}")
    print(f"Next: tiny-gpt sample --out {command.out}")
    print(f"      tiny-gpt export {command.out} mine.safetensors")
    return 0


def _judged(file: Path, name: str) -> str:
    """What the checker says of a file that is about to be trained, in a line."""
    report = check_file(file, name)
    if report.passed:
        return f"{file}: the checker finds nothing wrong."
    return (
        f"{file}: the checker finds {', '.join(finding.id for finding in report.findings) or report.verdict} "
        f"(tiny-gpt check {file} says more). It is trained all the same: watch how much of that the curve shows."
    )
