"""Correct: tokens and positions are looked up by one-hot products, tied by one matrix; extra keyword arguments."""

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
    eps: float = 1e-5


class Matrix(nn.Linear):
    """A Linear that starts as the lesson says."""

    def reset_parameters(self):
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class Decoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        n, b = cfg.n_embd, cfg.bias
        self.h = cfg.n_head
        self.ln_attn = nn.LayerNorm(n, eps=cfg.eps, bias=b)
        self.ln_ffn = nn.LayerNorm(n, eps=cfg.eps, bias=b)
        self.heads_in = nn.ModuleList([Matrix(n, 3 * n // cfg.n_head, bias=b) for _ in range(cfg.n_head)])
        self.heads_out = Matrix(n, n, bias=b)
        self.ffn_in, self.ffn_out = Matrix(n, 4 * n, bias=b), Matrix(4 * n, n, bias=b)
        self.dropout = nn.Dropout(cfg.dropout)

    def one(self, x, project):
        q, k, v = project(x).chunk(3, dim=-1)
        t = x.size(1)
        s = torch.baddbmm(
            torch.zeros(1, t, t, dtype=x.dtype, device=x.device), q, k.mT, alpha=1 / math.sqrt(q.size(-1))
        )
        i, j = torch.triu_indices(t, t, offset=1, device=x.device)
        s[:, i, j] = -math.inf
        return self.dropout(s.softmax(-1)) @ v

    def forward(self, x):
        y = self.ln_attn(x)
        x = x + self.dropout(self.heads_out(torch.cat([self.one(y, p) for p in self.heads_in], dim=2)))
        return x + self.dropout(self.ffn_out(F.gelu(self.ffn_in(self.ln_ffn(x)))))


class TinyGPT(nn.Module):
    def __init__(self, config, verbose=False):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError(f"cannot make {config.n_head} equal heads out of {config.n_embd} channels")
        if verbose:
            print(f"{config.n_layer} layers")
        self.config = config
        self.unembed = Matrix(config.n_embd, config.vocab_size, bias=False)  # read transposed, it embeds
        self.position = nn.Parameter(0.02 * torch.randn(config.block_size, config.n_embd))
        self.dropout = nn.Dropout(config.dropout)
        self.decoders = nn.Sequential(*(Decoder(config) for _ in range(config.n_layer)))
        self.norm = nn.LayerNorm(config.n_embd, eps=config.eps, bias=config.bias)

    def forward(self, idx, targets=None, return_hidden=False):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError(f"block_size is {self.config.block_size}, got {T} tokens")
        W = self.unembed.weight
        x = F.one_hot(idx, self.config.vocab_size).to(W.dtype) @ W
        eye = torch.eye(T, self.config.block_size, dtype=W.dtype, device=W.device)
        hidden = self.norm(self.decoders(self.dropout(x + eye @ self.position)))
        logits = self.unembed(hidden)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1), ignore_index=-1)
        return (logits, loss, hidden) if return_hidden else (logits, loss)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None, stop=None, **options):
        mode = self.training
        self.eval()
        for _ in range(max_new_tokens):
            scores = self(idx[:, -self.config.block_size :])[0][:, -1]
            if temperature == 0:
                new = scores.argmax(-1).unsqueeze(-1)
            else:
                scores = scores.div(temperature)
                if top_k is not None and top_k < scores.size(-1):
                    scores = scores.masked_fill(
                        scores < scores.kthvalue(scores.size(-1) - top_k + 1, -1, True)[0], -math.inf
                    )
                new = scores.softmax(-1).multinomial(1)
            idx = torch.cat([idx, new], 1)
            if stop is not None and bool((new == stop).all()):
                break
        self.train(mode)
        return idx
