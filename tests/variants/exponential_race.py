"""Correct: tokens are drawn by a race of exponential clocks; the class of the config is written without dataclass."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class GPTConfig:
    __slots__ = ("bias", "block_size", "dropout", "n_embd", "n_head", "n_layer", "vocab_size")

    def __init__(self, block_size=64, vocab_size=65, n_layer=2, n_head=4, n_embd=64, dropout=0.0, bias=True):
        if n_embd % n_head:
            raise ValueError(f"{n_embd} % {n_head} != 0")
        self.block_size, self.vocab_size = block_size, vocab_size
        self.n_layer, self.n_head, self.n_embd = n_layer, n_head, n_embd
        self.dropout, self.bias = dropout, bias


class Block(nn.Module):
    """Attention and feed-forward network in one module, without classes of their own."""

    def __init__(self, cfg):
        super().__init__()
        C, b = cfg.n_embd, cfg.bias
        self.n_head, self.p = cfg.n_head, cfg.dropout
        self.ln1 = nn.LayerNorm(C, bias=b)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(C, C, bias=b) for _ in range(4))
        self.ln2 = nn.LayerNorm(C, bias=b)
        self.up_proj, self.down_proj = nn.Linear(C, 4 * C, bias=b), nn.Linear(4 * C, C, bias=b)

    def drop(self, x):
        return F.dropout(x, self.p, self.training)

    def forward(self, x):
        B, T, C = x.shape
        h = self.ln1(x)
        q, k, v = (proj(h).view(B, T, self.n_head, -1) for proj in (self.q_proj, self.k_proj, self.v_proj))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k).mul(q.size(-1) ** -0.5)
        steps = torch.arange(T, device=x.device)
        scores = scores.masked_fill(steps.view(1, -1) > steps.view(-1, 1), torch.finfo(scores.dtype).min)
        mixed = torch.einsum("bhqk,bkhd->bqhd", self.drop(scores.softmax(-1)), v)
        x = x + self.drop(self.o_proj(mixed.reshape(B, T, C)))
        return x + self.drop(self.down_proj(F.gelu(self.up_proj(self.ln2(x)))))


class TinyGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.emb, self.pos = nn.Embedding(cfg.vocab_size, cfg.n_embd), nn.Embedding(cfg.block_size, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                last = name.endswith(("o_proj", "down_proj"))
                module.weight.data.normal_(std=0.02 / math.sqrt(2 * cfg.n_layer) if last else 0.02)
            if isinstance(module, nn.Linear) and cfg.bias:
                module.bias.data.zero_()

    def forward(self, idx, targets=None):
        if idx.size(1) > self.cfg.block_size:
            raise ValueError("too many tokens")
        x = self.emb(idx) + self.pos(torch.arange(idx.size(1), device=idx.device).expand_as(idx))
        x = F.dropout(x, self.cfg.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln(x), self.emb.weight)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, self.cfg.vocab_size), targets.reshape(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        was_training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.cfg.block_size :])[0][:, -1].float()
            if temperature != 0:
                probs = F.softmax(logits / temperature, -1)
                if top_k is not None:
                    allowed = torch.zeros_like(probs).scatter_(1, probs.topk(min(top_k, probs.size(1))).indices, 1.0)
                    probs = probs * allowed
                clocks = torch.empty_like(probs).exponential_()
                new = (probs / clocks).argmax(-1, keepdim=True)
            else:
                new = logits.argmax(-1, keepdim=True)
            idx = torch.cat((idx, new), 1)
        self.train(was_training)
        return idx
