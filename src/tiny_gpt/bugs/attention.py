"""Bugs inside attention: the mask, the scale, the softmax, the heads."""

from .planting import OPEN, UNCACHED, Bug, planting, swap

PLAIN = (OPEN, UNCACHED)

MASK = "    mask = torch.full((T, S), -math.inf, dtype=q.dtype, device=q.device).triu(1 + S - T)  # (T, S)\n"
SCORES = "    scores = q @ k.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, S)\n"
MASKED = "    scores = scores + mask  # (B, H, T, S), the mask broadcast over B and H\n"
SOFTMAX = "    weights = F.softmax(scores, dim=-1)  # (B, H, T, S), each row a distribution over the past\n"
KERNEL = (
    "            out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=T == S)  # (B, H, T, D)\n"
)
SPLIT = """\
        qkv = self.qkv(x).view(B, T, 3, self.n_head, D)  # (B, T, 3, H, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (3, B, H, T, D), unpacked into three (B, H, T, D)
"""
VIEW = "        qkv = self.qkv(x).view(B, T, 3, self.n_head, D)  # (B, T, 3, H, D)\n"
UNPACK = "        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (3, B, H, T, D), unpacked into three (B, H, T, D)\n"
MERGE = "        out = out.transpose(1, 2).reshape(B, T, C)  # (B, T, H, D) -> (B, T, C)\n"
FUSED = "        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)\n"
OUT_PROJ = "        self.out_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)\n"
USE_OUT_PROJ = "        out = self.out_drop(self.out_proj(out))  # (B, T, C)\n"
FUTURE = "torch.ones(T, S, dtype=torch.bool, device=q.device).triu(1)"


def kernel(arguments: str) -> str:
    """The call of the fused kernel with other arguments."""
    return f"            out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, {arguments})\n"


MASKING = (
    Bug(
        "mask-missing",
        "masking",
        "No causal mask: every position reads the future",
        "Loss falls to 0.04 within minutes, far below anything honest; samples are endless newlines.",
        "03_causal_mask#sec-why-causal",
        "common",
        ("entrenar#310",),
        (
            planting("not-added", "The mask is made and never added to the scores.", (MASKED, ""), on=PLAIN),
            planting(
                "kernel-not-causal",
                "The fused kernel is not told that it is causal.",
                (KERNEL, kernel("is_causal=False")),
                on=(UNCACHED,),
            ),
            planting(
                "result-dropped",
                "masked_fill returns a new tensor, and nobody keeps it.",
                (MASKED, "    scores.masked_fill(mask < 0, -math.inf)\n"),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "mask-excludes-self",
        "masking",
        "The diagonal is masked too: a position cannot read itself",
        "The first loss is NaN: row 0 has nothing left to read.",
        "03_causal_mask#sec-off-by-one",
        "common",
        ("pbloem/former#10",),
        (
            planting(
                "triu-0",
                "triu(0) in place of triu(1).",
                swap(MASK, "triu(1 + S - T)", "triu(S - T)"),
                on=PLAIN,
            ),
            planting(
                "tril-minus-1",
                "tril(-1) says who may be read, and the fill is finite, so that row 0 reads everything.",
                (
                    MASKED,
                    "    seen = torch.ones(T, S, device=q.device).tril(-1)\n"
                    "    scores = scores.masked_fill(seen == 0, torch.finfo(q.dtype).min)\n",
                ),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "mask-sees-next",
        "masking",
        "One diagonal too many: each position reads the next one",
        "Loss far below the right one (0.06), and 8.4 when the future really is not there.",
        "03_causal_mask#sec-off-by-one",
        "common",
        ("pbloem/former#10",),
        (
            planting(
                "triu-2",
                "triu(2) in place of triu(1).",
                swap(MASK, "triu(1 + S - T)", "triu(2 + S - T)"),
                on=PLAIN,
            ),
            planting(
                "kernel-tril-1",
                "A boolean mask for the kernel, with tril(1).",
                (KERNEL, kernel("attn_mask=torch.ones(T, S, dtype=torch.bool, device=q.device).tril(1)")),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "mask-reversed",
        "masking",
        "The mask is upside down: it hides the past and shows the future",
        "Loss falls far below the right one; samples are noise. With a boolean mask it may be NaN.",
        "03_causal_mask#sec-mask-gallery",
        "very common",
        ("rasbt/LLMs-from-scratch#1061", "transformers PR#38094"),
        (
            planting(
                "tril",
                "tril where triu was meant.",
                swap(MASK, "triu(1 + S - T)", "tril(-1)"),
                on=PLAIN,
            ),
            planting(
                "kernel-inverted",
                "The kernel's boolean mask says who may be read; this one says who may not.",
                (KERNEL, kernel(f"attn_mask={FUTURE}")),
                on=(UNCACHED,),
            ),
            planting(
                "transposed", "The mask is added transposed.", (MASKED, "    scores = scores + mask.mT\n"), on=PLAIN
            ),
        ),
    ),
    Bug(
        "mask-after-softmax",
        "masking",
        "The mask comes after the softmax: rows no longer sum to one, and know the future",
        "Loss 0.61 where 2.1 is right, 4.7 when the future really is not there.",
        "03_causal_mask#sec-after-softmax",
        "common",
        ("timm PR#2236",),
        (
            planting(
                "zeroed",
                "The weights of later positions are set to 0 after the softmax.",
                (MASKED, ""),
                (SOFTMAX, SOFTMAX + "    weights = weights.masked_fill(mask < 0, 0.0)\n"),
                on=PLAIN,
            ),
            planting(
                "times-tril",
                "The softmax's result is multiplied by a lower triangle.",
                (MASKED + SOFTMAX, "    weights = F.softmax(scores, dim=-1).tril(S - T)\n"),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "mask-soft",
        "masking",
        "Masked scores are not negative enough: the future comes through, quietly",
        "With 0 or 1e-9 in place of −∞: loss 0.55, and 4.4 honestly. With −10 training collapses late.",
        "03_causal_mask#sec-how-negative",
        "common",
        ("gluonts PR#1401", "minGPT#75", "cs249r_book PR#1785", "pytorch#21518"),
        (
            planting(
                "minus-ten",
                "Masked scores become −10.",
                (MASKED, "    scores = scores.masked_fill(mask < 0, -10.0)\n"),
                on=PLAIN,
            ),
            planting(
                "times-mask",
                "The scores are multiplied by a lower triangle: masked scores become 0.",
                (MASKED, "    scores = scores.tril(S - T)\n"),
                on=PLAIN,
            ),
            planting(
                "binary-added",
                "A mask of zeros and ones is added to the scores.",
                (MASKED, "    scores = scores + (mask == 0)\n"),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "mask-stale",
        "masking",
        "The mask has the size of another call, not of this one",
        "One length works and another fails: a size that does not match, often first in generate.",
        "03_causal_mask#sec-mask-shape",
        "common",
        ("nanoGPT#473", "transformers#28215", "OpenNMT-py PR#240"),
        (
            planting(
                "kept-from-first-call",
                "The mask of the first call is kept for all later ones.",
                (
                    KERNEL,
                    '            if not hasattr(self, "mask"):\n'
                    "                self.mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril()\n"
                    + kernel("attn_mask=self.mask"),
                ),
                on=(UNCACHED,),
            ),
            planting(
                "not-cropped",
                "A mask for the whole context, never cut to the T of this call.",
                (
                    OUT_PROJ,
                    OUT_PROJ + "        N = config.block_size\n"
                    "        mask = torch.ones(N, N, dtype=torch.bool).tril()\n"
                    '        self.register_buffer("mask", mask, persistent=False)\n',
                ),
                (KERNEL, kernel("attn_mask=self.mask")),
                on=(UNCACHED,),
            ),
            planting(
                "hard-coded",
                "The mask is made for 8 positions, whatever block_size says; later ones see everything.",
                (
                    MASK,
                    "    mask = torch.zeros(T, S, dtype=q.dtype, device=q.device)\n"
                    "    mask[:8, :8] = torch.full((8, 8), -math.inf).triu(1)[:T, :S]\n",
                ),
                on=PLAIN,
            ),
        ),
    ),
)

SCALING = (
    Bug(
        "scale-missing",
        "scaling",
        "Scores are not divided by √D",
        "Nothing: the loss is as good or better (2.02 to 2.06 against 2.12).",
        "02_scores_and_scaling#sec-raw-scaled",
        "very common",
        ("ethen8181/machine-learning#13", "karpathy/ng-video-lecture PR#6"),
        (
            planting("no-division", "q @ k.mT and nothing else.", swap(SCORES, " / math.sqrt(D)", ""), on=PLAIN),
            planting(
                "kernel-scale-one",
                "The kernel is told scale=1.",
                (KERNEL, kernel("is_causal=T == S, scale=1.0")),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "scale-by-width",
        "scaling",
        "Scores are divided by √C, the model's width, and not the head's",
        "Nothing: a validation loss of 2.15, within what seeds do.",
        "02_scores_and_scaling#sec-wrong-scales",
        "very common",
        ("karpathy/ng-video-lecture PR#6",),
        (
            planting(
                "sqrt-n-embd",
                "√(H·D) under the scores.",
                swap(SCORES, "math.sqrt(D)", "math.sqrt(q.size(1) * D)"),
                on=PLAIN,
            ),
            planting(
                "kernel-scale",
                "The kernel is told scale=C**-0.5.",
                (KERNEL, kernel("is_causal=T == S, scale=C**-0.5")),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "scale-wrong",
        "scaling",
        "Scores are scaled by something else than 1/√D",
        "Nothing at this size; multiplied instead of divided, attention is nearly one-hot.",
        "02_scores_and_scaling#sec-wrong-scales",
        "common",
        ("ethen8181/machine-learning#13", "perceiver-io#9"),
        (
            planting("divided-by-D", "Divided by D, the root forgotten.", swap(SCORES, "math.sqrt(D)", "D"), on=PLAIN),
            planting("multiplied", "Multiplied by √D.", swap(SCORES, "/ math", "* math"), on=PLAIN),
            planting(
                "twice",
                "The query is divided by √D, and the kernel divides again.",
                (KERNEL, "            q = q / math.sqrt(D)\n" + KERNEL),
                on=(UNCACHED,),
            ),
        ),
    ),
)

SOFTMAX_AXIS = (
    Bug(
        "softmax-axis",
        "softmax",
        "The softmax runs over the wrong axis",
        "Over queries: loss 0.13, and 3.3 honestly. Over heads or batch: NaN.",
        "04_attention_head#sec-four-lines",
        "very common",
        ("vision-transformer#1", "llms-from-scratch-rs PR#30"),
        (
            planting("over-queries", "dim=-2 in place of dim=-1.", swap(SOFTMAX, "dim=-1", "dim=-2"), on=PLAIN),
            planting("over-heads", "dim=1: the heads compete.", swap(SOFTMAX, "dim=-1", "dim=1"), on=PLAIN),
            planting("over-batch", "dim=0: the rows of the batch compete.", swap(SOFTMAX, "dim=-1", "dim=0"), on=PLAIN),
        ),
    ),
)

HEADS = (
    Bug(
        "heads-split-mixed",
        "heads",
        "Heads are split by view alone: positions and channels are mixed",
        "Loss 1.00, and 3.96 honestly; it looks like a missing mask.",
        "05_many_heads#sec-reshape",
        "very common",
        ("FuxiCTR#30",),
        (
            planting(
                "view",
                "(B, T, C) is viewed as (B, H, T, D).",
                (
                    SPLIT,
                    "        q, k, v = self.qkv(x).chunk(3, dim=-1)  # (B, T, C) each\n"
                    "        q, k, v = (part.reshape(B, self.n_head, T, D) for part in (q, k, v))\n",
                ),
                on=(UNCACHED,),
            ),
            planting(
                "view-before-chunk",
                "The fused projection is viewed as (B, H, T, 3D) and then cut in three.",
                (SPLIT, "        q, k, v = self.qkv(x).view(B, self.n_head, T, 3 * D).chunk(3, dim=-1)\n"),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "heads-merge-mixed",
        "heads",
        "Heads are merged without swapping head and time back",
        "Loss 1.23, and 2.50 honestly; it looks like a missing mask.",
        "05_many_heads#sec-three-wrong",
        "very common",
        ("jsbaan/transformer-from-scratch PR#6", "ajhalthor/Transformer-Neural-Network#8"),
        (
            planting(
                "no-transpose",
                "(B, H, T, D) is reshaped straight to (B, T, C).",
                (MERGE, "        out = out.reshape(B, T, C)\n"),
                on=(UNCACHED,),
            ),
            planting(
                "wrong-transpose",
                "The last two axes are swapped, not head and time.",
                (MERGE, "        out = out.transpose(2, 3).reshape(B, T, C)\n"),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "heads-ignored",
        "heads",
        "n_head is ignored: one wide head does everything",
        "Nothing: a validation loss of 2.11.",
        "05_many_heads#sec-why-many",
        "seen",
        (),
        (
            planting(
                "one-head",
                "The number of heads is 1, whatever the config says.",
                ("        self.n_head = config.n_head\n", "        self.n_head = 1\n"),
                on=(UNCACHED,),
            ),
            planting(
                "never-split",
                "Queries, keys and values stay (B, T, C); only the scale knows the head width.",
                (
                    SPLIT,
                    "        q, k, v = (part.unsqueeze(1) for part in self.qkv(x).chunk(3, dim=-1))  # (B, 1, T, C)\n",
                ),
                (KERNEL, kernel("is_causal=T == S, scale=D**-0.5")),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "heads-share-weights",
        "heads",
        "All heads share one projection, and so compute the same",
        "A validation loss of 2.25 in place of 2.12, and fewer parameters.",
        "05_many_heads#sec-list-of-heads",
        "seen",
        ("episodic-transformer-memory-ppo PR#22",),
        (
            planting(
                "one-projection",
                "One projection to D channels serves every head.",
                (
                    FUSED,
                    "        width = config.n_embd // config.n_head\n"
                    "        self.qkv = nn.Linear(config.n_embd, 3 * width, bias=config.bias)\n",
                ),
                (VIEW, "        qkv = self.qkv(x).view(B, T, 3, 1, D).expand(B, T, 3, self.n_head, D)\n"),
                on=(UNCACHED,),
            ),
            planting(
                "first-head-only",
                "Every head reads the first head's slice.",
                (VIEW, VIEW + "        qkv = qkv[:, :, :, :1].expand(B, T, 3, self.n_head, D)\n"),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "qkv-shared",
        "heads",
        "Queries, keys or values come from the same matrix",
        "A position attends mostly to itself; a slightly worse loss, and fewer parameters that learn.",
        "04_attention_head#sec-three-roles",
        "seen",
        (),
        (
            planting(
                "keys-are-queries", "The keys are the queries.", (UNPACK, UNPACK + "        k = q\n"), on=(UNCACHED,)
            ),
            planting(
                "one-for-all",
                "One matrix makes queries, keys and values.",
                swap(FUSED, "3 * ", ""),
                (VIEW, "        qkv = self.qkv(x).view(B, T, 1, self.n_head, D).expand(B, T, 3, self.n_head, D)\n"),
                on=(UNCACHED,),
            ),
            planting(
                "values-are-keys", "The values are the keys.", (UNPACK, UNPACK + "        v = k\n"), on=(UNCACHED,)
            ),
        ),
    ),
    Bug(
        "out-projection-missing",
        "heads",
        "No output projection: heads never mix",
        "A validation loss of 2.15, near enough to the right 2.12.",
        "05_many_heads#sec-output-projection",
        "seen",
        ("d2l-en PR#439",),
        (
            planting(
                "unused", "out_proj exists and is not called.", (USE_OUT_PROJ, "        out = self.out_drop(out)\n")
            ),
            planting(
                "absent",
                "There is no such layer.",
                (OUT_PROJ, ""),
                (USE_OUT_PROJ, "        out = self.out_drop(out)\n"),
                ("(block.attn.out_proj, block.mlp.fc2)", "(block.mlp.fc2,)"),
            ),
        ),
    ),
)

BUGS = (*MASKING, *SCALING, *SOFTMAX_AXIS, *HEADS)
