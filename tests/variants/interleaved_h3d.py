"""Correct: the fused projection's output is laid out (H, 3, D), and the batch is attended head by head with baddbmm."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 65
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True

    @property
    def head_size(self):
        size = self.n_embd // self.n_head
        if size * self.n_head != self.n_embd:
            raise ValueError(f"{self.n_head} heads cannot share {self.n_embd} channels")
        return size


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head, self.head_size = config.n_head, config.head_size
        self.project = nn.Linear(config.n_embd, config.n_head * 3 * config.head_size, bias=config.bias)
        self.collect = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.forget = nn.Dropout(config.dropout)
        self.forget_out = nn.Dropout(config.dropout)

    def forward(self, x):
        B, T, C = x.shape
        qkv = self.project(x).view(B, T, self.n_head, 3, self.head_size)
        qkv = qkv.permute(3, 0, 2, 1, 4).reshape(3, B * self.n_head, T, self.head_size)
        q, k, v = qkv[0], qkv[1], qkv[2]
        mask = x.new_full((T, T), float("-inf")).triu_(1)
        scores = torch.baddbmm(mask.expand(B * self.n_head, T, T), q, k.transpose(1, 2), alpha=self.head_size**-0.5)
        y = self.forget(scores.softmax(-1)) @ v
        y = y.reshape(B, self.n_head, T, self.head_size).transpose(1, 2).reshape(B, T, C)
        return self.forget_out(self.collect(y))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attn = Attention(config)
        self.fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.ln = nn.ModuleList([nn.LayerNorm(config.n_embd, bias=config.bias) for _ in range(2)])
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x):
        first, second = self.ln
        x = x + self.attn(first(x))
        return x + self.drop(self.proj(F.gelu(self.fc(second(x)))))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Parameter(torch.empty(1, config.block_size, config.n_embd))
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.n_layer)))
        self.final = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.init_weights()

    def init_weights(self):
        nn.init.normal_(self.wpe, std=0.02)
        nn.init.normal_(self.wte.weight, std=0.02)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        x = self.drop(self.wte(idx) + self.wpe[:, : idx.size(1)])  # too long a text does not broadcast
        logits = F.linear(self.final(self.blocks(x)), self.wte.weight)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(end_dim=1), targets.flatten(), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        previously = self.training
        self.eval()
        B, start = idx.shape
        buffer = torch.cat([idx, idx.new_zeros(B, max_new_tokens)], dim=1)  # filled as we go
        for end in range(start, start + max_new_tokens):
            logits = self(buffer[:, max(0, end - self.config.block_size) : end])[0][:, -1]
            if temperature == 0:
                buffer[:, end] = logits.argmax(dim=1)
                continue
            if top_k is not None and top_k < logits.size(1):
                order = logits.argsort(dim=1, descending=True)
                logits = logits.scatter(1, order[:, top_k:], float("-inf"))
            buffer[:, end] = torch.multinomial(F.softmax(logits / temperature, dim=1), 1)[:, 0]
        self.train(previously)
        return buffer
