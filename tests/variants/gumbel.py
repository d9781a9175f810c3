"""Correct: tokens are drawn as the argmax of logits plus Gumbel noise; the attention loops over heads by slices."""

import torch
from torch import nn
from torch.nn import functional as F


class GPTConfig:
    def __init__(self, **kwargs):
        defaults = dict(block_size=64, vocab_size=65, n_layer=2, n_head=4, n_embd=64, dropout=0.0, bias=True)
        unknown = set(kwargs) - set(defaults)
        if unknown:
            raise TypeError(f"unknown settings: {unknown}")
        for key, value in (defaults | kwargs).items():
            setattr(self, key, value)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.all = nn.Linear(config.n_embd, 3 * config.n_embd, config.bias)
        self.out = nn.Linear(config.n_embd, config.n_embd, config.bias)
        self.p = config.dropout

    def forward(self, x):
        C = x.shape[-1]
        d = C // self.heads
        packed = self.all(x)
        outs = []
        for h in range(self.heads):
            q = packed[..., h * d : (h + 1) * d]
            k = packed[..., C + h * d : C + (h + 1) * d]
            v = packed[..., 2 * C + h * d : 2 * C + (h + 1) * d]
            s = q @ k.transpose(1, 2) / d**0.5
            s = s + torch.triu(torch.full_like(s[0], float("-inf")), 1)
            outs.append(F.dropout(s.softmax(2), self.p, self.training) @ v)
        return F.dropout(self.out(torch.cat(outs, 2)), self.p, self.training)


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        C = config.n_embd
        self.norm_attention, self.norm_mlp = nn.LayerNorm(C, bias=config.bias), nn.LayerNorm(C, bias=config.bias)
        self.attention = Attention(config)
        self.fc_in, self.fc_out = nn.Linear(C, 4 * C, config.bias), nn.Linear(4 * C, C, config.bias)
        self.p = config.dropout

    def forward(self, x):
        x = x + self.attention(self.norm_attention(x))
        h = self.fc_out(F.gelu(self.fc_in(self.norm_mlp(x))))
        return x + F.dropout(h, self.p, self.training)


class TinyGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.n_embd / config.n_head != config.n_embd // config.n_head:
            raise ValueError("The heads must divide the embedding")
        self.config = config
        C = config.n_embd
        self.word = nn.Embedding(config.vocab_size, C)
        self.time = nn.Embedding(config.block_size, C)
        self.stack = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.end = nn.LayerNorm(C, bias=config.bias)
        self.logits = nn.Linear(C, config.vocab_size, bias=False)
        self.logits.weight = self.word.weight
        for m in self.modules():
            if type(m) in (nn.Linear, nn.Embedding):
                nn.init.trunc_normal_(m.weight, std=0.02)
            if type(m) is nn.Linear and m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        T = idx.size(1)
        if not self.config.block_size >= T:
            raise RuntimeError("context overflow")
        x = self.word(idx) + self.time.weight[None, :T]
        x = F.dropout(x, self.config.dropout, self.training)
        for layer in self.stack:
            x = layer(x)
        logits = self.logits(self.end(x))
        loss = None if targets is None else F.cross_entropy(logits.swapaxes(1, 2), targets, ignore_index=-1)
        return logits, loss

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        old = self.training
        self.eval()
        with torch.no_grad():
            for _ in range(max_new_tokens):
                z = self(idx[:, -self.config.block_size :])[0][:, -1].double()
                if top_k is not None:
                    z[z < torch.topk(z, min(top_k, z.size(1)), dim=1)[0][:, -1:]] = -torch.inf
                if temperature > 0:
                    noise = -torch.log(-torch.log(torch.rand_like(z).clamp_min(1e-300)))
                    z = z / temperature + noise
                idx = torch.cat([idx, z.argmax(1, keepdim=True)], 1)
        self.train(old)
        return idx
