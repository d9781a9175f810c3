"""Correct: einsum throughout, with weight tensors (H, C, D) of the learner's own and no Linear in attention."""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import einsum, nn
from torch.nn.functional import cross_entropy, dropout, gelu, softmax


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float = 0.1
    bias: bool = False


def weight(*shape):
    return nn.Parameter(torch.randn(*shape) * 0.02)


class MultiHead(nn.Module):
    def __init__(self, c: GPTConfig):
        super().__init__()
        width, left = divmod(c.n_embd, c.n_head)
        if left:
            raise ValueError("heads do not divide the width")
        self.p = c.dropout
        self.wq, self.wk, self.wv = (weight(c.n_head, c.n_embd, width) for _ in "qkv")
        self.wo = weight(c.n_head, width, c.n_embd)
        if c.bias:
            self.bq, self.bk, self.bv = (nn.Parameter(torch.zeros(c.n_head, 1, width)) for _ in "qkv")
            self.bo = nn.Parameter(torch.zeros(c.n_embd))
        else:
            self.bq = self.bk = self.bv = self.bo = 0

    def forward(self, x):
        q = einsum("btc,hcd->bhtd", x, self.wq) + self.bq
        k = einsum("btc,hcd->bhtd", x, self.wk) + self.bk
        v = einsum("btc,hcd->bhtd", x, self.wv) + self.bv
        s = einsum("bhtd,bhsd->bhts", q, k) / sqrt(q.size(-1))
        t = torch.arange(x.size(1), device=x.device)
        s = s.masked_fill(t[:, None] < t[None, :], -torch.inf)
        a = dropout(softmax(s, dim=-1), self.p, self.training)
        y = einsum("bhts,bhsd,hdc->btc", a, v, self.wo) + self.bo
        return dropout(y, self.p, self.training)


class Perceptron(nn.Module):
    def __init__(self, c: GPTConfig):
        super().__init__()
        self.p = c.dropout
        self.w1, self.w2 = weight(c.n_embd, 4 * c.n_embd), weight(4 * c.n_embd, c.n_embd)
        self.b1 = nn.Parameter(torch.zeros(4 * c.n_embd)) if c.bias else 0
        self.b2 = nn.Parameter(torch.zeros(c.n_embd)) if c.bias else 0

    def forward(self, x):
        h = gelu(einsum("btc,cf->btf", x, self.w1) + self.b1)
        return dropout(einsum("btf,fc->btc", h, self.w2) + self.b2, self.p, self.training)


class TinyGPT(nn.Module):
    def __init__(self, c: GPTConfig):
        super().__init__()
        self.c = c
        self.embedding = weight(c.vocab_size, c.n_embd)
        self.positions = weight(c.block_size, c.n_embd)
        self.attentions = nn.ModuleList(MultiHead(c) for _ in range(c.n_layer))
        self.perceptrons = nn.ModuleList(Perceptron(c) for _ in range(c.n_layer))
        self.norms = nn.ModuleList(nn.LayerNorm(c.n_embd, bias=c.bias) for _ in range(2 * c.n_layer + 1))

    def forward(self, idx, targets=None):
        T = idx.shape[-1]
        if self.c.block_size < T:
            raise IndexError(f"at most {self.c.block_size} tokens, got {T}")
        x = dropout(self.embedding[idx] + self.positions[:T], self.c.dropout, self.training)
        for i, (attend, think) in enumerate(zip(self.attentions, self.perceptrons, strict=True)):
            x = x + attend(self.norms[2 * i](x))
            x = x + think(self.norms[2 * i + 1](x))
        logits = einsum("btc,vc->btv", self.norms[-1](x), self.embedding)
        loss = None if targets is None else cross_entropy(logits.permute(0, 2, 1), targets, ignore_index=-1)
        return logits, loss

    @torch.inference_mode()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        before = self.training
        self.train(False)
        tokens = list(idx.unbind(dim=1))
        for _ in range(max_new_tokens):
            window = torch.stack(tokens[-self.c.block_size :], dim=1)
            z = self.forward(window)[0][:, -1]
            if temperature <= 0:
                tokens.append(z.argmax(dim=-1))
                continue
            if top_k is not None and top_k < z.size(-1):
                threshold = z.sort(dim=-1, descending=True).values[:, top_k - 1 : top_k]
                z = z.where(z >= threshold, -torch.inf)
            tokens.append(torch.multinomial(softmax(z / temperature, -1), 1).squeeze(-1))
        self.train(before)
        return torch.stack(tokens, dim=1)
