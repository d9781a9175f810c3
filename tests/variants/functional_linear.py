"""Correct: a functional style, with F.linear, weights from a ParameterDict and plain functions for the parts."""

from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F

_fields = "block_size vocab_size n_layer n_head n_embd dropout bias"
GPTConfig = namedtuple("GPTConfig", _fields, defaults=(64, 65, 2, 4, 64, 0.0, True))


def new_weights(config):
    C, p = config.n_embd, {}

    def linear(name, n_in, n_out):
        p[name + "_w"] = nn.Parameter(0.02 * torch.randn(n_out, n_in))
        if config.bias:
            p[name + "_b"] = nn.Parameter(torch.zeros(n_out))

    def norm(name):
        p[name + "_w"] = nn.Parameter(torch.ones(C))
        if config.bias:
            p[name + "_b"] = nn.Parameter(torch.zeros(C))

    p["tokens"] = nn.Parameter(0.02 * torch.randn(config.vocab_size, C))
    p["positions"] = nn.Parameter(0.02 * torch.randn(config.block_size, C))
    for i in range(config.n_layer):
        norm(f"{i}_norm1")
        for part in ("q", "k", "v", "o"):
            linear(f"{i}_{part}", C, C)
        norm(f"{i}_norm2")
        linear(f"{i}_up", C, 4 * C)
        linear(f"{i}_down", 4 * C, C)
    norm("norm")
    return nn.ParameterDict(p)


def get(p, name):
    return p.get(name)


def linear(p, name, x):
    return F.linear(x, p[name + "_w"], get(p, name + "_b"))


def norm(p, name, x):
    return F.layer_norm(x, (x.shape[-1],), p[name + "_w"], get(p, name + "_b"), eps=1e-5)


def attention(p, i, x, n_head, drop):
    heads = []
    q, k, v = (linear(p, f"{i}_{part}", x).tensor_split(n_head, dim=-1) for part in "qkv")
    for q_h, k_h, v_h in zip(q, k, v, strict=True):
        scores = q_h.matmul(k_h.transpose(-1, -2)).div(q_h.size(-1) ** 0.5)
        keep = torch.ones_like(scores).tril().bool()
        heads.append(drop(scores.where(keep, scores.new_tensor(float("-inf"))).softmax(-1)).matmul(v_h))
    return drop(linear(p, f"{i}_o", torch.cat(heads, -1)))


def feed_forward(p, i, x, drop):
    return drop(linear(p, f"{i}_down", F.gelu(linear(p, f"{i}_up", x))))


def gpt(p, idx, config, drop):
    x = drop(F.embedding(idx, p["tokens"]) + p["positions"][: idx.size(1)])
    for i in range(config.n_layer):
        x = x + attention(p, i, norm(p, f"{i}_norm1", x), config.n_head, drop)
        x = x + feed_forward(p, i, norm(p, f"{i}_norm2", x), drop)
    return F.linear(norm(p, "norm", x), p["tokens"])


class TinyGPT(nn.Module):
    def __init__(self, config):
        if config.n_embd % config.n_head:
            raise ValueError(f"n_embd={config.n_embd} over n_head={config.n_head} is no whole number")
        super().__init__()
        self.config, self.weights = config, new_weights(config)

    def forward(self, idx, targets=None):
        if idx.size(1) > self.config.block_size:
            raise ValueError("longer than block_size")
        drop = nn.Dropout(self.config.dropout).train(self.training)
        logits = gpt(self.weights, idx, self.config, drop)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1), ignore_index=-1)

    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        with torch.no_grad():
            for _ in range(max_new_tokens):
                window = idx[:, -self.config.block_size :]
                logits = gpt(self.weights, window, self.config, lambda x: x)[:, -1]
                if temperature == 0:
                    idx = torch.cat([idx, logits.argmax(-1)[:, None]], -1)
                    continue
                p = F.softmax(logits / temperature, -1)
                if top_k is not None:
                    floor = p.topk(min(top_k, p.size(-1)), -1).values[:, -1:]
                    p = p * (p >= floor)
                    p = p / p.sum(-1, keepdim=True)
                idx = torch.cat([idx, torch.multinomial(p, 1)], -1)
        return idx
