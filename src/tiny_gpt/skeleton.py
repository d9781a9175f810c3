"""A GPT that is not written yet: the interface that the checker asks for, to begin a file of your own with."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class GPTConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True


class TinyGPT(nn.Module):
    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError  # your code here: idx and targets are (B, T); return logits and loss

    @torch.no_grad()
    def generate(self, idx: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        raise NotImplementedError  # your code here: return the prompt and what follows, (B, T + max_new_tokens)
