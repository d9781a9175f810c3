"""Correct: the fused kernel with is_causal, chunk for q, k, v, and residual-scaled initialisation by a flag."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class GPTConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True


class SelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd % config.n_head:
            raise ValueError("n_embd % n_head must be 0")
        self.n_head, self.p = config.n_head, config.dropout
        self.in_proj = nn.Linear(config.n_embd, config.n_embd * 3, bias=config.bias)
        self.out_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.out_proj.writes_to_the_stream = True

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.n_head, -1)).transpose(1, 2) for t in self.in_proj(x).chunk(3, dim=-1))
        p = self.p if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        y = self.out_proj(y.transpose(1, 2).flatten(2))
        return F.dropout(y, self.p, training=self.training)


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.p = config.dropout
        self.expand = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.shrink = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.shrink.writes_to_the_stream = True

    def forward(self, x):
        return F.dropout(self.shrink(F.gelu(self.expand(x))), self.p, training=self.training)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(config.n_embd, bias=config.bias) for _ in range(2))
        self.attn, self.ff = SelfAttention(config), FeedForward(config)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.ff(self.n2(x))


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.emb = nn.ModuleDict(
            {
                "token": nn.Embedding(config.vocab_size, config.n_embd),
                "position": nn.Embedding(config.block_size, config.n_embd),
            }
        )
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.n_layer)])
        self.n = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.unembed = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.unembed.weight = self.emb["token"].weight
        self.apply(self.init)

    def init(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            small = getattr(m, "writes_to_the_stream", False)
            std = 0.02 / math.sqrt(2 * self.config.n_layer) if small else 0.02
            nn.init.normal_(m.weight, 0.0, std)
            if isinstance(m, nn.Linear) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        if self.config.block_size < T:
            raise ValueError(f"T={T} > block_size={self.config.block_size}")
        pos = torch.arange(T, device=idx.device)
        x = F.dropout(self.emb["token"](idx) + self.emb["position"](pos), self.config.dropout, self.training)
        for layer in self.layers:
            x = layer(x)
        x = self.n(x)
        if targets is None:
            return self.unembed(x[:, -1:]), None  # nobody needs the others
        logits = self.unembed(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.contiguous().view(-1), ignore_index=-1)

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        training = self.training
        self.eval()
        for _ in range(max_new_tokens):
            logits = self(idx[:, -self.config.block_size :])[0][:, -1]
            if top_k is not None:
                low = logits.topk(min(top_k, logits.size(-1))).values.min(dim=-1, keepdim=True).values
                logits = logits.masked_fill(logits < low, -math.inf)
            if temperature == 0.0:
                probs = F.one_hot(logits.argmax(-1), logits.size(-1)).to(logits.dtype)
            else:
                probs = F.softmax(logits / temperature, dim=-1)
            idx = torch.cat((idx, torch.multinomial(probs, 1)), dim=1)
        self.train(training)
        return idx
