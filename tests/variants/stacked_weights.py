"""Correct: all layers' weights are stacked in a few tensors (L, in, out), used with @ in one loop."""

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
        L, C, V, N = config.n_layer, config.n_embd, config.vocab_size, config.block_size
        if C % config.n_head:
            raise ValueError("n_embd must be divisible by n_head")
        self.W_E = nn.Parameter(torch.empty(V, C).normal_(0, 0.02))
        self.W_P = nn.Parameter(torch.empty(N, C).normal_(0, 0.02))
        self.W_QKV = nn.Parameter(torch.empty(L, C, 3 * C).normal_(0, 0.02))
        self.W_O = nn.Parameter(torch.empty(L, C, C).normal_(0, 0.02))
        self.W_1 = nn.Parameter(torch.empty(L, C, 4 * C).normal_(0, 0.02))
        self.W_2 = nn.Parameter(torch.empty(L, 4 * C, C).normal_(0, 0.02))
        self.gains = nn.Parameter(torch.ones(2 * L + 1, C))
        if config.bias:
            self.shifts = nn.Parameter(torch.zeros(2 * L + 1, C))
            self.b_QKV = nn.Parameter(torch.zeros(L, 3 * C))
            self.b_O = nn.Parameter(torch.zeros(L, C))
            self.b_1 = nn.Parameter(torch.zeros(L, 4 * C))
            self.b_2 = nn.Parameter(torch.zeros(L, C))

    def biased(self, x, name, layer):
        return x + getattr(self, name)[layer] if self.config.bias else x

    def drop(self, x):
        return F.dropout(x, p=self.config.dropout, training=self.training)

    def norm(self, x, i):
        return F.layer_norm(x, x.shape[-1:], self.gains[i], self.shifts[i] if self.config.bias else None)

    def attention(self, x, layer):
        B, T, C = x.shape
        H = self.config.n_head
        qkv = self.biased(x @ self.W_QKV[layer], "b_QKV", layer)
        q, k, v = qkv.view(B, T, 3, H, C // H).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / math.sqrt(C // H)
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        P = self.drop(F.softmax(scores.masked_fill(future, -math.inf), -1))
        return self.drop(self.biased((P @ v).transpose(1, 2).reshape(B, T, C) @ self.W_O[layer], "b_O", layer))

    def mlp(self, x, layer):
        h = F.gelu(self.biased(x @ self.W_1[layer], "b_1", layer))
        return self.drop(self.biased(h @ self.W_2[layer], "b_2", layer))

    def forward(self, idx, targets=None):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError(f"{T} > {self.config.block_size}")
        x = self.drop(F.embedding(idx, self.W_E) + self.W_P[:T])
        for layer in range(self.config.n_layer):
            x = x + self.attention(self.norm(x, 2 * layer), layer)
            x = x + self.mlp(self.norm(x, 2 * layer + 1), layer)
        logits = self.norm(x, -1) @ self.W_E.T
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode, self.training = self.training, False
        for _ in range(max_new_tokens):
            z = self(idx[:, -self.config.block_size :])[0][:, -1]
            if top_k is not None:
                z = z.masked_fill(z < z.topk(min(top_k, z.size(1)))[0][:, -1:], -math.inf)
            greedy = z.argmax(-1, keepdim=True)
            new = torch.multinomial(F.softmax(z / temperature, -1), 1) if temperature else greedy
            idx = torch.cat([idx, new], 1)
        self.training = mode
        return idx
