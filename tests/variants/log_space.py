"""Correct: softmax by log-sum-exp, in blocks of keys as flash attention has it, and a log-softmax loss by gather."""

import math
from dataclasses import asdict, dataclass

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


def tiled_attention(q, k, v, p, training, tile=4):
    """Causal attention of (B, H, T, D) tensors, a tile of keys at a time, with a running maximum and sum."""
    T, D = q.shape[-2:]
    rows = torch.arange(T, device=q.device)[:, None]
    largest = q.new_full((*q.shape[:-1], 1), -math.inf)
    total, out = torch.zeros_like(largest), torch.zeros_like(v)
    for start in range(0, T, tile):
        cols = torch.arange(start, min(start + tile, T), device=q.device)[None]
        s = q @ k[..., start : start + tile, :].transpose(-2, -1) / math.sqrt(D)
        s = s.masked_fill(cols > rows, -math.inf)
        new = torch.maximum(largest, s.amax(-1, keepdim=True))
        e, shrink = torch.exp(s - new), torch.exp(largest - new)
        total = total * shrink + e.sum(-1, keepdim=True)
        out = out * shrink + F.dropout(e, p, training) @ v[..., start : start + tile, :]
        largest = new
    return out / total


class Layer(nn.Module):
    def __init__(self, n_head, n_embd, dropout, bias):
        super().__init__()
        self.n_head, self.p = n_head, dropout
        self.norm1 = nn.LayerNorm(n_embd, bias=bias)
        self.qk = nn.Linear(n_embd, 2 * n_embd, bias=bias)
        self.v = nn.Linear(n_embd, n_embd, bias=bias)
        self.o = nn.Linear(n_embd, n_embd, bias=bias)
        self.norm2 = nn.LayerNorm(n_embd, bias=bias)
        self.up = nn.Linear(n_embd, 4 * n_embd, bias=bias)
        self.down = nn.Linear(4 * n_embd, n_embd, bias=bias)

    def split(self, x):
        return x.unflatten(2, (self.n_head, -1)).transpose(1, 2)

    def forward(self, x):
        y = self.norm1(x)
        q, k = self.qk(y).chunk(2, dim=2)
        y = tiled_attention(self.split(q), self.split(k), self.split(self.v(y)), self.p, self.training)
        x = x + F.dropout(self.o(y.transpose(1, 2).flatten(2)), self.p, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), self.p, self.training)


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError("n_embd % n_head")
        self.block_size, self.p = config.block_size, config.dropout
        options = asdict(config)
        options = {key: options[key] for key in ("n_head", "n_embd", "dropout", "bias")}
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions = nn.Embedding(config.block_size, config.n_embd)
        self.layers = nn.ModuleList([Layer(**options) for _ in range(config.n_layer)])
        self.norm = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.head.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)
        for m in self.modules():
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        if idx.size(1) > self.block_size:
            raise ValueError("the text is longer than the context")
        x = self.tokens(idx) + self.positions(torch.arange(idx.size(1), device=idx.device))
        x = F.dropout(x, self.p, self.training)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        counted = targets.ne(-1)
        right = logits.log_softmax(-1).gather(2, targets.clamp_min(0)[..., None])[..., 0]
        return logits, -(right * counted).sum() / counted.sum()

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            log_p = self(idx[:, -self.block_size :])[0][:, -1].log_softmax(-1)
            if temperature == 0:
                new = log_p.argmax(-1, keepdim=True)
            else:
                if top_k is not None:
                    values, ids = log_p.topk(min(top_k, log_p.size(-1)))
                else:
                    values, ids = log_p, torch.arange(log_p.size(-1), device=idx.device).expand_as(log_p)
                new = ids.gather(
                    1, torch.multinomial(torch.exp(values / temperature - (values / temperature).amax(-1, True)), 1)
                )
            idx = torch.cat([idx, new], 1)
        self.train(training)
        return idx
