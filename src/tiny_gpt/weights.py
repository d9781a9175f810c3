"""Trained models in one file each: weights, sizes, vocabulary and where they come from, in the safetensors format.

``load("shakespeare-cpu")`` reads the model that the package carries, which ``make`` made; ``save`` writes others.
"""

import json
import os
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .data import CharTokenizer, load_shakespeare, split
from .model import GPTConfig, TinyGPT
from .train import PRESETS, History, evaluate, train

FOLDER = Path(__file__).with_name("trained")
FORMAT = "tiny-gpt weights 1"


def save(path: str | os.PathLike, model: TinyGPT, tokenizer: CharTokenizer, provenance: dict) -> None:
    """Write the model in half precision, each matrix once, with everything needed to use it and to trust it.

    ``provenance`` is any JSON: the run's seed, steps, versions, losses. The file is written beside and renamed.
    """
    path = Path(path)
    tensors = {name: p.detach().half().cpu().contiguous() for name, p in model.named_parameters()}  # tied: once
    header = {"format": FORMAT, "config": asdict(model.config), "vocab": tokenizer.vocab, "provenance": provenance}
    beside = path.with_name(path.name + ".part")
    save_file(tensors, beside, metadata={key: json.dumps(value) for key, value in header.items()})
    os.replace(beside, path)


def load(name: str | os.PathLike) -> tuple[TinyGPT, CharTokenizer, dict]:
    """(model in eval mode and single precision, its tokenizer, its provenance) from a file or a name in ``trained``.

    Raises ValueError for a file that is damaged or not written by ``save``, with the names of what is there.
    """
    path = FOLDER / f"{name}.safetensors" if "." not in Path(name).name else Path(name)
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in FOLDER.glob("*.safetensors")))
        raise ValueError(f"there are no weights {str(name)!r}: give a file, or one of {there}")
    try:
        with safe_open(path, "pt") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path.name} is damaged or not a safetensors file: {error}") from error
    if header.get("format") != json.dumps(FORMAT):
        raise ValueError(
            f"{path.name} was not written by tiny_gpt.weights.save: its format is {header.get('format')}, "
            f"not {json.dumps(FORMAT)}"
        )
    header = {key: json.loads(value) for key, value in header.items()}
    with torch.random.fork_rng():  # the initial weights are thrown away: they must not move the caller's generator
        model = TinyGPT(GPTConfig(**header["config"]))
    model.load_state_dict({**tensors, "lm_head.weight": tensors["wte.weight"]})
    return model.eval(), CharTokenizer(header["vocab"]), header["provenance"]


def make(preset: str = "cpu") -> None:
    """Train a preset on Shakespeare from its seed, as ``make weights`` does, and put the model into ``trained``."""
    text = load_shakespeare()
    tokenizer = CharTokenizer(text)
    train_ids, valid_ids = split(tokenizer.encode(text))
    sizes, plan = PRESETS[preset]
    history = train(
        GPTConfig(vocab_size=tokenizer.vocab_size, **sizes), train_ids, valid_ids, plan, tokenizer=tokenizer
    )
    FOLDER.mkdir(exist_ok=True)
    finish(FOLDER / f"shakespeare-{preset}.safetensors", history, plan, tokenizer, valid_ids)


def finish(path: Path, history: History, plan, tokenizer: CharTokenizer, valid_ids) -> None:
    """Save a run's model with its provenance; the validation loss is that of the weights as the file has them."""
    model = history.model.half().float()
    provenance = {
        "text": "Tiny Shakespeare, first 90 % of the characters",
        "valid_loss": evaluate(model, valid_ids, plan),
        "device": str(model.wte.weight.device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "train_config": asdict(plan),
    }
    save(path, model, tokenizer, provenance)
