"""SamplingExplorer: a model's distribution over the next token under temperature and top-k, and draws from it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import figures
from ..data import CharTokenizer
from ..model import TinyGPT, next_token_probs
from ..numpy_head import entropy
from .base import Explorer, front_end, style, uniforms

MOST_DRAWS = 100_000


class SamplingExplorer(Explorer):
    """The next token after each of ``contexts``: ``{"text": str, "logits": [V]}``; ``of`` asks a model for them.

    ``context`` is the number of the one that is shown; ``temperature`` is 0 to 5, ``top_k`` 1 to V. ``draws`` tokens
    are drawn with numbers that depend on ``seed`` alone. All traits are live both ways; ``probabilities()``,
    ``bits()`` and ``counts()`` give what is shown.
    """

    _esm = front_end("sampling")
    _css = style("sampling")
    _room = (480, 632)
    contexts = traitlets.List(traitlets.Dict()).tag(sync=True)
    vocab = traitlets.List(traitlets.Unicode()).tag(sync=True)
    context = traitlets.Int(0, min=0).tag(sync=True)
    temperature = traitlets.Float(1.0, min=0, max=5).tag(sync=True)
    top_k = traitlets.Int(1, min=1).tag(sync=True)
    draws = traitlets.Int(0, min=0, max=MOST_DRAWS).tag(sync=True)
    seed = traitlets.Int(0, min=0, max=2**31 - 1).tag(sync=True)

    def __init__(self, contexts: Sequence[dict[str, Any]], vocab: Sequence[str], **traits: Any):
        if not contexts:
            raise ValueError("at least one context is needed, with its text and its logits")
        for each in contexts:
            if len(each["logits"]) != len(vocab) or not np.isfinite(each["logits"]).all():
                raise ValueError(
                    f"{len(vocab)} finite logits are needed, one a token, "
                    f"got {len(each['logits'])} for {each['text']!r}"
                )
        traits = {"top_k": len(vocab)} | traits
        super().__init__(contexts=list(contexts), vocab=list(vocab), **traits)

    @classmethod
    def of(cls, model: TinyGPT, tokenizer: CharTokenizer, texts: Sequence[str], **traits: Any) -> "SamplingExplorer":
        """Ask ``model`` for the logits after each of ``texts``; ``tokenizer`` has ``encode`` and ``vocab``."""
        contexts = []
        for text in texts:
            idx = tokenizer.encode(text)[None, -model.config.block_size :]  # (1, T)
            with torch.no_grad():
                logits = model(idx.to(model.wte.weight.device))[0][0, -1].cpu().double()  # (V,)
            contexts.append({"text": text, "logits": [round(z, 6) for z in logits.tolist()]})
        return cls(contexts, tokenizer.vocab, **traits)

    @traitlets.validate("context", "top_k")
    def _check_range(self, proposal: traitlets.Bunch) -> int:
        name: str = proposal["trait"].name
        value: int = proposal["value"]
        most = len(self.contexts) - 1 if name == "context" else len(self.vocab)
        if value > most:
            raise traitlets.TraitError(f"{name} must be at most {most}, got {value}")
        return value

    def probabilities(self) -> NDArray[np.float64]:
        """The distribution (V,) that the next token is drawn from."""
        logits = torch.tensor([self.contexts[self.context]["logits"]])  # (1, V)
        return next_token_probs(logits, self.temperature, self.top_k)[0].double().numpy()

    def bits(self) -> float:
        """Its entropy in bits; 2 to that power is the effective number of choices."""
        return float(entropy(self.probabilities()))

    def counts(self) -> NDArray[np.intp]:
        """How often each token (V,) came in the ``draws`` that were made."""
        limits = np.cumsum(self.probabilities())
        drawn = np.searchsorted(limits, uniforms(self.seed, self.draws) * limits[-1])
        return np.bincount(drawn, minlength=len(self.vocab))

    def picture(self) -> Figure:
        p = self.probabilities()
        best = np.argsort(-p, kind="stable")[:24]
        return figures.distributions([self.vocab[i] for i in best], {f"τ = {self.temperature:g}": p[best]})

    def describe(self) -> str:
        text = self.contexts[self.context]["text"]
        return (
            f"What comes after “{text}”: at temperature {self.temperature:g}, with the {self.top_k} most probable "
            f"tokens, the entropy is {self.bits():.2f} bits, as many as {2 ** self.bits():.1f} equal choices."
        )
