"""Correct: nn.MultiheadAttention with a boolean mask, and weights initialised by name."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GPTConfig:
    block_size: int = 64
    vocab_size: int = 65
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 64
    dropout: float = 0.0
    bias: bool = True


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln_a = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.mha = nn.MultiheadAttention(cfg.n_embd, cfg.n_head, dropout=cfg.dropout, bias=cfg.bias, batch_first=True)
        self.mha_drop = nn.Dropout(cfg.dropout)
        self.ln_b = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.ff1 = nn.Linear(cfg.n_embd, cfg.n_embd * 4, bias=cfg.bias)
        self.ff2 = nn.Linear(cfg.n_embd * 4, cfg.n_embd, bias=cfg.bias)
        self.ff_drop = nn.Dropout(cfg.dropout)

    def forward(self, x, forbidden):
        h = self.ln_a(x)
        h, _ = self.mha(h, h, h, attn_mask=forbidden, need_weights=False)
        x = x + self.mha_drop(h)
        h = F.gelu(self.ff1(self.ln_b(x)))
        return x + self.ff_drop(self.ff2(h))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.block_size = config.block_size
        self.tokens = nn.Embedding(config.vocab_size, config.n_embd)
        self.places = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.reset()

    def reset(self):
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, idx, targets=None):
        t = idx.shape[1]
        if t > self.block_size:
            raise ValueError("too long")
        forbidden = torch.ones(t, t, dtype=torch.bool, device=idx.device).triu(1)
        x = self.tokens(idx) + self.places(torch.arange(t, device=idx.device))[None]
        x = self.drop(x)
        for block in self.blocks:
            x = block(x, forbidden)
        logits = F.linear(self.ln(x), self.tokens.weight)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        state = {m: m.training for m in self.modules()}
        self.eval()
        try:
            for _ in range(max_new_tokens):
                logits = self(idx[:, -self.block_size :])[0][:, -1]
                if temperature < 1e-8:
                    choice = torch.argmax(logits, dim=-1, keepdim=True)
                else:
                    logits = logits / temperature
                    if top_k is not None:
                        k = min(top_k, logits.shape[-1])
                        kth = torch.topk(logits, k).values[:, -1].unsqueeze(-1)
                        logits = torch.where(logits < kth, torch.full_like(logits, float("-inf")), logits)
                    choice = torch.multinomial(F.softmax(logits, dim=-1), 1)
                idx = torch.cat([idx, choice], dim=-1)
            return idx
        finally:
            for m, mode in state.items():
                m.training = mode
