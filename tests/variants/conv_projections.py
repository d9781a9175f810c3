"""Correct: all projections are Conv1d with kernel 1, channels second, as somebody from audio would write it."""

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


def pointwise(n_in, n_out, bias):
    return nn.Conv1d(n_in, n_out, kernel_size=1, bias=bias)


class ChannelNorm(nn.Module):
    def __init__(self, channels, bias):
        super().__init__()
        self.norm = nn.LayerNorm(channels, bias=bias)

    def forward(self, x):
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.qkv = pointwise(config.n_embd, 3 * config.n_embd, config.bias)
        self.out = pointwise(config.n_embd, config.n_embd, config.bias)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x):
        B, C, T = x.shape
        q, k, v = self.qkv(x).view(B, 3, self.n_head, C // self.n_head, T).unbind(1)  # (B, H, D, T) each
        scores = q.transpose(2, 3) @ k / math.sqrt(C // self.n_head)
        scores = scores.masked_fill(torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1), -math.inf)
        weights = self.drop(F.softmax(scores, dim=-1))
        return self.drop(self.out((v @ weights.transpose(2, 3)).reshape(B, C, T)))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = ChannelNorm(config.n_embd, config.bias), ChannelNorm(config.n_embd, config.bias)
        self.attention = Attention(config)
        self.ffn = nn.Sequential(
            pointwise(config.n_embd, 4 * config.n_embd, config.bias),
            nn.GELU(),
            pointwise(4 * config.n_embd, config.n_embd, config.bias),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.ffn(self.norm2(x))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError(f"{config.n_head=} does not divide {config.n_embd=}")
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.n_layer)])
        self.norm = ChannelNorm(config.n_embd, config.bias)
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Conv1d) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError("too long")
        x = self.tokens(idx) + self.positions(torch.arange(T, device=idx.device))
        x = self.norm(self.blocks(self.drop(x).transpose(1, 2)))  # (B, C, T)
        logits = torch.einsum("bct,vc->btv", x, self.tokens.weight)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            if temperature == 0:
                token = logits.argmax(-1, keepdim=True)
            else:
                logits = logits / temperature
                if top_k is not None:
                    logits = logits.masked_fill(logits < logits.topk(min(top_k, logits.size(-1)))[0][:, -1:], -math.inf)
                token = torch.multinomial(F.softmax(logits, -1), 1)
            idx = torch.cat([idx, token], 1)
        self.train(training)
        return idx
