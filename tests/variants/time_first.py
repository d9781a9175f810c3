"""Correct: time comes first inside, (T, B, C), as in nn.MultiheadAttention by default; heads come before the batch."""

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


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config.n_embd
        self.n_head = config.n_head
        self.norms = nn.ModuleList(nn.LayerNorm(C, bias=config.bias) for _ in range(2))
        self.read = nn.Linear(C, 3 * C, bias=config.bias)
        self.write = nn.Linear(C, C, bias=config.bias)
        self.think = nn.Linear(C, 4 * C, bias=config.bias)
        self.speak = nn.Linear(4 * C, C, bias=config.bias)
        self.drop = nn.Dropout(config.dropout)

    def attention(self, x):
        T, B, C = x.shape
        D = C // self.n_head
        q, k, v = self.read(x).view(T, B, 3, self.n_head, D).permute(2, 3, 1, 0, 4)  # (H, B, T, D) each
        scores = torch.einsum("hbtd,hbsd->hbts", q, k) / math.sqrt(D)
        scores = scores + torch.full_like(scores[0, 0], -math.inf).triu(1)
        mixed = self.drop(torch.softmax(scores, dim=-1)) @ v
        return self.drop(self.write(mixed.permute(2, 1, 0, 3).reshape(T, B, C)))

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.drop(self.speak(F.gelu(self.think(self.norms[1](x)))))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError("n_head has to divide n_embd")
        self.config = config
        self.letters = nn.Embedding(config.vocab_size, config.n_embd)
        self.seats = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        if idx.shape[1] > self.config.block_size:
            raise ValueError(f"{idx.shape[1]} positions are too many")
        time = idx.t()
        seats = self.seats(torch.arange(len(time), device=idx.device)).unsqueeze(1)
        x = self.drop(self.letters(time) + seats)  # (T, B, C)
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.norm(x), self.letters.weight).transpose(0, 1)  # (B, T, V)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        before = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            if temperature == 0:
                choice = logits.argmax(dim=-1)
            else:
                k = logits.size(-1) if top_k is None else min(top_k, logits.size(-1))
                best = logits.topk(k)
                choice = torch.distributions.Categorical(logits=best.values / temperature).sample()
                choice = best.indices.gather(-1, choice[:, None]).squeeze(-1)
            idx = torch.cat([idx, choice[:, None]], dim=1)
        self.train(before)
        return idx
