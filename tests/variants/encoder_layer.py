"""Correct: PyTorch's own TransformerEncoderLayer with norm_first, a causal mask and GELU."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 65
    n_layer: int = 2
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.block_size, config.n_embd)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(
                config.n_embd,
                config.n_head,
                4 * config.n_embd,
                config.dropout,
                activation="gelu",
                batch_first=True,
                norm_first=True,
                bias=config.bias,
            )
            for _ in range(config.n_layer)
        )
        for layer in self.layers:
            layer.dropout.p = 0.0  # the lesson drops after the second Linear, not between the two
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError(f"{T} > block_size {self.config.block_size}")
        x = self.tokens(idx) + self.positions(torch.arange(T, device=idx.device))
        x = self.dropout(x)
        mask = torch.full((T, T), -math.inf, dtype=x.dtype, device=x.device).triu(1)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            last = self(idx[:, -self.config.block_size :])[0][:, -1]
            if temperature == 0:
                nxt = last.argmax(-1, keepdim=True)
            else:
                if top_k is not None:
                    keep = last.topk(min(top_k, last.size(-1))).indices
                    last = torch.full_like(last, -math.inf).scatter(-1, keep, last.gather(-1, keep))
                nxt = torch.multinomial(F.softmax(last / temperature, -1), 1)
            idx = torch.cat([idx, nxt], -1)
        self.train(training)
        return idx
