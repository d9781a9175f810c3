"""Correct: as short as it gets, one class, everything inline."""

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


class GPTConfig(SimpleNamespace):
    block_size, vocab_size, n_layer, n_head, n_embd, dropout, bias = 64, 65, 2, 4, 64, 0.0, True


class TinyGPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        assert c.n_embd % c.n_head == 0
        self.c, C = c, c.n_embd
        self.E, self.P = nn.Embedding(c.vocab_size, C), nn.Embedding(c.block_size, C)
        self.A = nn.ModuleList(nn.Linear(C, 3 * C, bias=c.bias) for _ in range(c.n_layer))
        self.O = nn.ModuleList(nn.Linear(C, C, bias=c.bias) for _ in range(c.n_layer))
        self.F = nn.ModuleList(nn.Linear(C, 4 * C, bias=c.bias) for _ in range(c.n_layer))
        self.G = nn.ModuleList(nn.Linear(4 * C, C, bias=c.bias) for _ in range(c.n_layer))
        self.N = nn.ModuleList(nn.LayerNorm(C, bias=c.bias) for _ in range(2 * c.n_layer + 1))
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        assert idx.size(1) <= self.c.block_size
        (B, T), H, D = idx.shape, self.c.n_head, self.c.n_embd // self.c.n_head
        drop = lambda t: F.dropout(t, self.c.dropout, self.training)  # noqa: E731
        x = drop(self.E(idx) + self.P.weight[:T])
        for i in range(self.c.n_layer):
            q, k, v = self.A[i](self.N[2 * i](x)).view(B, T, 3, H, D).permute(2, 0, 3, 1, 4)
            s = (q @ k.mT / math.sqrt(D)).masked_fill(torch.ones(T, T, device=x.device).triu(1) > 0, -math.inf)
            x = x + drop(self.O[i]((drop(s.softmax(-1)) @ v).transpose(1, 2).reshape(B, T, -1)))
            x = x + drop(self.G[i](F.gelu(self.F[i](self.N[2 * i + 1](x)))))
        z = self.N[-1](x) @ self.E.weight.T
        return z, None if targets is None else F.cross_entropy(z.flatten(0, 1), targets.flatten(), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode = self.training
        self.eval()
        for _ in range(max_new_tokens):
            z = self(idx[:, -self.c.block_size :])[0][:, -1]
            k = min(top_k or z.size(1), z.size(1)) if temperature else 1
            top, ids = z.topk(k)
            idx = torch.cat([idx, ids.gather(1, (top / (temperature or 1)).softmax(1).multinomial(1))], 1)
        self.train(mode)
        return idx
