"""My GPT. Written by me, and trained, exported and shown by tiny-gpt.

The interface: TinyGPT(GPTConfig(...)), forward and generate as below. All else is free: names, layers, one matrix or
three. The chapters' parts may stand here too (Head, MultiHeadAttention, FeedForward, Block): each chapter then uses
yours in its section "With your own".

What comes next, in this order:

    tiny-gpt check FILE                                # until it finds nothing; "not written yet" is an answer
    tiny-gpt train --model FILE --out runs/mine        # a minute or two on a CPU
    tiny-gpt sample --out runs/mine --prompt "ROMEO:"  # it writes
    tiny-gpt export runs/mine mine.safetensors         # one file: drop it on the playground of the book
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

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        # your code here: idx and targets are (B, T); return logits and loss
        raise NotImplementedError("forward is not written yet")

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        # your code here: return the prompt and what follows, (B, T + max_new_tokens)
        raise NotImplementedError("generate is not written yet")
