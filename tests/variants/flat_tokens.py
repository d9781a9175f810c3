"""Correct: everything but attention works on a flat list of B·T tokens, and the caller takes care of eval mode."""

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
        if config.n_embd % config.n_head != 0:
            raise ValueError("n_embd is no multiple of n_head")
        self.config = config
        C, b = config.n_embd, config.bias
        self.tokens, self.positions = nn.Embedding(config.vocab_size, C), nn.Embedding(config.block_size, C)
        self.drop = nn.Dropout(config.dropout)
        self.pre_attention = nn.ModuleList(nn.LayerNorm(C, bias=b) for _ in range(config.n_layer))
        self.queries = nn.ModuleList(nn.Linear(C, C, bias=b) for _ in range(config.n_layer))
        self.keys = nn.ModuleList(nn.Linear(C, C, bias=b) for _ in range(config.n_layer))
        self.values = nn.ModuleList(nn.Linear(C, C, bias=b) for _ in range(config.n_layer))
        self.outputs = nn.ModuleList(nn.Linear(C, C, bias=b) for _ in range(config.n_layer))
        self.pre_ffn = nn.ModuleList(nn.LayerNorm(C, bias=b) for _ in range(config.n_layer))
        self.ups = nn.ModuleList(nn.Linear(C, 4 * C, bias=b) for _ in range(config.n_layer))
        self.downs = nn.ModuleList(nn.Linear(4 * C, C, bias=b) for _ in range(config.n_layer))
        self.final = nn.LayerNorm(C, bias=b)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                nn.init.normal_(p, mean=0.0, std=0.02)
            elif name.endswith(".bias"):
                nn.init.zeros_(p)

    def heads(self, flat, B, T):
        """(B·T, C) to (B·H, T, D)."""
        H = self.config.n_head
        return flat.view(B, T, H, -1).transpose(1, 2).reshape(B * H, T, -1)

    def attention(self, layer, flat, B, T):
        q = self.heads(self.queries[layer](flat), B, T)
        k = self.heads(self.keys[layer](flat), B, T)
        v = self.heads(self.values[layer](flat), B, T)
        scores = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5
        scores.masked_fill_(torch.ones(T, T, device=flat.device).triu(1).bool(), -torch.inf)
        mixed = torch.bmm(self.drop(F.softmax(scores, dim=-1)), v)
        mixed = mixed.view(B, self.config.n_head, T, -1).transpose(1, 2).reshape(B * T, -1)
        return self.drop(self.outputs[layer](mixed))

    def forward(self, idx, targets=None):
        B, T = idx.shape
        if self.config.block_size < T:
            raise ValueError("block_size exceeded")
        where = torch.arange(T, device=idx.device).repeat(B)
        flat = self.drop(self.tokens(idx.reshape(-1)) + self.positions(where))  # (B·T, C)
        for layer in range(self.config.n_layer):
            flat = flat + self.attention(layer, self.pre_attention[layer](flat), B, T)
            hidden = F.gelu(self.ups[layer](self.pre_ffn[layer](flat)))
            flat = flat + self.drop(self.downs[layer](hidden))
        logits = self.final(flat) @ self.tokens.weight.T  # (B·T, V)
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits, targets.reshape(-1), ignore_index=-1)
        return logits.view(B, T, -1), loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        # model.eval() before and model.train() after are the caller's business
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                p = F.softmax(logits.double() / temperature, dim=-1)
                if top_k is not None:
                    p = p.where(p >= p.topk(min(top_k, p.size(-1))).values[:, -1:], 0)
                cdf = p.cumsum(-1)
                u = torch.rand(len(p), 1, dtype=p.dtype, device=p.device) * cdf[:, -1:]
                new = (cdf <= u).sum(-1, keepdim=True).clamp(max=p.size(-1) - 1)
            idx = torch.cat([idx, new], dim=1)
        return idx
