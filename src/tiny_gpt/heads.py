"""Lesson one's transformer block, one small module at a time: Head, MultiHeadAttention, FeedForward, Block.

Here every head has its own three projections and runs by itself, so that each step can be seen. ``model.py`` does
the same computation with one fused projection. It needs torch only.

Shapes: B batch, T time (positions), C model width (``n_embd``), H heads (``n_head``), D head width (``head_size``).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Head(nn.Module):
    """One causal self-attention head: (B, T, C) -> (B, T, D).

    Each position asks (query), every earlier position offers (key) and hands over (value).
    Source: Vaswani et al. 2017, section 3.2.1.
    """

    tril: Tensor  # (block_size, block_size), ones where a position may look

    def __init__(self, n_embd: int, head_size: int, block_size: int, dropout: float = 0.2):
        super().__init__()
        self.key = nn.Linear(n_embd, head_size, bias=False)
        self.query = nn.Linear(n_embd, head_size, bias=False)
        self.value = nn.Linear(n_embd, head_size, bias=False)
        # A buffer, not a parameter: it moves with the module and is saved with it, but no gradient changes it.
        self.register_buffer("tril", torch.tril(torch.ones(block_size, block_size)))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        T = _check_length(x, longest=self.tril.size(0))
        k, q, v = self.key(x), self.query(x), self.value(x)  # (B, T, D) each
        scores = q @ k.transpose(-2, -1) * k.size(-1) ** -0.5  # (B, T, T), variance 1 whatever D is
        scores = scores.masked_fill(self.tril[:T, :T] == 0, float("-inf"))  # (B, T, T), the future is out
        weights = F.softmax(scores, dim=-1)  # (B, T, T), rows sum to one
        return self.dropout(weights) @ v  # (B, T, D)


class MultiHeadAttention(nn.Module):
    """H heads side by side, concatenated and mixed by one output projection: (B, T, C) -> (B, T, C).

    Raises ValueError if ``n_head`` does not divide ``n_embd``.
    """

    def __init__(self, n_head: int, n_embd: int, block_size: int, dropout: float = 0.2):
        super().__init__()
        if n_embd % n_head:
            raise ValueError(f"n_embd={n_embd} is not divisible by n_head={n_head}: heads need whole channels")
        head_size = n_embd // n_head
        self.heads = nn.ModuleList([Head(n_embd, head_size, block_size, dropout) for _ in range(n_head)])
        self.proj = nn.Linear(n_embd, n_embd)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.cat([head(x) for head in self.heads], dim=-1)  # H times (B, T, D) -> (B, T, C)
        return self.dropout(self.proj(out))  # (B, T, C)


class FeedForward(nn.Module):
    """Two linear layers with a ReLU between, the same at every position: (B, T, C) -> (B, T, C)."""

    def __init__(self, n_embd: int, dropout: float = 0.2):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(n_embd, 4 * n_embd),  # (B, T, 4C)
            nn.ReLU(),
            nn.Linear(4 * n_embd, n_embd),  # (B, T, C)
            nn.Dropout(dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)  # (B, T, C)


class Block(nn.Module):
    """Attention and feed-forward as two pre-norm branches of one residual stream: (B, T, C) -> (B, T, C)."""

    def __init__(self, n_embd: int, n_head: int, block_size: int, dropout: float = 0.2):
        super().__init__()
        self.sa = MultiHeadAttention(n_head, n_embd, block_size, dropout)
        self.ffwd = FeedForward(n_embd, dropout)
        self.ln1 = nn.LayerNorm(n_embd)
        self.ln2 = nn.LayerNorm(n_embd)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.sa(self.ln1(x))  # (B, T, C): branch 1 adds what attention read elsewhere
        x = x + self.ffwd(self.ln2(x))  # (B, T, C): branch 2 adds what each position made of it
        return x


def _check_length(x: Tensor, longest: int) -> int:
    """T of an input (B, T, C); ValueError if it has another shape or is longer than the mask."""
    if x.dim() != 3:
        raise ValueError(f"expected x of shape (B, T, C), got {tuple(x.shape)}")
    if x.size(1) > longest:
        raise ValueError(f"x has T={x.size(1)} positions, more than block_size={longest}: crop it")
    return x.size(1)
