"""Writing text step by step: what was drawn, how likely it was, and what else could have been drawn.

The distribution itself is ``model.next_token_probs`` and the loop is ``TinyGPT.stream``; this file keeps the record.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Integer
from torch import Tensor

from .data import CharTokenizer
from .model import TinyGPT, next_token_probs

__all__ = ["Step", "next_token_probs", "steps", "stream_text"]


@dataclass(frozen=True)
class Step:
    """One token drawn. All numbers are of the distribution it was drawn from, after temperature and top-k."""

    token: int  # the id that was drawn
    prob: float  # its probability
    entropy_nats: float  # how undecided the model was: 0 when sure, ln V when every token is as likely
    top: tuple[tuple[int, float], ...]  # the most probable ids with their probabilities, largest first

    @property
    def entropy_bits(self) -> float:
        """The same entropy in bits."""
        return self.entropy_nats / math.log(2)

    @property
    def surprise_nats(self) -> float:
        """-ln of the probability of what was drawn; on average it is the entropy."""
        return -math.log(self.prob)


def steps(
    model: TinyGPT,
    prompt: Integer[Tensor, "T"],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    *,
    generator: torch.Generator | None = None,
    alternatives: int = 5,
) -> Iterator[Step]:
    """Continue the ids ``prompt`` (T,), one ``Step`` for each new token; the tokens are those of ``generate``.

    ``alternatives`` is how many of the most probable tokens each step lists, at most V; tokens of probability 0 are
    left out. Raises ValueError for an empty prompt or for what ``generate`` refuses.
    """
    if alternatives < 0:
        raise ValueError(f"alternatives must be 0 or more, got {alternatives}")
    if len(prompt) == 0:
        raise ValueError("the prompt is empty: a model needs at least one token to continue")
    idx = prompt[None].to(model.wte.weight.device)  # (1, T)
    for token, probs in model.stream(idx, max_new_tokens, temperature, top_k, generator=generator):
        p = probs[0].cpu().double()  # (V,); an Apple GPU has no double precision
        best = torch.topk(p, min(alternatives, len(p)))  # (alternatives,), largest first
        yield Step(
            token=int(token),
            prob=float(p[int(token)]),
            entropy_nats=float(-torch.special.xlogy(p, p).sum()) + 0.0,  # 0.0 in place of -0.0
            top=tuple((i, q) for q, i in zip(best.values.tolist(), best.indices.tolist(), strict=True) if q > 0),
        )


def stream_text(
    model: TinyGPT,
    tokenizer: CharTokenizer,
    prompt: str,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    *,
    generator: torch.Generator | None = None,
) -> Iterator[str]:
    """The continuation of ``prompt``, a character at a time as the model writes it; the prompt is not repeated.

    Raises ValueError for an empty prompt, for characters that the tokenizer does not know, and for ids that it
    has no character for.
    """
    ids = tokenizer.encode(prompt)  # (T,)
    for step in steps(model, ids, max_new_tokens, temperature, top_k, generator=generator, alternatives=0):
        yield tokenizer.decode([step.token])
