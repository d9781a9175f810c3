"""Trained models in one file each: weights, sizes, vocabulary and where they come from, in the safetensors format.

``load("shakespeare-cpu")`` reads the model that the package carries, which ``make`` made; ``save`` writes others and
``export`` a training run's. The book's pages read these files too (widgets/engine.mjs).
"""

import json
import os
import platform
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int8
from safetensors import SafetensorError
from safetensors import torch as safetensors
from torch import Tensor, nn

from . import own
from .data import CharTokenizer, load_shakespeare, split
from .files import write_beside
from .model import GPTConfig, TinyGPT
from .roles import carried_over
from .train import PRESETS, History, TrainConfig, evaluate, fingerprint, load_checkpoint, train, whole_loss

FOLDER = Path(__file__).with_name("trained")
FORMAT = "tiny-gpt weights 1"
STRANGERS = "strangers"  # a model by another hand, trained with its own classes: trained/strangers.py

Provenance = dict[str, Any]  # where a model comes from: JSON


def quantised(matrix: Float[Tensor, "rows columns"]) -> tuple[Int8[Tensor, "rows columns"], Float[Tensor, "rows"]]:
    """A matrix in 8 bits a number: whole numbers from -127 to 127, and each row's scale, which they are times of.

    A row's largest number becomes 127 or -127; the others are off by half a scale at most.
    """
    scale = matrix.abs().amax(dim=1) / 127  # (rows,)
    scale = torch.where(scale > 0, scale, 1.0)  # a row of zeros
    return (matrix / scale[:, None]).round().to(torch.int8), scale


def save(
    path: str | os.PathLike[str],
    model: nn.Module,
    tokenizer: CharTokenizer,
    provenance: Provenance,
    *,
    int8: bool = False,
) -> None:
    """Write the model in half precision, each matrix once, with everything needed to use it and to trust it.

    A reader's own model is written as the book's with the same logits (``roles.carried_over``). With ``int8`` the
    matrices of the blocks are ``quantised``: NAME in int8, NAME.scale in single precision; the embeddings stay as they
    are, since they are few and also the head. ``provenance`` is any JSON: the run's seed, steps, versions, losses.
    """
    data = to_bytes(model, tokenizer, provenance, int8=int8)
    write_beside(Path(path), lambda file: file.write(data))


def to_bytes(model: nn.Module, tokenizer: CharTokenizer, provenance: Provenance | None, *, int8: bool = False) -> bytes:
    """What ``save`` writes."""
    model = carried_over(model)
    header = {"format": FORMAT, "config": asdict(model.config), "vocab": tokenizer.vocab, "provenance": provenance}
    return safetensors.save(_tensors(model, int8), {key: json.dumps(value) for key, value in header.items()})


def _tensors(model: TinyGPT, int8: bool) -> dict[str, Tensor]:
    """What a file holds."""
    tensors = {}
    for name, parameter in model.named_parameters():  # the tied matrix comes once
        p = parameter.detach().cpu()
        if int8 and name.startswith("blocks.") and p.dim() == 2:
            tensors[name], tensors[f"{name}.scale"] = quantised(p.float())
        else:
            tensors[name] = p.half().contiguous()
    return tensors


def _model(config: GPTConfig, tensors: dict[str, Tensor]) -> TinyGPT:
    """The model in eval mode that the tensors of a file stand for."""
    weights = {name: tensor.float() for name, tensor in tensors.items() if not name.endswith(".scale")}
    for name in weights.keys() & {name.removesuffix(".scale") for name in tensors if name.endswith(".scale")}:
        weights[name] *= tensors[f"{name}.scale"][:, None]  # (rows, columns)
    with torch.random.fork_rng():  # the initial weights are thrown away: they must not move the caller's generator
        model = TinyGPT(config)
    model.load_state_dict({**weights, "lm_head.weight": weights["wte.weight"]})
    return model.eval()


def load(name: str | os.PathLike[str]) -> tuple[TinyGPT, CharTokenizer, Provenance]:
    """(model in eval mode and single precision, its tokenizer, its provenance) from a file or a name in ``trained``.

    Raises ValueError for a file that is damaged or not written by ``save``, with the names of what is there.
    """
    path = FOLDER / f"{name}.safetensors" if "." not in Path(name).name else Path(name)
    if not path.is_file():
        raise ValueError(f"there are no weights {str(name)!r}: give a file, or one of {', '.join(sorted(carried()))}")
    return from_bytes(path.read_bytes(), path.name)


def from_bytes(data: bytes, name: str = "the file") -> tuple[TinyGPT, CharTokenizer, Provenance]:
    """What ``load`` gives, from the contents of a file that errors call ``name``."""
    try:
        tensors = safetensors.load(data)
    except SafetensorError as error:
        raise ValueError(f"{name} is damaged or not a safetensors file: {error}") from error
    header = about(data, name)
    try:
        return (
            _model(GPTConfig(**header["config"]), tensors),
            CharTokenizer(header["vocab"]),
            header["provenance"] or {},
        )
    except (KeyError, TypeError, RuntimeError) as error:  # parts are there, but are not what they should be
        raise ValueError(f"the parts of {name} do not fit together: {' '.join(str(error).split())}") from error


def about(data: bytes, name: str = "the file") -> dict[str, Any]:
    """What a whole file says of its model, without making it: ``config``, ``vocab`` and ``provenance``."""
    try:
        header = _header(data).get("__metadata__", {})
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{name} is damaged or not a safetensors file: it has no header") from error
    if header.get("format") != json.dumps(FORMAT):
        raise ValueError(
            f"{name} was not written by tiny_gpt.weights.save: its format is {header.get('format')}, "
            f"not {json.dumps(FORMAT)}"
        )
    return {key: json.loads(value) for key, value in header.items()}


def _header(data: bytes) -> dict[str, Any]:
    """The JSON at the beginning of a safetensors file, before which its length stands in 8 bytes."""
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def carried() -> list[str]:
    """The names of the book's own models that the package carries, the smallest first; STRANGERS is none of them."""
    files = FOLDER.glob("shakespeare-*.safetensors")
    return [path.stem for path in sorted(files, key=lambda path: path.stat().st_size)]


@cache
def for_page(name: str) -> bytes:
    """A carried model as a page gets it, in int8; its provenance says so if its loss was measured before."""
    data = (FOLDER / f"{name}.safetensors").read_bytes()
    if any(entry.get("dtype") == "I8" for entry in _header(data).values()):
        return data
    model, tokenizer, provenance = from_bytes(data, name)
    return to_bytes(model, tokenizer, {**provenance, "rounded_later": "int8"}, int8=True)


def make(
    preset: str = "cpu",
    out: str | os.PathLike[str] | None = None,
    record: str | os.PathLike[str] | None = None,
    commit: str = "",
    file: str = "",
) -> None:
    """Train a preset on Shakespeare from its seed, as ``make weights`` does, and put the model into ``trained``.

    ``file`` is one with a TinyGPT of its own, which is then trained in the place of the book's and gives the model its
    name. ``out`` is the folder of ``train``'s checkpoints; a run that is in there goes on. ``record`` is a JSON file
    for what happened: the curve and the samples, device, seconds, versions, ``commit``, seed. A model of more than a
    million parameters is stored in int8.
    """
    text = load_shakespeare()
    tokenizer = CharTokenizer(text)
    train_ids, valid_ids = split(tokenizer.encode(text))
    sizes, plan = PRESETS[preset]
    config = GPTConfig(vocab_size=tokenizer.vocab_size, **sizes)
    resume = out is not None and (Path(out) / "last.pt").exists()
    model = own.model_class(own.load_my(file)) if file else config
    history = train(model, train_ids, valid_ids, plan, tokenizer=tokenizer, out=out, resume=resume, sizes=config)
    FOLDER.mkdir(exist_ok=True)
    name = Path(file).stem if file else f"shakespeare-{preset}"
    finish(FOLDER / f"{name}.safetensors", history, plan, tokenizer, valid_ids, record, commit)


def finish(
    path: Path,
    history: History,
    plan: TrainConfig,
    tokenizer: CharTokenizer,
    valid_ids: Tensor,
    record: str | os.PathLike[str] | None = None,
    commit: str = "",
) -> None:
    """Save a run's model with its provenance; its ``valid_loss`` is that of the weights as the file has them."""
    assert history.model is not None  # train has put it there
    model = carried_over(history.model)
    run = {f: getattr(history, f) for f in ("eval_step", "train_loss", "valid_loss", "seconds", "samples")}
    about = {
        "text": "Tiny Shakespeare, first 90 % of the characters",
        "threads": torch.get_num_threads(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "commit": commit,
        "run": {**run, "seconds": [round(s, 1) for s in history.seconds]},
        "exact_whole_valid_loss": whole_loss(model.eval(), valid_ids),  # before they were rounded
    }
    if model is not history.model:
        about["own"] = own.Source.of(history.model).told()
    int8 = model.get_num_params() > 1_000_000
    _save_measured(path, model, tokenizer, valid_ids, plan, about, int8)
    if record is not None:
        *_, provenance = load(path)
        Path(record).parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"model": asdict(model.config), **provenance}, indent=1)
        write_beside(Path(record), lambda file: file.write(f"{text}\n".encode()))


def export(
    checkpoint: str | os.PathLike[str],
    path: str | os.PathLike[str],
    text: str,
    *,
    int8: bool = False,
    batches: int = 20,
) -> tuple[float, float]:
    """Write a checkpoint of ``train``, or the best one in a run's folder, to one file that ``load`` and pages read.

    ``text`` is the one that the run was trained on. Returns the validation losses, nats, before and after the numbers
    were rounded for the file, on the same ``batches`` batches. Raises ValueError, with nothing written, for another
    text, a checkpoint without a vocabulary, a file that is not named NAME.safetensors or whose folder is not there, and
    what ``load_checkpoint`` refuses.
    """
    path = Path(path)
    if path.suffix != ".safetensors" or path.is_dir():
        raise ValueError(f"the model goes to a file NAME.safetensors, got {path}: name it so")
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent} to write {path.name} into: make it first")
    model, tokenizer, meta = load_checkpoint(checkpoint)
    if tokenizer is None:
        raise ValueError(f"the checkpoint in {checkpoint} has no vocabulary: it was trained without a tokenizer")
    other = ValueError(
        f"the text of {len(text):,} characters is not the one that {checkpoint} was trained on, so its validation loss "
        "cannot be measured: name that text (--data FILE)"
    )
    if not set(text) <= set(tokenizer.vocab):
        raise other
    train_ids, valid_ids = split(tokenizer.encode(text))
    if fingerprint(train_ids, valid_ids) != meta["data"]:
        raise other
    # One device and single precision: the two losses shall differ by the rounding alone.
    plan = replace(TrainConfig(**meta["train_config"]), device="cpu", dtype="float32", eval_batches=batches)
    before = evaluate(model, valid_ids, plan)
    about = {"step": meta["step"], "data": meta["data"], **meta["versions"], "exact_valid_loss": before}
    if meta["own"]:
        about["own"] = own.Source(*(meta["own"][key] for key in ("file", "text", "name"))).told()
    return before, _save_measured(path, model, tokenizer, valid_ids, plan, about, int8)


def _save_measured(
    path: Path,
    model: TinyGPT,
    tokenizer: CharTokenizer,
    valid_ids: Tensor,
    plan: TrainConfig,
    about: Provenance,
    int8: bool = False,
) -> float:
    """Save a model with its validation loss, nats, as the file has it, which is returned, and with ``about``."""
    stored = _model(model.config, _tensors(model, int8)).to(model.wte.weight.device)
    loss = evaluate(stored, valid_ids, plan)
    device = str(model.wte.weight.device)
    save(
        path, model, tokenizer, {**about, "valid_loss": loss, "device": device, "train_config": asdict(plan)}, int8=int8
    )
    return loss
