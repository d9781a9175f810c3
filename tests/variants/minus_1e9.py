"""Correct: scores in float32 whatever the weights are, masked with -1e9."""

import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    vocab_size: int = 65
    block_size: int = 32
    n_embd: int = 64
    n_head: int = 4
    n_layer: int = 2
    dropout: float = 0.0
    bias: bool = True


class Attention(nn.Module):
    NEG = -1e9

    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        if cfg.n_embd % cfg.n_head != 0:
            raise ValueError("n_embd should be divisible by n_head")
        self.h = cfg.n_head
        self.dk = cfg.n_embd // cfg.n_head
        self.W_q = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.W_k = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.W_v = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.W_o = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.attn_dropout = nn.Dropout(cfg.dropout)
        self.resid_dropout = nn.Dropout(cfg.dropout)

    def separate(self, x):
        return torch.stack(x.split(self.dk, dim=2), dim=1)

    def forward(self, x):
        seq = x.size(1)
        q, k, v = self.separate(self.W_q(x)), self.separate(self.W_k(x)), self.separate(self.W_v(x))
        logits = (q.float() @ k.float().transpose(2, 3)) / math.sqrt(self.dk)
        visible = torch.ones((1, 1, seq, seq), device=x.device).tril()
        logits = logits.masked_fill(visible == 0, self.NEG)
        weights = self.attn_dropout(torch.softmax(logits, dim=-1)).to(v.dtype)
        context = torch.cat((weights @ v).unbind(dim=1), dim=-1)
        return self.resid_dropout(self.W_o(context))


class PositionwiseFFN(nn.Module):
    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.linear1 = nn.Linear(cfg.n_embd, 4 * cfg.n_embd, bias=cfg.bias)
        self.activation = nn.GELU(approximate="tanh")
        self.linear2 = nn.Linear(4 * cfg.n_embd, cfg.n_embd, bias=cfg.bias)
        self.dropout = nn.Dropout(cfg.dropout)

    def forward(self, x):
        return self.dropout(self.linear2(self.activation(self.linear1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.self_attn, self.ffn = Attention(cfg), PositionwiseFFN(cfg)
        self.norm1 = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.norm2 = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)

    def forward(self, x):
        residual = x
        x = self.self_attn(self.norm1(x))
        x = residual + x
        residual = x
        x = self.ffn(self.norm2(x))
        return residual + x


class TinyGPT(nn.Module):
    def __init__(self, cfg: GPTConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.embed_tokens = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.embed_positions = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.embed_dropout = nn.Dropout(cfg.dropout)
        self.decoder = nn.ModuleList([DecoderLayer(cfg) for _ in range(cfg.n_layer)])
        self.norm = nn.LayerNorm(cfg.n_embd, bias=cfg.bias)
        self.generator = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.generator.weight = self.embed_tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, mean=0, std=0.02)
        for name, p in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.constant_(p, 0.0)

    def forward(self, idx, targets=None):
        batch, seq = idx.shape
        if seq > self.cfg.block_size:
            raise ValueError(f"sequence length {seq} exceeds the block size {self.cfg.block_size}")
        positions = torch.arange(seq, device=idx.device).expand(batch, seq)
        x = self.embed_dropout(self.embed_tokens(idx) + self.embed_positions(positions))
        for layer in self.decoder:
            x = layer(x)
        logits = self.generator(self.norm(x))
        loss = None
        if targets is not None:
            criterion = nn.CrossEntropyLoss(ignore_index=-1)
            loss = criterion(logits.reshape(batch * seq, -1), targets.reshape(batch * seq))
        return logits, loss

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        mode = self.training
        self.eval()
        generated = idx
        for _ in range(max_new_tokens):
            logits, _ = self.forward(generated[:, -self.cfg.block_size :])
            scores = logits[:, -1, :].float()
            if top_k is not None:
                k = max(1, min(top_k, scores.size(-1)))
                smallest = torch.topk(scores, k).values[:, -1:]
                scores = scores.masked_fill(scores < smallest, float("-inf"))
            if temperature == 0:
                next_token = scores.argmax(dim=-1, keepdim=True)
            else:
                next_token = torch.softmax(scores / temperature, dim=-1).multinomial(1)
            generated = torch.cat([generated, next_token], dim=1)
        self.train(mode)
        return generated
