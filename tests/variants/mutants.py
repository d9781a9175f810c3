"""The catalogue's bugs planted once more, by exact edits of the variants: other hands, other styles, same mistakes."""

from dataclasses import dataclass
from pathlib import Path

from tiny_gpt.bugs.planting import Edit, edited, run

HERE = Path(__file__).parent
VARIANTS = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("__init__", "mutants"))
DESIGNS = sorted(path.stem for path in (HERE / "designs").glob("*.py"))


def text(variant: str) -> str:
    """A variant's source."""
    folder = HERE / "designs" if variant in DESIGNS else HERE
    return (folder / f"{variant}.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """A variant with one bug."""

    id: str
    variant: str
    name: str
    edits: tuple[Edit, ...]

    def build(self):
        return run(edited(text(self.variant), self.edits), f"{self.variant}_{self.name}")


def mutant(id: str, variant: str, name: str, *edits: Edit) -> Mutant:
    return Mutant(id, variant, name, edits)


MASKING = (
    mutant(
        "mask-missing",
        "separate_qkv",
        "no-fill",
        ('        att = att.masked_fill(~self.tril[:T, :T], float("-inf"))\n', ""),
    ),
    mutant("mask-missing", "mha_module", "no-mask", ("h, h, h, attn_mask=forbidden, need", "h, h, h, need")),
    mutant("mask-missing", "query_loop", "all-keys", ("k[:, : t + 1]", "k"), ("v[:, : t + 1]", "v")),
    mutant("mask-missing", "encoder_layer", "no-mask", ("x = layer(x, src_mask=mask)", "x = layer(x)")),
    mutant("mask-excludes-self", "head_list", "triu-0", ("triu(diagonal=1)", "triu(diagonal=0)")),
    mutant("mask-excludes-self", "minus_1e9", "tril-minus-1", (".tril()", ".tril(-1)")),
    mutant(
        "mask-excludes-self", "einsum_heads", "at-or-after", ("t[:, None] < t[None, :]", "t[:, None] <= t[None, :]")
    ),
    mutant(
        "mask-sees-next",
        "query_loop",
        "one-more",
        ("k[:, : t + 1]", "k[:, : t + 2]"),
        ("v[:, : t + 1]", "v[:, : t + 2]"),
    ),
    mutant("mask-sees-next", "padded_vocab", "triu-2", ("-math.inf).triu(1))", "-math.inf).triu(2))")),
    mutant("mask-sees-next", "kv_cache", "cols-one-on", ("cols <= rows", "cols <= rows + 1")),
    mutant(
        "mask-reversed", "position_parameter", "kernel-triu", ("device=x.device).tril()", "device=x.device).triu(1)")
    ),
    mutant(
        "mask-reversed",
        "separate_qkv",
        "fill-past",
        ("att.masked_fill(~self.tril[:T, :T]", "att.masked_fill(self.tril[:T, :T]"),
    ),
    mutant("mask-reversed", "additive_mask", "below", (".view(1, t) > torch", ".view(1, t) < torch")),
    mutant(
        "mask-after-softmax",
        "functional_linear",
        "times-keep",
        ('drop(scores.where(keep, scores.new_tensor(float("-inf"))).softmax(-1))', "drop(scores.softmax(-1) * keep)"),
    ),
    mutant(
        "mask-after-softmax",
        "gumbel",
        "tril",
        ('            s = s + torch.triu(torch.full_like(s[0], float("-inf")), 1)\n', ""),
        ("s.softmax(2)", "s.softmax(2).tril()"),
    ),
    mutant(
        "mask-after-softmax",
        "compact",
        "filled-later",
        (
            "(q @ k.mT / math.sqrt(D)).masked_fill(torch.ones(T, T, device=x.device).triu(1) > 0, -math.inf)",
            "q @ k.mT / math.sqrt(D)",
        ),
        ("drop(s.softmax(-1))", "drop(s.softmax(-1).masked_fill(torch.ones(T, T, device=x.device).triu(1) > 0, 0))"),
    ),
    mutant("mask-soft", "lazy_mask", "zero", ("self.mask(x), -math.inf)", "self.mask(x), 0.0)")),
    mutant("mask-soft", "minus_1e9", "plus", ("NEG = -1e9", "NEG = 1e-9")),
    mutant(
        "mask-soft", "overengineered", "minus-ten", ("x), -math.inf)\n        weights", "x), -10.0)\n        weights")
    ),
    mutant(
        "mask-stale",
        "lazy_mask",
        "never-grown",
        ("self._mask is None or self._mask.size(0) < T or self._mask.device != x.device", "self._mask is None"),
    ),
    mutant(
        "mask-stale",
        "separate_qkv",
        "too-small",
        ("torch.ones(config.block_size, config.block_size, dtype=torch.bool)", "torch.ones(8, 8, dtype=torch.bool)"),
    ),
    mutant("mask-stale", "padded_vocab", "not-cut", ("[None, None, :T, :T]", "[None, None]")),
)

SCALING = (
    mutant("scale-missing", "separate_qkv", "none", (" * self.head_dim**-0.5", "")),
    mutant("scale-missing", "additive_mask", "none", (".permute(0, 2, 1, 3) / self.hs**0.5", ".permute(0, 2, 1, 3)")),
    mutant("scale-missing", "log_space", "none", (".transpose(-2, -1) / math.sqrt(D)", ".transpose(-2, -1)")),
    mutant("scale-missing", "interleaved_h3d", "alpha-1", (", alpha=self.head_size**-0.5", "")),
    mutant("scale-by-width", "head_list", "n-embd", ("/ math.sqrt(self.d)", "/ math.sqrt(x.size(-1))")),
    mutant("scale-by-width", "stacked_weights", "C", ("math.sqrt(C // H)", "math.sqrt(C)")),
    mutant("scale-by-width", "query_loop", "C", ("self.d_head**-0.5", "C**-0.5")),
    mutant("scale-wrong", "compact", "D", ("k.mT / math.sqrt(D)", "k.mT / D")),
    mutant("scale-wrong", "exponential_race", "times", ("q.size(-1) ** -0.5", "q.size(-1) ** 0.5")),
    mutant("scale-wrong", "kvq_order", "sqrt-T", ("math.sqrt(D)", "math.sqrt(T)")),
    mutant(
        "scale-wrong",
        "sdpa",
        "twice",
        ("y = F.scaled_dot_product_attention(q,", "y = F.scaled_dot_product_attention(q * q.size(-1) ** -0.5,"),
    ),
)

SOFTMAX_AXIS = (
    mutant("softmax-axis", "head_list", "queries", ("torch.softmax(scores, -1)", "torch.softmax(scores, -2)")),
    mutant("softmax-axis", "einsum_heads", "heads", ("softmax(s, dim=-1)", "softmax(s, dim=1)")),
    mutant("softmax-axis", "conv_projections", "queries", ("F.softmax(scores, dim=-1)", "F.softmax(scores, dim=2)")),
    mutant("softmax-axis", "query_loop", "heads", ("scores.softmax(dim=1)", "scores.softmax(dim=2)")),
)

HEADS = (
    mutant(
        "heads-split-mixed",
        "separate_qkv",
        "view",
        *(
            (
                f"{n}(x).view(B, T, self.heads, self.head_dim).transpose(1, 2)",
                f"{n}(x).view(B, self.heads, T, self.head_dim)",
            )
            for n in ("query", "key", "value")
        ),
    ),
    mutant(
        "heads-split-mixed",
        "overengineered",
        "view",
        (".unflatten(-1, (self.n_head, -1)).transpose(-3, -2)", ".reshape(x.shape[0], self.n_head, x.shape[1], -1)"),
    ),
    mutant(
        "heads-split-mixed",
        "flat_tokens",
        "view",
        (".view(B, T, H, -1).transpose(1, 2).reshape(B * H, T, -1)", ".view(B * H, T, -1)"),
    ),
    mutant(
        "heads-merge-mixed",
        "additive_mask",
        "no-permute",
        ("torch.matmul(w, v).permute(0, 2, 1, 3).reshape", "torch.matmul(w, v).reshape"),
    ),
    mutant(
        "heads-merge-mixed",
        "sdpa",
        "no-transpose",
        ("self.out_proj(y.transpose(1, 2).flatten(2))", "self.out_proj(y.reshape(x.shape))"),
    ),
    mutant(
        "heads-merge-mixed",
        "kvq_order",
        "no-transpose",
        ("@ v).transpose(1, 2).reshape(B, T, C)", "@ v).reshape(B, T, C)"),
    ),
    mutant("heads-ignored", "mha_module", "one", ("cfg.n_embd, cfg.n_head, dropout", "cfg.n_embd, 1, dropout")),
    mutant("heads-ignored", "gumbel", "one", ("self.heads = config.n_head", "self.heads = 1")),
    mutant(
        "heads-ignored",
        "kv_cache",
        "one",
        ("self.h, self.d = config.n_head, config.n_embd // config.n_head", "self.h, self.d = 1, config.n_embd"),
    ),
    mutant(
        "heads-share-weights",
        "head_list",
        "list-times",
        (
            "nn.ModuleList([SingleHead(cfg) for _ in range(cfg.n_head)])",
            "nn.ModuleList([SingleHead(cfg)] * cfg.n_head)",
        ),
    ),
    mutant(
        "heads-share-weights",
        "einsum_heads",
        "expanded",
        (
            "self.wq, self.wk, self.wv = (weight(c.n_head, c.n_embd, width)",
            "self.wq, self.wk, self.wv = (weight(1, c.n_embd, width)",
        ),
        (
            "self.bq, self.bk, self.bv = (nn.Parameter(torch.zeros(c.n_head, 1, width))",
            "self.bq, self.bk, self.bv = (nn.Parameter(torch.zeros(1, 1, width))",
        ),
        (
            '        s = einsum("bhtd',
            '        q, k, v = (y.expand(-1, self.wo.size(0), -1, -1) for y in (q, k, v))\n        s = einsum("bhtd',
        ),
    ),
    mutant(
        "heads-share-weights", "one_hot", "first", ("self.one(y, p) for p in", "self.one(y, self.heads_in[0]) for p in")
    ),
    mutant(
        "qkv-shared",
        "separate_qkv",
        "one-linear",
        ("k = self.key(x)", "k = self.query(x)"),
        ("v = self.value(x)", "v = self.query(x)"),
    ),
    mutant(
        "qkv-shared",
        "head_list",
        "same-module",
        ("self.to_k = nn.Linear(cfg.n_embd, self.d, bias=cfg.bias)", "self.to_k = self.to_q"),
    ),
    mutant(
        "qkv-shared",
        "flat_tokens",
        "keys-from-queries",
        ("self.heads(self.keys[layer](flat), B, T)", "self.heads(self.queries[layer](flat), B, T)"),
    ),
    mutant(
        "out-projection-missing", "separate_qkv", "unused", ("self.out_dropout(self.proj(y))", "self.out_dropout(y)")
    ),
    mutant(
        "out-projection-missing",
        "head_list",
        "absent",
        ("        self.mix = nn.Linear(cfg.n_embd, cfg.n_embd, bias=cfg.bias)\n", ""),
        (
            "self.drop(self.mix(torch.cat([head(x) for head in self.heads], dim=-1)))",
            "self.drop(torch.cat([head(x) for head in self.heads], dim=-1))",
        ),
    ),
    mutant(
        "out-projection-missing",
        "exponential_race",
        "unused",
        ("self.drop(self.o_proj(mixed.reshape(B, T, C)))", "self.drop(mixed.reshape(B, T, C))"),
    ),
)

POSITION = (
    mutant(
        "position-missing",
        "separate_qkv",
        "unused",
        ("self.tok_emb(idx) + self.pos_emb(torch.arange(T, device=idx.device))", "self.tok_emb(idx)"),
    ),
    mutant("position-missing", "one_hot", "unused", ("x + eye @ self.position", "x")),
    mutant(
        "position-missing",
        "position_parameter",
        "absent",
        ("        self.place = nn.Parameter(torch.zeros(config.block_size, config.n_embd))\n", ""),
        ("        self.place.normal_(0, 0.02)\n", ""),
        ("self.embed(idx) + self.place[:T]", "self.embed(idx)"),
    ),
    mutant(
        "position-wrong-axis",
        "separate_qkv",
        "shape-0",
        (
            "self.pos_emb(torch.arange(T, device=idx.device))",
            "self.pos_emb(torch.arange(idx.shape[0], device=idx.device)).unsqueeze(1)",
        ),
    ),
    mutant("position-wrong-axis", "stacked_weights", "rows", ("self.W_P[:T]", "self.W_P[: idx.size(0), None]")),
    mutant(
        "position-wrong-axis",
        "time_first",
        "rows",
        (
            "torch.arange(len(time), device=idx.device)).unsqueeze(1)",
            "torch.arange(time.size(1), device=idx.device)).unsqueeze(0)",
        ),
    ),
    mutant(
        "position-constant",
        "exponential_race",
        "zeros",
        ("self.pos(torch.arange(idx.size(1), device=idx.device).expand_as(idx))", "self.pos(torch.zeros_like(idx))"),
    ),
    mutant("position-constant", "compact", "first", ("self.P.weight[:T]", "self.P.weight[:1]")),
    mutant(
        "position-constant",
        "interleaved_h3d",
        "one-row",
        (
            "self.wpe = nn.Parameter(torch.empty(1, config.block_size, config.n_embd))",
            "self.wpe = nn.Parameter(torch.empty(1, 1, config.n_embd))",
        ),
        ("self.wpe[:, : idx.size(1)])  # too long a text does not broadcast", "self.wpe)"),
        (
            "        x = self.drop(self.wte(idx)",
            "        assert idx.size(1) <= self.config.block_size\n        x = self.drop(self.wte(idx)",
        ),
    ),
    mutant(
        "position-misplaced",
        "head_list",
        "after",
        ("x = self.drop(self.what(idx) + self.where(positions))", "x = self.drop(self.what(idx))"),
        ("self.last(self.body(x))", "self.last(self.body(x) + self.where(positions))"),
    ),
    mutant("position-misplaced", "additive_mask", "reversed", ("self.pe.weight[:t]", "self.pe.weight[:t].flip(0)")),
    mutant("position-misplaced", "stacked_weights", "last-rows", ("self.W_P[:T]", "self.W_P[-T:]")),
)

EMBEDDING = (
    mutant("untied", "separate_qkv", "no-line", ("        self.head.weight = self.tok_emb.weight\n", "")),
    mutant(
        "untied",
        "einsum_heads",
        "two-tables",
        (
            "        self.positions = weight(c.block_size, c.n_embd)\n",
            "        self.positions = weight(c.block_size, c.n_embd)\n"
            "        self.unembedding = weight(c.vocab_size, c.n_embd)\n",
        ),
        ("self.norms[-1](x), self.embedding)", "self.norms[-1](x), self.unembedding)"),
    ),
    mutant("untied", "kv_cache", "no-line", ("        self.tok.weight = self.head.weight\n", "")),
    mutant(
        "tied-by-copy",
        "query_loop",
        "data",
        (
            "        self.out.weight = self.tok.weight\n        self.apply(self.reset)\n",
            "        self.apply(self.reset)\n        self.out.weight.data = self.tok.weight.data.clone()\n",
        ),
    ),
    mutant(
        "tied-by-copy",
        "sequential",
        "parameter",
        ("embeddings.token.weight = head.weight", "embeddings.token.weight = nn.Parameter(head.weight.clone())"),
    ),
    mutant(
        "tied-by-copy",
        "lazy_mask",
        "no-grad-copy",
        (
            "        self.head.weight = self.transformer.tok.weight\n",
            "        with torch.no_grad():\n            self.head.weight.copy_(self.transformer.tok.weight)\n",
        ),
    ),
    mutant("embedding-scaled", "separate_qkv", "ten", ("x = self.tok_emb(idx) +", "x = 10 * self.tok_emb(idx) +")),
    mutant("embedding-scaled", "additive_mask", "half", ("self.d(tok + self", "self.d(0.5 * tok + self")),
    mutant(
        "head-bias",
        "head_list",
        "default",
        ("nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)", "nn.Linear(cfg.n_embd, cfg.vocab_size)"),
    ),
    mutant(
        "head-bias",
        "stacked_weights",
        "parameter",
        ("        self.gains =", "        self.b_U = nn.Parameter(torch.zeros(V))\n        self.gains ="),
        ("@ self.W_E.T", "@ self.W_E.T + self.b_U"),
    ),
)

INITIALISATION = (
    mutant("init-default", "separate_qkv", "not-applied", ("        self.apply(self._init)\n", "")),
    mutant(
        "init-default",
        "overengineered",
        "embedding-forgotten",
        (
            "        elif isinstance(module, nn.Embedding):\n"
            "            nn.init.normal_(module.weight, std=self.std)\n",
            "",
        ),
    ),
    mutant(
        "init-default",
        "query_loop",
        "linears-forgotten",
        (
            "        if isinstance(module, (nn.Embedding, nn.Linear)):\n",
            "        if isinstance(module, nn.Embedding):\n",
        ),
    ),
    mutant("init-wrong-std", "overengineered", "0.2", ("std=0.02))", "std=0.2))")),
    mutant(
        "init-wrong-std",
        "stacked_weights",
        "0.1-in-qkv",
        ("torch.empty(L, C, 3 * C).normal_(0, 0.02)", "torch.empty(L, C, 3 * C).normal_(0, 0.1)"),
    ),
    mutant(
        "init-wrong-std",
        "own_layernorm",
        "variance",
        ("torch.randn(n_in, n_out) * 0.02", "torch.randn(n_in, n_out) * 0.02**0.5"),
    ),
    mutant("init-bias", "compact", "default", ("                nn.init.zeros_(m.bias)\n", "                pass\n")),
    mutant(
        "init-bias",
        "stacked_weights",
        "ones",
        ("self.b_1 = nn.Parameter(torch.zeros(L, 4 * C))", "self.b_1 = nn.Parameter(torch.ones(L, 4 * C))"),
    ),
)

NORMS = (
    mutant(
        "norm-post",
        "separate_qkv",
        "sum",
        (
            "x = x + self.attention(self.norm_1(x))\n        return x + self.mlp(self.norm_2(x))",
            "x = self.norm_1(x + self.attention(x))\n        return self.norm_2(x + self.mlp(x))",
        ),
    ),
    mutant("norm-post", "encoder_layer", "norm-first-false", ("norm_first=True", "norm_first=False")),
    mutant(
        "norm-post",
        "overengineered",
        "branch",
        (
            "return x + self.dropout(self.transform(self.norm(x)))",
            "return self.norm(x + self.dropout(self.transform(x)))",
        ),
    ),
    mutant(
        "norm-missing",
        "sequential",
        "ffn",
        (
            "                    nn.LayerNorm(C, bias=b),\n                    nn.Linear(C, 4 * C, bias=b),\n",
            "                    nn.Linear(C, 4 * C, bias=b),\n",
        ),
    ),
    mutant("norm-missing", "head_list", "attention", ("self.attention(self.before_attention(x))", "self.attention(x)")),
    mutant("norm-missing", "einsum_heads", "attention", ("attend(self.norms[2 * i](x))", "attend(x)")),
    mutant(
        "norm-on-stream",
        "lazy_mask",
        "attention",
        ("y = x + self.attn(self.ln1(x))", "x = self.ln1(x)\n        y = x + self.attn(x)"),
    ),
    mutant(
        "norm-on-stream",
        "minus_1e9",
        "both",
        (
            "        residual = x\n        x = self.self_attn(self.norm1(x))\n",
            "        residual = x = self.norm1(x)\n        x = self.self_attn(x)\n",
        ),
        (
            "        residual = x\n        x = self.ffn(self.norm2(x))\n",
            "        residual = x = self.norm2(x)\n        x = self.ffn(x)\n",
        ),
    ),
    mutant("final-norm-missing", "compact", "unused", ("z = self.N[-1](x) @", "z = x @")),
    mutant(
        "final-norm-missing",
        "sequential",
        "absent",
        ("nn.Sequential(*layers, nn.LayerNorm(C, bias=b), head)", "nn.Sequential(*layers, head)"),
    ),
    mutant(
        "final-norm-missing",
        "flat_tokens",
        "dropped",
        ("logits = self.final(flat) @", "self.final(flat)\n        logits = flat @"),
    ),
    mutant(
        "norm-axis",
        "own_layernorm",
        "time",
        ("x.mean(dim=-1, keepdim=True)", "x.mean(dim=1, keepdim=True)"),
        ("centred.square().mean(dim=-1, keepdim=True)", "centred.square().mean(dim=1, keepdim=True)"),
    ),
    mutant(
        "norm-axis",
        "separate_qkv",
        "transposed",
        (
            "x = x + self.attention(self.norm_1(x))",
            "mean, var = x.mean(1, keepdim=True), x.var(1, keepdim=True, unbiased=False)\n"
            "        h = (x - mean) / torch.sqrt(var + 1e-5) * self.norm_1.weight\n"
            "        x = x + self.attention(h if self.norm_1.bias is None else h + self.norm_1.bias)",
        ),
    ),
    mutant(
        "norm-shared",
        "separate_qkv",
        "one",
        ("self.norm_2 = nn.LayerNorm(config.n_embd, bias=config.bias)", "self.norm_2 = self.norm_1"),
    ),
    mutant("norm-shared", "compact", "same-index", ("self.N[2 * i + 1](x)", "self.N[2 * i](x)")),
    mutant(
        "norm-shared",
        "gumbel",
        "unpacked",
        (
            "self.norm_attention, self.norm_mlp = nn.LayerNorm(C, bias=config.bias), nn.LayerNorm(C, bias=config.bias)",
            "self.norm_attention = self.norm_mlp = nn.LayerNorm(C, bias=config.bias)",
        ),
    ),
    mutant(
        "norm-rms",
        "own_layernorm",
        "uncentred",
        (
            "self.gamma * centred * torch.rsqrt(variance + 1e-5)",
            "self.gamma * x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + 1e-5)",
        ),
    ),
    mutant(
        "norm-rms",
        "stacked_weights",
        "std",
        (
            "return F.layer_norm(x, x.shape[-1:], self.gains[i], self.shifts[i] if self.config.bias else None)",
            "y = x / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt() * self.gains[i]\n"
            "        return y + self.shifts[i] if self.config.bias else y",
        ),
    ),
)

RESIDUALS = (
    mutant(
        "residual-missing",
        "separate_qkv",
        "mlp",
        ("return x + self.mlp(self.norm_2(x))", "return self.mlp(self.norm_2(x))"),
    ),
    mutant("residual-missing", "sequential", "wrapper", ("return x + self.inner(x)", "return self.inner(x)")),
    mutant("residual-missing", "flat_tokens", "attention", ("flat = flat + self.attention", "flat = self.attention")),
    mutant(
        "residual-doubled",
        "separate_qkv",
        "twice",
        ("x = x + self.attention(self.norm_1(x))", "x = x + x + self.attention(self.norm_1(x))"),
    ),
    mutant("residual-doubled", "overengineered", "twice", ("return x + self.dropout", "return 2 * x + self.dropout")),
    mutant(
        "residual-doubled",
        "stacked_weights",
        "again",
        (
            "            x = x + self.mlp(self.norm(x, 2 * layer + 1), layer)\n",
            "            x = x + (x + self.mlp(self.norm(x, 2 * layer + 1), layer))\n",
        ),
    ),
    mutant(
        "branches-parallel",
        "separate_qkv",
        "one-line",
        (
            "        x = x + self.attention(self.norm_1(x))\n        return x + self.mlp(self.norm_2(x))",
            "        return x + self.attention(self.norm_1(x)) + self.mlp(self.norm_2(x))",
        ),
    ),
    mutant(
        "branches-parallel",
        "lazy_mask",
        "from-x",
        (
            "return y + F.dropout(self.w2(F.gelu(self.w1(self.ln2(y))))",
            "return y + F.dropout(self.w2(F.gelu(self.w1(self.ln2(x))))",
        ),
    ),
    mutant(
        "branches-parallel",
        "einsum_heads",
        "from-x",
        (
            "            x = x + attend(self.norms[2 * i](x))\n            x = x + think(self.norms[2 * i + 1](x))\n",
            "            x = x + attend(self.norms[2 * i](x)) + think(self.norms[2 * i + 1](x))\n",
        ),
    ),
)

FFN = (
    mutant("activation-missing", "head_list", "absent", ("            nn.GELU(),\n", "")),
    mutant(
        "activation-missing",
        "compact",
        "absent",
        ("F.gelu(self.F[i](self.N[2 * i + 1](x)))", "self.F[i](self.N[2 * i + 1](x))"),
    ),
    mutant(
        "activation-missing",
        "flat_tokens",
        "absent",
        ("F.gelu(self.ups[layer](self.pre_ffn[layer](flat)))", "self.ups[layer](self.pre_ffn[layer](flat))"),
    ),
    mutant("activation-wrong", "separate_qkv", "relu", ("F.gelu(", "F.relu(")),
    mutant("activation-wrong", "encoder_layer", "default-relu", ('                activation="gelu",\n', "")),
    mutant(
        "activation-wrong",
        "position_parameter",
        "sigmoid",
        ("h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))", "h = torch.sigmoid(h)"),
    ),
    mutant("activation-wrong", "own_layernorm", "not-erf", ("torch.erf(x / math.sqrt(2.0))", "torch.erf(x)")),
    mutant(
        "ffn-width",
        "separate_qkv",
        "two",
        ("nn.Linear(config.n_embd, 4 * config.n_embd", "nn.Linear(config.n_embd, 2 * config.n_embd"),
        ("nn.Linear(4 * config.n_embd, config.n_embd", "nn.Linear(2 * config.n_embd, config.n_embd"),
    ),
    mutant(
        "ffn-width",
        "encoder_layer",
        "default-2048",
        ("                4 * config.n_embd,\n", "                2048,\n"),
    ),
    mutant("ffn-width", "overengineered", "three", ("expansion = 4", "expansion = 3")),
)

STACK = (
    mutant(
        "blocks-shared",
        "mha_module",
        "times",
        (
            "nn.ModuleList([Block(config) for _ in range(config.n_layer)])",
            "nn.ModuleList([Block(config)] * config.n_layer)",
        ),
    ),
    mutant(
        "blocks-shared",
        "stacked_weights",
        "index-0",
        ("attention(self.norm(x, 2 * layer), layer)", "attention(self.norm(x, 0), 0)"),
        ("mlp(self.norm(x, 2 * layer + 1), layer)", "mlp(self.norm(x, 1), 0)"),
    ),
    mutant(
        "blocks-shared",
        "additive_mask",
        "same",
        (
            "        for _ in range(c.n_layer):\n            self.h.append(Blk(c))\n",
            "        blk = Blk(c)\n        for _ in range(c.n_layer):\n            self.h.append(blk)\n",
        ),
    ),
    mutant(
        "blocks-unregistered",
        "query_loop",
        "list",
        (
            "nn.ModuleList([Block(config) for _ in range(config.n_layer)])",
            "[Block(config) for _ in range(config.n_layer)]",
        ),
    ),
    mutant("blocks-unregistered", "additive_mask", "list", ("self.h = nn.ModuleList()", "self.h = []")),
    mutant(
        "blocks-unregistered",
        "gumbel",
        "tuple",
        (
            "nn.ModuleList(Layer(config) for _ in range(config.n_layer))",
            "tuple(Layer(config) for _ in range(config.n_layer))",
        ),
    ),
    mutant("blocks-skipped", "separate_qkv", "slice", ("for layer in self.layers:", "for layer in self.layers[1:]:")),
    mutant(
        "blocks-skipped",
        "compact",
        "range",
        (
            "        for i in range(self.c.n_layer):\n            q, k",
            "        for i in range(self.c.n_layer - 1):\n            q, k",
        ),
    ),
    mutant(
        "blocks-skipped",
        "lazy_mask",
        "overwritten",
        (
            "            x = block(x)\n        logits = self.head(self.transformer.norm(x))",
            "            y = block(x)\n        logits = self.head(self.transformer.norm(y))",
        ),
    ),
)

LOSSES = (
    mutant(
        "loss-shifted-twice",
        "separate_qkv",
        "sliced",
        (
            "logits.view(-1, logits.size(-1)), targets.reshape(-1)",
            "logits[:, :-1].reshape(-1, logits.size(-1)), targets[:, 1:].reshape(-1)",
        ),
    ),
    mutant(
        "loss-shifted-twice",
        "log_space",
        "sliced",
        ("right[counted]", "right[counted]")
        if False
        else (
            "        counted = targets.ne(-1)\n",
            "        logits_all, logits, targets = logits, logits[:, :-1], targets[:, 1:]\n"
            "        counted = targets.ne(-1)\n",
        ),
        ("return logits, -(right", "return logits_all, -(right"),
    ),
    mutant(
        "loss-on-inputs", "compact", "idx", ("z.flatten(0, 1), targets.flatten()", "z.flatten(0, 1), idx.flatten()")
    ),
    mutant(
        "loss-on-inputs",
        "kvq_order",
        "idx",
        ("targets.reshape(-1), ignore_index=-1", "idx.reshape(-1), ignore_index=-1"),
    ),
    mutant("loss-ignore-index", "overengineered", "default", ("ignore_index=-1, ", "")),
    mutant(
        "loss-ignore-index", "own_layernorm", "all-counted", ("counted = targets != -1", "counted = targets == targets")
    ),
    mutant("loss-ignore-index", "mha_module", "default", (", ignore_index=-1", "")),
    mutant(
        "loss-after-softmax",
        "head_list",
        "softmax",
        ("logits.reshape(B * T, -1), targets", "logits.softmax(-1).reshape(B * T, -1), targets"),
    ),
    mutant(
        "loss-after-softmax",
        "kvq_order",
        "twice",
        ("F.log_softmax(logits, dim=-1)", "F.log_softmax(F.softmax(logits, dim=-1), dim=-1)"),
    ),
    mutant("loss-reduction", "compact", "sum", ("ignore_index=-1)", 'ignore_index=-1, reduction="sum")')),
    mutant("loss-reduction", "own_layernorm", "all", ("/ counted.sum()", "/ targets.numel()")),
    mutant(
        "loss-layout",
        "einsum_heads",
        "reshape",
        (
            "cross_entropy(logits.permute(0, 2, 1), targets,",
            "cross_entropy(logits.reshape(len(logits), -1, T), targets,",
        ),
    ),
    mutant("loss-layout", "flat_tokens", "targets-t", ("targets.reshape(-1), ignore", "targets.T.reshape(-1), ignore")),
    mutant(
        "loss-detached",
        "log_space",
        "detached",
        ("logits.log_softmax(-1).gather(2", "logits.detach().log_softmax(-1).gather(2"),
    ),
    mutant(
        "loss-detached",
        "head_list",
        "no-grad",
        ("        return logits, F.cross", "        with torch.no_grad():\n            return logits, F.cross"),
    ),
)

RESULTS = (
    mutant(
        "logits-shape",
        "separate_qkv",
        "flat",
        (
            "            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets",
            "            logits = logits.view(-1, logits.size(-1))\n            loss = F.cross_entropy(logits, targets",
        ),
    ),
    mutant(
        "logits-shape",
        "time_first",
        "time-first",
        (".transpose(0, 1)  # (B, T, V)\n", "\n"),
        ("targets.reshape(-1), ignore", "targets.T.reshape(-1), ignore"),
    ),
    mutant(
        "logits-are-probabilities",
        "head_list",
        "softmax",
        ("        return logits, F.cross_entropy", "        return logits.softmax(-1), F.cross_entropy"),
        ("            return logits, None\n", "            return logits.softmax(-1), None\n"),
    ),
    mutant(
        "logits-are-probabilities",
        "kvq_order",
        "softmax",
        ("        return logits, loss\n", "        return F.softmax(logits, dim=-1), loss\n"),
    ),
    mutant(
        "returns-wrong",
        "compact",
        "list",
        ("return z, None if targets is None else F", "return z if targets is None else F"),
    ),
    mutant(
        "returns-wrong",
        "separate_qkv",
        "dict",
        ("        return logits, loss\n", '        return {"logits": logits, "loss": loss}\n'),
        ("logits, _ = self(context)", 'logits = self(context)["logits"]'),
    ),
)

DROPOUT = (
    mutant("dropout-in-eval", "sdpa", "kernel", ("p = self.p if self.training else 0.0", "p = self.p")),
    mutant(
        "dropout-in-eval",
        "exponential_race",
        "functional",
        ("        return F.dropout(x, self.p, self.training)\n", "        return F.dropout(x, self.p)\n"),
    ),
    mutant("dropout-in-eval", "own_layernorm", "own", ("if not self.training or self.p == 0.0:", "if self.p == 0.0:")),
    mutant(
        "dropout-missing",
        "gumbel",
        "zero",
        (
            "        self.p = config.dropout\n\n    def forward(self, x):\n        C =",
            "        self.p = 0.0\n\n    def forward(self, x):\n        C =",
        ),
        (
            "        self.p = config.dropout\n\n    def forward(self, x):\n        x = x +",
            "        self.p = 0.0\n\n    def forward(self, x):\n        x = x +",
        ),
        ("F.dropout(x, self.config.dropout, self.training)", "F.dropout(x, 0.0, self.training)"),
    ),
    mutant(
        "dropout-missing",
        "query_loop",
        "unused",
        ("self.dropout(scores.softmax(dim=1))", "scores.softmax(dim=1)"),
        ("self.dropout(self.result(y))", "self.result(y)"),
        ("self.dropout(self.second(F", "(self.second(F"),
        ("self.dropout(self.tok(idx) +", "(self.tok(idx) +"),
    ),
    mutant(
        "dropout-misplaced",
        "separate_qkv",
        "before-softmax",
        ("self.weights_dropout(att.softmax(dim=-1))", "att.softmax(dim=-1)"),
        ("        att = att.masked_fill(", "        att = self.weights_dropout(att)\n        att = att.masked_fill("),
    ),
    mutant(
        "dropout-misplaced",
        "overengineered",
        "stream",
        (
            "return x + self.dropout(self.transform(self.norm(x)))",
            "return self.dropout(x + self.transform(self.norm(x)))",
        ),
    ),
)

BATCH = (
    mutant("batch-leak", "time_first", "view", ("time = idx.t()", "time = idx.reshape(idx.size(1), idx.size(0))")),
    mutant(
        "batch-leak",
        "separate_qkv",
        "first-row-only",
        ("        y = (att @ v).transpose", "        y = (att[:1] @ v).transpose"),
    ),
)

CONTRACT = (
    mutant(
        "heads-not-divisible",
        "separate_qkv",
        "inner",
        (
            '        assert config.n_embd % config.n_head == 0, "n_head must divide n_embd"\n',
            "        inner = config.n_head * (config.n_embd // config.n_head)\n",
        ),
        *(
            (f"self.{n} = nn.Linear(config.n_embd, config.n_embd,", f"self.{n} = nn.Linear(config.n_embd, inner,")
            for n in ("query", "key", "value")
        ),
        ("self.proj = nn.Linear(config.n_embd, config.n_embd,", "self.proj = nn.Linear(inner, config.n_embd,"),
        (".contiguous().view(B, T, C)", ".flatten(2)"),
    ),
    mutant(
        "heads-not-divisible",
        "query_loop",
        "inner",
        ("assert self.d_head * self.n_head == config.n_embd", "inner = self.d_head * self.n_head"),
        *(
            (f"self.{n} = nn.Linear(config.n_embd, config.n_embd,", f"self.{n} = nn.Linear(config.n_embd, inner,")
            for n in ("query", "key", "value")
        ),
        ("self.result = nn.Linear(config.n_embd, config.n_embd,", "self.result = nn.Linear(inner, config.n_embd,"),
        ("reshape(B, T, C)", "reshape(B, T, -1)"),
    ),
    mutant(
        "context-unchecked",
        "separate_qkv",
        "modulo",
        ('        assert self.config.block_size >= T, f"{T} tokens do not fit into {self.config.block_size}"\n', ""),
        (
            "self.pos_emb(torch.arange(T, device=idx.device))",
            "self.pos_emb(torch.arange(T, device=idx.device) % self.config.block_size)",
        ),
        ("~self.tril[:T, :T]", "torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)"),
    ),
    mutant(
        "context-unchecked",
        "head_list",
        "clamp",
        (
            "        if self.cfg.block_size < T:\n"
            '            raise ValueError(f"sequence of {T} tokens, but block_size is {self.cfg.block_size}")\n',
            "",
        ),
        (
            "dtype=torch.long, device=idx.device)",
            "dtype=torch.long, device=idx.device).clamp(max=self.cfg.block_size - 1)",
        ),
    ),
    mutant(
        "bias-ignored",
        "additive_mask",
        "linears",
        ("self.qkv = nn.Linear(embd, embd * 3, bias=bias)", "self.qkv = nn.Linear(embd, embd * 3)"),
        ("self.o = nn.Linear(embd, embd, bias=bias)", "self.o = nn.Linear(embd, embd)"),
    ),
    mutant(
        "bias-ignored",
        "mha_module",
        "mha",
        ("dropout=cfg.dropout, bias=cfg.bias, batch_first=True", "dropout=cfg.dropout, batch_first=True"),
    ),
    mutant(
        "bias-ignored",
        "kv_cache",
        "norms",
        ("self.ln = nn.LayerNorm(config.n_embd, bias=config.bias)", "self.ln = nn.LayerNorm(config.n_embd)"),
    ),
    mutant(
        "device-assumed",
        "head_list",
        "mask",
        ("torch.ones(T, T, device=x.device).triu(diagonal=1)", "torch.ones(T, T).triu(diagonal=1)"),
    ),
    mutant(
        "device-assumed",
        "mha_module",
        "positions",
        ("self.places(torch.arange(t, device=idx.device))", "self.places(torch.arange(t))"),
    ),
    mutant(
        "device-assumed",
        "lazy_mask",
        "attribute",
        ("dtype=torch.bool, device=x.device).triu(1)", "dtype=torch.bool).triu(1)"),
        (" or self._mask.device != x.device", ""),
    ),
    mutant("dtype-nan", "separate_qkv", "minus-1e9", ('float("-inf"))\n        att', "-1e9)\n        att")),
    mutant(
        "dtype-nan",
        "padded_vocab",
        "float-attribute",
        ('self.register_buffer("mask", ', "self.mask = ("),
        ("self.mask[None, None, :T, :T]", "self.mask.to(x.device)[None, None, :T, :T]"),
    ),
    mutant(
        "inplace-breaks-grad",
        "separate_qkv",
        "stream",
        (
            "x = x + self.attention(self.norm_1(x))\n        return x + self.mlp(self.norm_2(x))",
            "x += self.attention(self.norm_1(x))\n        x += self.mlp(self.norm_2(x))\n        return x",
        ),
    ),
    mutant(
        "inplace-breaks-grad",
        "conv_projections",
        "gelu",
        ("self.drop(F.softmax(scores, dim=-1))", "self.drop(F.softmax(scores, dim=-1).mul_(1.0))"),
    ),
    mutant(
        "state-dict-broken",
        "lazy_mask",
        "buffer",
        ("        self._mask = None\n", '        self.register_buffer("_mask", torch.ones(1, 1, dtype=torch.bool))\n'),
        ("self._mask is None or ", ""),
    ),
    mutant(
        "state-dict-broken",
        "head_list",
        "only-trained",
        (
            "    def generate(",
            "    def state_dict(self, *args, **kwargs):\n"
            "        return dict(list(super().state_dict(*args, **kwargs).items())[1:])\n"
            "\n"
            "    def generate(",
        ),
    ),
    mutant(
        "global-state",
        "separate_qkv",
        "seed",
        (
            "        self.config = config\n        self.tok_emb",
            "        torch.manual_seed(42)\n        self.config = config\n        self.tok_emb",
        ),
    ),
    mutant(
        "global-state",
        "compact",
        "seed-in-generate",
        ("        mode = self.training\n", "        torch.manual_seed(0)\n        mode = self.training\n"),
    ),
)

GENERATION = (
    mutant(
        "generate-no-crop",
        "separate_qkv",
        "whole",
        (
            "context = idx if idx.size(1) <= self.config.block_size else idx[:, -self.config.block_size :]",
            "context = idx",
        ),
    ),
    mutant(
        "generate-no-crop",
        "einsum_heads",
        "whole",
        ("torch.stack(tokens[-self.c.block_size :], dim=1)", "torch.stack(tokens, dim=1)"),
    ),
    mutant(
        "generate-wrong-window",
        "head_list",
        "first",
        ("out[:, -self.cfg.block_size :]", "out[:, : self.cfg.block_size]"),
    ),
    mutant("generate-wrong-window", "compact", "last", ("idx[:, -self.c.block_size :]", "idx[:, -1:]")),
    mutant(
        "generate-wrong-window",
        "kv_cache",
        "short",
        (
            "past, fresh = None, idx[:, -self.config.block_size :]  # positions have moved: start afresh",
            "past, fresh = None, idx[:, -1:]",
        ),
    ),
    mutant(
        "generate-wrong-position", "separate_qkv", "first", ("logits = logits[:, -1, :]", "logits = logits[:, 0, :]")
    ),
    mutant("generate-wrong-position", "functional_linear", "mean", ("lambda x: x)[:, -1]", "lambda x: x).mean(1)")),
    mutant(
        "generate-temperature",
        "separate_qkv",
        "times",
        ("logits = logits / temperature", "logits = logits * temperature"),
    ),
    mutant("generate-temperature", "gumbel", "noise", ("z = z / temperature + noise", "z = z + noise")),
    mutant("generate-temperature", "query_loop", "squared", ("(logits / temperature)", "(logits / temperature**2)")),
    mutant(
        "generate-temperature-zero",
        "sequential",
        "divided",
        ("        if temperature == 0:\n            return logits.argmax(-1, keepdim=True)\n", ""),
    ),
    mutant(
        "generate-temperature-zero",
        "functional_linear",
        "divided",
        (
            "                if temperature == 0:\n"
            "                    idx = torch.cat([idx, logits.argmax(-1)[:, None]], -1)\n"
            "                    continue\n",
            "",
        ),
    ),
    mutant(
        "generate-top-k",
        "separate_qkv",
        "drops-kth",
        ("logits[logits < best[:, [-1]]]", "logits[logits <= best[:, [-1]]]"),
    ),
    mutant(
        "generate-top-k",
        "head_list",
        "zeros",
        ("torch.full_like(logits, -math.inf).scatter", "torch.zeros_like(logits).scatter"),
    ),
    mutant(
        "generate-top-k",
        "sequential",
        "smallest-kept",
        ("logits.topk(drop, largest=False)", "logits.topk(drop, largest=True)"),
    ),
    mutant("generate-top-k", "kvq_order", "one-more", ("values[:, :k]", "values[:, : k + 1]")),
    mutant(
        "generate-top-k",
        "one_hot",
        "ignored",
        (
            "if top_k is not None and top_k < scores.size(-1):",
            "if top_k is not None and top_k > scores.size(-1) and False:",
        ),
    ),
    mutant(
        "generate-top-k-overflow",
        "separate_qkv",
        "topk",
        ("torch.topk(logits, min(top_k, logits.size(-1)))", "torch.topk(logits, top_k)"),
    ),
    mutant(
        "generate-top-k-overflow",
        "own_layernorm",
        "index",
        ("if top_k is not None and top_k < probs.size(-1):", "if top_k is not None:"),
    ),
    mutant(
        "generate-not-random",
        "separate_qkv",
        "argmax",
        (
            "torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)",
            "F.softmax(logits, dim=-1).argmax(dim=-1, keepdim=True)",
        ),
    ),
    mutant(
        "generate-not-random",
        "exponential_race",
        "no-clock",
        ("new = (probs / clocks).argmax(-1, keepdim=True)", "new = probs.argmax(-1, keepdim=True)"),
    ),
    mutant(
        "generate-batch",
        "gumbel",
        "same-noise-row",
        ("z.argmax(1, keepdim=True)], 1)", "z.argmax(1, keepdim=True)[:1].expand(len(idx), 1)], 1)"),
    ),
    mutant(
        "generate-batch",
        "separate_qkv",
        "row-0",
        ("logits = logits[:, -1, :]", "logits = logits[:1, -1, :].repeat(idx.size(0), 1)"),
    ),
    mutant(
        "generate-length",
        "head_list",
        "total",
        ("idx.size(1) + max_new_tokens", "max(max_new_tokens, idx.size(1) + 1)"),
    ),
    mutant(
        "generate-length",
        "einsum_heads",
        "new-only",
        ("return torch.stack(tokens, dim=1)", "return torch.stack(tokens[idx.size(1) :], dim=1)"),
    ),
    mutant(
        "generate-mutates-prompt",
        "own_layernorm",
        "first-token",
        ("result = idx.detach().clone()", "result = idx"),
        (
            "        self.train(was)\n",
            "        self.train(was)\n        idx[:, -1] = result[:, -1]\n        result[:, 0] = result[:, 0]\n",
        ),
    ),
    mutant(
        "generate-mutates-prompt",
        "interleaved_h3d",
        "roll",
        ("        return buffer\n", "        idx.copy_(buffer[:, -idx.size(1) :])\n        return buffer\n"),
    ),
    mutant("generate-mode", "separate_qkv", "eval", ("        self.train(was_training)\n", "")),
    mutant(
        "generate-mode",
        "query_loop",
        "train",
        ("        if training:\n            self.train()\n", "        self.train()\n"),
    ),
    mutant("generate-grad", "separate_qkv", "none", ("    @torch.no_grad()\n", "")),
    mutant("generate-grad", "head_list", "enabled", ("with torch.no_grad():", "with torch.enable_grad():")),
)

OPTIMISER_METHOD = """\
    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        matrices = [p for p in self.parameters() if p.dim() > 1]
        vectors = [p for p in self.parameters() if p.dim() <= 1]
        groups = [dict(params=matrices, weight_decay=weight_decay), dict(params=vectors, weight_decay=0.0)]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas)

    def generate("""


def optimiser(*edit: Edit) -> Edit:
    """The edit that gives head_list a configure_optimizers, itself edited."""
    return "    def generate(", edited(OPTIMISER_METHOD, edit)


OPTIMISER = (
    mutant(
        "decay-on-norms",
        "head_list",
        "flat",
        optimiser(("(groups, lr", "(self.parameters(), weight_decay=weight_decay, lr")),
    ),
    mutant(
        "decay-on-norms",
        "head_list",
        "same-decay",
        optimiser(("vectors, weight_decay=0.0", "vectors, weight_decay=weight_decay")),
    ),
    mutant(
        "decay-missing", "head_list", "default", optimiser(("(groups, lr", "(self.parameters(), weight_decay=0.0, lr"))
    ),
    mutant("parameters-missing", "head_list", "vectors", optimiser((", dict(params=vectors, weight_decay=0.0)]", "]"))),
    mutant(
        "parameters-missing",
        "stacked_weights",
        "plain-tensor",
        (
            "self.W_P = nn.Parameter(torch.empty(N, C).normal_(0, 0.02))",
            'self.register_buffer("W_P", torch.empty(N, C).normal_(0, 0.02))',
        ),
    ),
    mutant(
        "parameters-missing",
        "separate_qkv",
        "frozen",
        (
            "        self.apply(self._init)\n",
            "        self.apply(self._init)\n        self.pos_emb.weight.requires_grad_(False)\n",
        ),
    ),
)

MUTANTS = (
    *MASKING,
    *SCALING,
    *SOFTMAX_AXIS,
    *HEADS,
    *POSITION,
    *EMBEDDING,
    *INITIALISATION,
    *NORMS,
    *RESIDUALS,
    *FFN,
    *STACK,
    *LOSSES,
    *RESULTS,
    *DROPOUT,
    *BATCH,
    *CONTRACT,
    *GENERATION,
    *OPTIMISER,
)
