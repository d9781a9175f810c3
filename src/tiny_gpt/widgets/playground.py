"""Playground: a model that runs in the page. It writes, and shows what goes on inside it while it does."""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure
from torch import nn

from .. import figures, weights
from ..data import CharTokenizer
from ..model import next_token_probs
from ..roles import carried_over
from .base import Explorer, front_end, style, uniforms
from .engine import engine_client

ALTERNATIVES = 7  # how many of the likeliest characters are told at each place
Choice = list[Any]  # [character, probability], as JSON has pairs

LONGEST = 2000  # characters of a prompt, and of what is written
PART = 2**19  # bytes of a model in one script of the site


class Playground(Explorer):
    """The models that the package carries, or ``Playground(model, tokenizer)`` for one of your own.

    With ``stranger`` a model by another hand is offered too (``weights.STRANGERS``).
    ``prompt`` is continued by ``length`` characters, at ``temperature`` (0 to 5) and ``top_k`` (None for all), with
    numbers that depend on ``seed`` alone. ``text`` is what was written, and ``record`` tells of each of its characters
    ``[probability, [[character, probability], ...]]``, the likeliest first. ``write()`` writes in Python what the page
    writes. What is looked at: ``at``, a place in prompt and text; ``view`` of what was before it; ``layer`` and
    ``head``, from 0; ``swap``, the character that "what if" puts there. All are live both ways.

    The page asks for the weights when it needs them, by ``asked``. ``refresh()`` sends a model's present ones again.
    """

    _esm = front_end("playground", before=engine_client())
    _css = style("playground")
    _room = (990, 1270)
    models = traitlets.List(traitlets.Dict()).tag(sync=True)  # name, title, parts (scripts of the site), config, …
    prompt = traitlets.Unicode("ROMEO:\n").tag(sync=True)
    temperature = traitlets.Float(0.7, min=0, max=5).tag(sync=True)
    top_k = traitlets.Int(None, min=1, allow_none=True).tag(sync=True)
    seed = traitlets.Int(11, min=0, max=2**31 - 1).tag(sync=True)
    length = traitlets.Int(240, min=1, max=LONGEST).tag(sync=True)
    text = traitlets.Unicode().tag(sync=True)
    record = traitlets.List(traitlets.List()).tag(sync=True)
    at = traitlets.Int(0, min=0).tag(sync=True)
    view = traitlets.Enum(["choices", "attention", "layers", "change"], "choices").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)
    swap = traitlets.Unicode().tag(sync=True)
    coloured = traitlets.Bool(False).tag(sync=True)
    asked = traitlets.Unicode().tag(sync=True)  # the name of the model whose weights the page wants
    sent = traitlets.Unicode().tag(sync=True)  # the name of the one that `weights` are of
    weights = traitlets.Bytes().tag(sync=True)  # a safetensors file

    def __init__(
        self,
        model: nn.Module | None = None,
        tokenizer: CharTokenizer | None = None,
        *,
        stranger: bool = False,
        **traits: Any,
    ):
        if (model is None) != (tokenizer is None):
            raise ValueError("a model and its tokenizer belong together: give both, or neither for the carried ones")
        if model is None or tokenizer is None:
            self._model, self._tokenizer, _ = weights.from_bytes(weights.for_page(weights.carried()[0]))
            models = [carried(name) for name in (*weights.carried(), *[weights.STRANGERS] * stranger)]
        else:
            self._own, self._model, self._tokenizer = model, carried_over(model), tokenizer
            models = [{"name": "live", "title": "Your model", "config": asdict(self._model.config), "provenance": None}]
        super().__init__(models=models, **traits)
        if "text" not in traits:
            self.write()
        if "at" not in traits:
            self.at = len(self.prompt) + self.length // 8
        self._still = self._draw_still()

    @traitlets.validate("prompt")
    def _check_prompt(self, proposal: traitlets.Bunch) -> str:
        prompt: str = proposal["value"]
        if not 1 <= len(prompt) <= LONGEST:
            raise traitlets.TraitError(f"a prompt has 1 to {LONGEST} characters, got {len(prompt)}")
        return prompt

    @traitlets.observe("text")
    def _forget_record(self, change: traitlets.Bunch) -> None:
        if len(self.record) != len(self.text):  # written by somebody else: nobody knows what it was chosen from
            self.record = []

    @traitlets.observe("asked")
    def _answer(self, change: traitlets.Bunch) -> None:
        if self.asked in [model["name"] for model in self.models]:
            self.refresh(self.asked)

    def refresh(self, name: str | None = None) -> None:
        """Send the page the weights of model ``name``, or of the first, as they are now."""
        name = name or self.models[0]["name"]
        live = name == "live"
        if live:
            self._model = carried_over(self._own)
        data = weights.to_bytes(self._model, self._tokenizer, None) if live else weights.for_page(name)
        with self.hold_sync():
            self.weights, self.sent = data, name

    def write(self) -> None:
        """Continue ``prompt`` in Python with the first model; sets ``text`` and ``record``."""
        steps = list(self._steps())
        with self.hold_sync():
            self.record = [[p, best] for _, p, best in steps]
            self.text = "".join(character for character, _, _ in steps)

    @torch.no_grad()
    def _steps(self) -> Iterator[tuple[str, float, list[Choice]]]:
        """Each new character, its probability, and the likeliest with theirs, as engine.mjs draws them."""
        model, vocab, training = self._model, self._tokenizer.vocab, self._model.training
        idx = self._tokenizer.encode(self.prompt)[None].to(model.wte.weight.device)  # (1, T)
        for u in uniforms(self.seed, self.length):
            model.eval()
            logits = model(idx[:, -model.config.block_size :])[0][:, -1].cpu().double()  # (1, V)
            model.train(training)
            p = next_token_probs(logits, self.temperature, self.top_k)[0].numpy()  # (V,)
            sums = np.cumsum(p)
            token = int(np.searchsorted(sums, u * sums[-1]))
            best = np.argsort(-p, kind="stable")[:ALTERNATIVES]
            yield vocab[token], round(float(p[token]), 6), [[vocab[i], round(float(p[i]), 6)] for i in best if p[i] > 0]
            idx = torch.cat([idx, idx.new_tensor([[token]])], dim=1)

    def picture(self) -> Figure | None:
        place = self.at - len(self.prompt)
        if not 0 <= place < len(self.record):
            return None
        characters, p = zip(*self.record[place][1], strict=True)
        return figures.distributions(characters, {f"instead of “{self.text[place]}”": p})

    def describe(self) -> str:
        return f"After “{self.prompt}”, at temperature {self.temperature:g}, the model wrote: “{self.text}”"


def carried(name: str) -> dict[str, Any]:
    """What the page knows of a carried model before it has its weights."""
    data = weights.for_page(name)
    about = weights.about(data)
    titles = {weights.carried()[0]: "Small model", weights.STRANGERS: "A stranger's model"}
    return {
        "name": name,
        "title": titles.get(name, "Large model"),
        "bytes": len(data),
        "parts": [file.removesuffix(".js") for file in scripts(name)],
        "config": about["config"],
        "provenance": about["provenance"],
    }


def scripts(name: str) -> dict[str, str]:
    """The files, by name, in which the site has a carried model: the only way for it into a page opened from a file.

    Each puts a part of the file, in base64, into ``window.tinyGptParts`` under its own name. They are as many as a bar
    of progress has steps. Their names change with the weights, so that a cache never mixes old and new.
    """
    data = weights.for_page(name)
    source = (weights.FOLDER / f"{name}.safetensors").read_bytes()
    digest = hashlib.sha256(source).hexdigest()[:8]
    found = {}
    for number, start in enumerate(range(0, len(data), PART)):
        part = f"{name}-{digest}-{number}"
        text = base64.b64encode(data[start : start + PART]).decode()
        found[f"{part}.js"] = f"(window.tinyGptParts ??= new Map()).set({json.dumps(part)},{json.dumps(text)});\n"
    return found
