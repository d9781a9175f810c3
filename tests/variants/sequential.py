"""Correct: the whole body is one nn.Sequential, residuals are modules, and the table is tied to the head."""

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


class Residual(nn.Module):
    def __init__(self, *inner):
        super().__init__()
        self.inner = nn.Sequential(*inner)

    def forward(self, x):
        return x + self.inner(x)


class CausalMixing(nn.Module):
    def __init__(self, heads, dropout):
        super().__init__()
        self.heads = heads
        self.dropout = nn.Dropout(dropout)

    def forward(self, qkv):
        B, T, wide = qkv.shape
        D = wide // 3 // self.heads
        q, k, v = qkv.reshape(B, T, 3, self.heads, D).unbind(2)
        scores = torch.einsum("bthd,bshd->bhts", q, k) * (1 / math.sqrt(D))
        causal = torch.triu(torch.full((T, T), -math.inf, device=qkv.device, dtype=qkv.dtype), 1)
        weights = self.dropout(torch.softmax(scores + causal, -1))
        return torch.einsum("bhts,bshd->bthd", weights, v).reshape(B, T, -1)


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.n_embd)
        self.position = nn.Embedding(config.block_size, config.n_embd)

    def forward(self, idx):
        return self.token(idx) + self.position(torch.arange(idx.shape[1], device=idx.device))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        C, p, b = config.n_embd, config.dropout, config.bias
        if C % config.n_head != 0:
            raise ValueError("heads")
        self.limit = config.block_size
        embeddings = Embeddings(config)
        layers = [embeddings, nn.Dropout(p)]
        for _ in range(config.n_layer):
            layers.append(
                Residual(
                    nn.LayerNorm(C, bias=b),
                    nn.Linear(C, 3 * C, bias=b),
                    CausalMixing(config.n_head, p),
                    nn.Linear(C, C, bias=b),
                    nn.Dropout(p),
                )
            )
            layers.append(
                Residual(
                    nn.LayerNorm(C, bias=b),
                    nn.Linear(C, 4 * C, bias=b),
                    nn.GELU(),
                    nn.Linear(4 * C, C, bias=b),
                    nn.Dropout(p),
                )
            )
        head = nn.Linear(C, config.vocab_size, bias=False)
        self.net = nn.Sequential(*layers, nn.LayerNorm(C, bias=b), head)
        self.apply(self.initialise)
        embeddings.token.weight = head.weight

    @staticmethod
    def initialise(module):
        if hasattr(module, "weight") and module.weight is not None and module.weight.dim() == 2:
            module.weight.data.normal_(std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()

    def forward(self, idx, targets=None):
        if idx.shape[1] > self.limit:
            raise ValueError(f"more than {self.limit} tokens")
        logits = self.net(idx)
        if targets is None:
            return logits[:, [-1]], None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)

    def sample(self, logits, temperature, top_k):
        if top_k is not None:
            drop = max(logits.shape[-1] - top_k, 0)
            worst = logits.topk(drop, largest=False).indices
            logits = logits.scatter(-1, worst, -math.inf)
        if temperature == 0:
            return logits.argmax(-1, keepdim=True)
        return torch.multinomial(torch.softmax(logits / temperature, -1), 1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits, _ = self(idx[:, -self.limit :])
            idx = torch.cat((idx, self.sample(logits[:, -1], temperature, top_k)), 1)
        self.train(training)
        return idx
