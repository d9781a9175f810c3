"""The command ``tiny-gpt``: train a model, let it write, export it, check your own GPT. Flags are dataclass fields."""

import argparse
import contextlib
import io
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from torch import nn
from tyro.conf import OmitArgPrefixes, Positional, Suppress, subcommand

from . import marking, own, weights
from .check import explain
from .check.file import check_file
from .data import CharTokenizer, load_text, split
from .model import GPTConfig, TinyGPT
from .sampling import stream_text
from .team import Team
from .train import PRESETS, TrainConfig, load_checkpoint, settings, train, usable_device


@dataclass(frozen=True)
class Sizes(GPTConfig):
    """The model's sizes; that of the vocabulary comes from the text."""

    vocab_size: Suppress[int] = 1


@dataclass(frozen=True)
class Train:
    """Train a model on a text, Shakespeare if none is named. The defaults shown are the preset's."""

    sizes: Sizes
    training: TrainConfig
    out: Path = Path("out")
    """Folder for last.pt, best.pt and history.jsonl."""
    preset: Literal["auto", "cpu", "cpu-fast", "cpu-long", "gpu"] = "auto"
    """Where the defaults come from; 'auto' is gpu if there is a CUDA GPU, else cpu. cpu-fast: cpu in half the time.
    cpu-long: a larger model, in an hour or two."""
    data: Path | None = None
    """A UTF-8 text file to train on; Shakespeare if not given."""
    model: str | None = None
    """A file of your own with a class TinyGPT (or FILE:CLASS), to be trained in the place of the book's model. It is
    run here, without the checker's protection."""
    resume: bool = False
    """Go on with the run in --out, with its own settings; its --data and --model have to be named again."""


@dataclass(frozen=True)
class Sample:
    """Let a trained model write. Characters appear as they are drawn."""

    out: Path = Path("out")
    """A run's folder, one of its checkpoints, or a file from tiny-gpt export."""
    prompt: str | None = None
    """Text to continue; a line break if not given."""
    max_new_tokens: int = 500
    """How much to write, in tokens (characters)."""
    temperature: float = 1.0
    """Below 1 surer, above 1 wilder, 0 always the most probable."""
    top_k: int | None = None
    """Draw from the k most probable tokens only; from all if not given."""
    seed: int | None = None
    """Seed of the draws; different text each time if not given."""
    device: str = "auto"
    """'auto' (cuda, else mps, else cpu) or a torch device."""


@dataclass(frozen=True)
class Export:
    """Write a trained model to one file, for other programs and for the pages of the book."""

    checkpoint: Positional[Path]
    """A run's folder, or one of its checkpoints."""
    file: Positional[Path]
    """The file to write, NAME.safetensors."""
    int8: bool = False
    """8 bits a weight instead of 16: half the size, and faster in a page."""
    data: Path | None = None
    """The text that it was trained on, if it is not Shakespeare: the loss is measured on its last tenth."""


@dataclass(frozen=True)
class Start:
    """Begin a file of your own: the interface that the checker asks for, with nothing in it."""

    file: Positional[Path]
    """The file to write. One that exists is left as it is."""


@dataclass(frozen=True)
class Check:
    """Judge the GPT in a file of your own: causes, evidence, where to read, never the answer."""

    file: Positional[Path | None] = None
    """Your Python file or notebook."""
    model: str | None = None
    """The model's class; TinyGPT if not given."""
    config: str | None = None
    """The config's class; GPTConfig if not given."""
    json: bool = False
    """Print the report as JSON."""
    explain: str | None = None
    """Say what the id of a finding means, and check nothing."""


@dataclass(frozen=True)
class Mark:
    """Check all that was handed in, each submission in a sandbox of its own, and print a table."""

    folder: Positional[Path]
    """Where the submissions are: a Python file or notebook of each learner, or a folder or zip. Of several files in it
    those with a class TinyGPT are marked (all if none has one), and can use the small files beside them. Names that
    begin with . or __ are left out."""
    csv: Path | None = None
    """A file for the table as well, for a spreadsheet."""
    report: Path | None = None
    """A folder for a page for each learner, with what check says."""
    unprotected: bool = False
    """Run them without the sandbox, on a system that has no bubblewrap. Then they can read and change your files."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    Exit codes: 0, 1 if a check finds something or a submission does not pass, 2 for wrong input (one line on stderr
    says which; with ``--debug`` its traceback stands above it), 130 after Ctrl-C.
    """
    args = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    if hasattr(sys.stdout, "reconfigure"):  # a terminal without a character shows its number instead of an error
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        command = _parse(args)
        work: dict[type, Callable[[Any], int]] = {
            Train: _train, Sample: _sample, Export: _export, Start: _start, Check: _check, Mark: _mark,
        }  # fmt: skip
        code = work[type(command)](command)
    except BrokenPipeError:  # whoever read the text has seen enough; python would complain at exit otherwise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (ValueError, OSError, ArithmeticError, RuntimeError) as error:
        if debug:
            traceback.print_exc()
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"tiny-gpt: error: {message}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def _parse(args: list[str]) -> Train | Sample | Export | Start | Check | Mark:
    # The defaults of the other flags depend on these three, so they are looked at first.
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--preset", default="auto")
    first.add_argument("--out", type=Path, default=Path("out"))
    first.add_argument("--resume", action="store_true")
    try:
        known, _ = first.parse_known_args(args)
    except argparse.ArgumentError:  # a flag without its value: the real parser says it better
        known = first.parse_args([])
    if args[:1] == ["train"] and known.resume and (known.out / "last.pt").exists():
        sizes, training = (
            kind(**values) for kind, values in zip((Sizes, TrainConfig), settings(known.out), strict=True)
        )
    else:
        auto = "gpu" if torch.cuda.is_available() else "cpu"
        preset = PRESETS.get(known.preset, PRESETS[auto])
        sizes, training = Sizes(**preset.model), preset.train
    default = Train(sizes=sizes, training=training)
    commands = (
        Annotated[Train, subcommand("train", default=default)]
        | Annotated[Sample, subcommand("sample")]
        | Annotated[Export, subcommand("export")]
        | Annotated[Start, subcommand("start")]
        | Annotated[Check, subcommand("check")]
        | Annotated[Mark, subcommand("mark")]
    )
    every = OmitArgPrefixes[commands]
    about = (
        "Train a small GPT on characters, let it write, export it, and check one that you wrote. "
        "With --debug an error is shown with its traceback."
    )
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(every, prog="tiny-gpt", description=about, args=args)
    except SystemExit as end:
        if not end.code:  # --help
            raise
        raise ValueError(_one_line(box.getvalue())) from None


def _one_line(box: str) -> str:
    """What tyro draws as a box of several lines, as one."""
    lines = [line.strip("│╭╮╰╯─| ") for line in box.splitlines()[1:]]
    text = " ".join(line for line in lines if line.strip("-+"))  # where the encoding has no box, it is of these
    text = re.sub(r"Error parsing \S+: ", "", text)
    return re.sub(r"\.? For full helptext, (see|run) (.*)$", r". See \2", text)


def _train(command: Train) -> int:
    text = load_text(command.data)
    tokenizer = CharTokenizer(text.text)
    train_ids, valid_ids = split(tokenizer.encode(text.text))
    config = GPTConfig(**{**vars(command.sizes), "vocab_size": tokenizer.vocab_size})
    leads = Team.here().rank == 0  # of the processes that torchrun started, one speaks
    if leads:
        print(f"{text.name} ({text.source}): {len(text.text):,} characters, {tokenizer.vocab_size} of them different.")
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


def _export(command: Export) -> int:
    before, after = weights.export(command.checkpoint, command.file, load_text(command.data).text, int8=command.int8)
    size = command.file.stat().st_size / 1e6
    print(f"{command.file}: {size:.2f} MB, {'int8' if command.int8 else 'half precision'}.")
    print(f"Validation loss {after:.4f} nats a character, {after - before:+.4f} by the rounding ({before:.4f} before).")
    return 0


def _start(command: Start) -> int:
    source = Path(__file__).with_name("skeleton.py").read_text(encoding="utf-8")
    try:
        with command.file.open("x", encoding="utf-8") as file:
            file.write(source.replace("FILE", str(command.file)))
    except FileExistsError:
        raise ValueError(f"{command.file} exists and is left as it is: name another file") from None
    print(f"{command.file} is yours to fill in. Next: tiny-gpt check {command.file}")
    return 0


def _check(command: Check) -> int:
    if command.explain is not None:
        print(explain(command.explain))
        return 0
    if command.file is None:
        raise ValueError("check needs a file: tiny-gpt check my_gpt.py")
    report = check_file(command.file, command.model, command.config)
    print(report.to_json() if command.json else report)
    if report.passed and not command.json and command.file.suffix == ".py":
        named = f":{command.model}" if command.model else ""
        print(f"\nNext: tiny-gpt train --model {command.file}{named} --out runs/mine")
    return 0 if report.passed else 1


def _mark(command: Mark) -> int:
    if not command.folder.is_dir():
        raise ValueError(f"{command.folder} is no folder: give the one that the submissions are in")
    if not command.unprotected and not marking.sandbox.protects():
        raise ValueError(
            "submissions are code by others, and here nothing keeps them from your files and the network: install "
            "bubblewrap 0.8 or newer (on Debian and Ubuntu: apt install bubblewrap), or accept that with --unprotected"
        )
    if not command.unprotected and not marking.sandbox.starts(command.folder):
        raise ValueError(
            f"Python does not start in the sandbox, which hides {command.folder} from the submissions: move them to a "
            "folder of their own, outside of which Python and its packages are"
        )
    with contextlib.ExitStack() as stack:
        unpacked = stack.enter_context(tempfile.TemporaryDirectory())
        found = marking.submissions(command.folder, Path(unpacked))
        if not found:
            raise ValueError(f"{command.folder} is empty: put a file, or a folder or zip, of each learner into it")
        add = stack.enter_context(marking.table(command.csv)) if command.csv else None
        if command.report:
            command.report.mkdir(parents=True, exist_ok=True)
        width = max(len(one.name) for one in found)
        passed = 0
        for submission in found:
            one = marking.mark(submission, hidden=command.folder, protected=not command.unprotected)
            print(f"{one.submission:<{width}}  {one.verdict}", flush=True)
            passed += one.passed
            if add:
                add(one)
            if command.report:
                marking.report_page(one, command.report)
    print(f"{passed} of {len(found)} pass.")
    return 0 if passed == len(found) else 1


def _sample(command: Sample) -> int:
    device = usable_device(command.device)
    model: TinyGPT
    tokenizer: CharTokenizer | None
    if command.out.suffix == ".safetensors":
        model, tokenizer, _ = weights.load(command.out)
        model.to(device)
    else:
        model, tokenizer, _ = load_checkpoint(command.out, device)
    if tokenizer is None:
        raise ValueError(f"the checkpoint in {command.out} has no vocabulary: it was trained without a tokenizer")
    prompt = command.prompt
    if prompt is None:
        prompt = "\n" if "\n" in tokenizer.vocab else tokenizer.vocab[0]
    generator = torch.Generator(device)
    generator.seed() if command.seed is None else generator.manual_seed(command.seed)
    pieces = stream_text(
        model, tokenizer, prompt, command.max_new_tokens, command.temperature, command.top_k, generator=generator
    )
    print(prompt + next(pieces, ""), end="", flush=True)  # together: an error leaves nothing on stdout
    for piece in pieces:
        print(piece, end="", flush=True)
    print()
    return 0
