"""The command ``tiny-gpt``: train a model, let it write, export it, check your own GPT. Flags are dataclass fields.

What needs PyTorch is imported by the command that needs it: ``--help`` is there at once.
"""

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
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg, subcommand

from . import __version__
from .files import write_beside

if TYPE_CHECKING:
    from .data import CharTokenizer
    from .model import TinyGPT

TRAIN = "Train a model on a text, Shakespeare if none is named. The defaults shown are the preset's."


@dataclass(frozen=True)
class Unread:
    """Stands for the flags of ``train``, which are in cli_train.py, while another command is read."""


@dataclass(frozen=True)
class Sample:
    """Let a trained model write. Characters appear as they are drawn."""

    out: Annotated[Path, arg(metavar="RUN")] = Path("out")
    """A run's folder, one of its checkpoints, or a file from tiny-gpt export."""
    prompt: Annotated[str | None, arg(metavar="TEXT")] = None
    """Text to continue; a line break if not given."""
    max_new_tokens: int = 500
    """How much to write, in tokens (characters)."""
    temperature: float = 1.0
    """Below 1 surer, above 1 wilder, 0 always the most probable."""
    top_k: Annotated[int | None, arg(metavar="K")] = None
    """Draw from the k most probable tokens only; from all if not given."""
    seed: Annotated[int | None, arg(metavar="INT")] = None
    """Seed of the draws; different text each time if not given."""
    device: str = "auto"
    """'auto' (cuda, else mps, else cpu) or a torch device."""


@dataclass(frozen=True)
class Export:
    """Write a trained model to one file, for other programs and for the pages of the book."""

    checkpoint: Annotated[Positional[Path], arg(metavar="RUN")]
    """A run's folder, or one of its checkpoints."""
    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The file to write, NAME.safetensors."""
    int8: bool = False
    """8 bits a weight instead of 16: half the size, and faster in a page."""
    data: Annotated[Path | None, arg(metavar="FILE")] = None
    """The text that it was trained on, if it is not Shakespeare: the loss is measured on its last tenth."""


@dataclass(frozen=True)
class Start:
    """Begin a file of your own: the interface that the checker asks for, with nothing in it."""

    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """The file to write, such as my_gpt.py. One that exists is left as it is."""


@dataclass(frozen=True)
class Check:
    """Judge the GPT in a file of your own: causes, evidence, where to read, never the answer."""

    file: Annotated[Positional[Path | None], arg(metavar="FILE")] = None
    """Your Python file or notebook."""
    model: Annotated[str | None, arg(metavar="CLASS")] = None
    """The model's class; TinyGPT if not given."""
    config: Annotated[str | None, arg(metavar="CLASS")] = None
    """The config's class; GPTConfig if not given."""
    json: bool = False
    """Print the report as JSON."""
    explain: Annotated[str | None, arg(metavar="ID")] = None
    """Say what the id of a finding means, and check nothing."""


@dataclass(frozen=True)
class Mark:
    """Check all that was handed in, each submission in a sandbox of its own, and print a table."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Where the submissions are: a Python file or notebook of each learner, or a folder or zip. Of several files in it
    those with a class TinyGPT are marked (all if none has one), and can use the small files beside them. Names that
    begin with . or __ are left out."""
    csv: Annotated[Path | None, arg(metavar="FILE")] = None
    """A file for the table as well, for a spreadsheet."""
    report: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """A folder for a page for each learner, with what check says."""
    unprotected: bool = False
    """Run them without the sandbox, on a system that has no bubblewrap. Then they can read and change your files."""


KNOWN = ("train", "sample", "export", "start", "check", "mark")
HIDES = "tiny_gpt.py"  # the lesson's name for a reader's file, and the name of this package


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
        if args == ["--version"]:
            print(f"tiny-gpt {__version__}")
            sys.exit(0)
        command = _parse(args)
        work: dict[str, Callable[[Any], int]] = {
            "train": _train, "sample": _sample, "export": _export, "start": _start, "check": _check, "mark": _mark,
        }  # fmt: skip
        code = work[args[0]](command)
        if Path(HIDES).exists():
            print(
                f"tiny-gpt: note: {HIDES} in this folder hides the book's package: python -m tiny_gpt, torchrun -m "
                "tiny_gpt and notebooks here run that file in its place. Call it my_gpt.py, or run nothing of the book "
                "in this folder but the command tiny-gpt",
                file=sys.stderr,
            )
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


def _parse(args: list[str]) -> Any:
    train: Any = Annotated[Unread, subcommand("train", description=TRAIN)]
    if args[:1] == ["train"]:
        from .cli_train import Train, default

        train = Annotated[Train, subcommand("train", description=TRAIN, default=default(args))]
    commands: Any = (
        train
        | Annotated[Sample, subcommand("sample")]
        | Annotated[Export, subcommand("export")]
        | Annotated[Start, subcommand("start")]
        | Annotated[Check, subcommand("check")]
        | Annotated[Mark, subcommand("mark")]
    )
    about = (
        "Train a small GPT on characters, let it write, export it, and check one that you wrote. "
        "With --debug an error is shown with its traceback; --version says which version this is."
    )
    box = io.StringIO()
    try:
        with contextlib.redirect_stderr(box):
            return tyro.cli(commands, prog="tiny-gpt", description=about, args=args, config=(OmitArgPrefixes,))
    except SystemExit as end:
        if not end.code:  # --help
            raise
        name = args[0] if args and args[0] in KNOWN else ""
        raise ValueError(_one_line(box.getvalue(), name)) from None


def _one_line(box: str, command: str) -> str:
    """What tyro draws as a box of several lines, as one; it points to the help of the command that was meant."""
    lines = [line.strip("│╭╮╰╯─| ") for line in box.splitlines()[1:]]
    text = " ".join(line for line in lines if line.strip("-+"))  # where the encoding has no box, it is of these
    text = re.sub(r"Error parsing \S+: ", "", text)
    text = re.sub(r",?\.? For full helptext, (see|run):? .*$", "", text)
    return f"{text}. See tiny-gpt {command} --help".replace("  ", " ")


def _train(command: Any) -> int:
    from .cli_train import run

    return run(command)


def _export(command: Export) -> int:
    from . import weights
    from .data import load_text

    before, after = weights.export(command.checkpoint, command.file, load_text(command.data).text, int8=command.int8)
    size = command.file.stat().st_size / 1e6
    print(f"{command.file}: {size:.2f} MB, {'int8' if command.int8 else 'half precision'}.")
    print(
        f"Validation loss {after:.4f} nats a character, {after - before:+z.4f} by the rounding ({before:.4f} before). "
        "Both are means over the same 20 batches; an evaluation in training takes another number of them, and so "
        "differs a little."
    )
    return 0


def _start(command: Start) -> int:
    source = Path(__file__).with_name("skeleton.py").read_text(encoding="utf-8").replace("FILE", str(command.file))
    if command.file.exists():
        raise ValueError(f"{command.file} exists and is left as it is: name another file")
    write_beside(command.file, lambda file: file.write(source.encode()))
    print(f"{command.file} is yours to fill in. Next: tiny-gpt check {command.file}")
    return 0


def _check(command: Check) -> int:
    from .check import explain
    from .check.file import check_file

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
    from . import marking

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
    import torch

    from . import weights
    from .rng import checked
    from .sampling import stream_text
    from .train import load_checkpoint, usable_device

    if command.seed is not None:
        checked(command.seed)
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
    prompt = tokenizer.in_known_form(prompt)
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
