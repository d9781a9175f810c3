"""My GPT. Written by me, and trained, exported and shown by tiny-gpt.

The interface is TinyGPT(GPTConfig(...)), with forward and generate as
below. All else is free: names, layers, one matrix or three. The
chapters' parts may be here too (Head, MultiHeadAttention, FeedForward,
Block): each chapter uses yours in its section "With your own".

What comes next, in this order:

    tiny-gpt check FILE
    tiny-gpt train --model FILE --out runs/mine
    tiny-gpt sample --out runs/mine --prompt "ROMEO:"
    tiny-gpt export runs/mine mine.safetensors

The last one writes one file: drop it on the book's playground.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class GPTConfig:
    block_size: int = 1024  # the context, T at most
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768  # the width, C
    dropout: float = 0.0
    bias: bool = True  # whether Linears and LayerNorms have biases


class TinyGPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config

    def forward(
        self,
        idx: Tensor,
        targets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        # your code here: idx and targets are (B, T); return logits and loss
        raise NotImplementedError("forward is not written yet")

    @torch.no_grad()
    def generate(
        self,
        idx: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
    ) -> Tensor:
        # your code here: the prompt and what follows, (B, T + max_new_tokens)
        raise NotImplementedError("generate is not written yet")


if __name__ == "__main__":  # a file called tiny_gpt.py is what `python -m tiny_gpt` finds first
    raise SystemExit("This file defines a model. To judge it: tiny-gpt check FILE")
