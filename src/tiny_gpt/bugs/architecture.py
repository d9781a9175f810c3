"""Bugs in how the parts are put together: positions, embedding and head, initial weights, norms, residuals, stack."""

from .planting import UNCACHED, Bug, Edit, planting, swap

POSITIONS = "        pos = torch.arange(past, past + idx.size(1), device=idx.device)  # (T,)\n"
EMBED = "        x = self.drop(self.wte(idx) + self.wpe(pos))  # (B, T, C): what the token is, plus where it stands\n"
LOOP = """\
        for layer, block in enumerate(self.blocks):
            x = block(x, caches[layer] if caches else None)  # (B, T, C)
"""
UNEMBED = "        return self.lm_head(self.ln_f(x))  # (B, T, V)\n"
WPE = "        self.wpe = nn.Embedding(config.block_size, config.n_embd)\n"
BLOCKS = "        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])\n"
HEAD = "        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)\n"
TIE = "        self.lm_head.weight = self.wte.weight  # one tensor, two uses: reading tokens in and writing them out\n"
APPLY = "        self.apply(self._init_weights)\n"
INIT = "            nn.init.normal_(module.weight, mean=0.0, std=0.02)\n"
ZERO_BIAS = "            nn.init.zeros_(module.bias)\n"
AFTER_INIT = "                nn.init.normal_(proj.weight, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))\n"
ATTEND = "        x = x + self.attn(self.ln1(x), cache)  # (B, T, C): information moves between positions\n"
THINK = "        x = x + self.mlp(self.ln2(x))  # (B, T, C): each position thinks for itself\n"
BLOCK = "class Block(nn.Module):\n"
LN1 = "        self.ln1 = nn.LayerNorm(config.n_embd, bias=config.bias)\n"
LN2 = "        self.ln2 = nn.LayerNorm(config.n_embd, bias=config.bias)\n"
LN_F = "        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)\n"
MLP = "        self.mlp = FFN(config.n_embd, 4 * config.n_embd, config.dropout, config.bias)\n"
GELU = "        self.act = nn.GELU()  # the exact one, x * Phi(x); GPT-2 was trained with its tanh approximation\n"
ACTIVATE = "        x = self.act(self.fc1(x))  # (B, T, 4C)\n"


def own_norm(statistics: str) -> tuple[Edit, ...]:
    """Edits that give the blocks a LayerNorm of the learner's own, whose result comes from ``statistics``."""
    written = f'''\
class LayerNorm(nn.Module):
    """The learner's own LayerNorm."""

    def __init__(self, width: int, bias: bool):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
{statistics}
        x = x * self.weight
        return x if self.bias is None else x + self.bias


'''
    return (BLOCK, written + BLOCK), *(swap(norm, "nn.LayerNorm", "LayerNorm") for norm in (LN1, LN2, LN_F))


POSITION = (
    Bug(
        "position-missing",
        "positions",
        "The model does not know where a token stands",
        "A validation loss of 2.27 in place of 2.12; word order hardly matters.",
        "08_tiny_gpt#sec-embeddings",
        "common",
        ("d2l-en PR#2121",),
        (
            planting("unused", "The position table exists and is not added.", swap(EMBED, " + self.wpe(pos)", "")),
            planting(
                "sum-dropped",
                "The sum is computed and not kept.",
                (EMBED, "        x = self.wte(idx)\n        x + self.wpe(pos)\n        x = self.drop(x)\n"),
            ),
        ),
    ),
    Bug(
        "position-wrong-axis",
        "positions",
        "Positions are counted along the batch, not along time",
        "A validation loss of 2.30; a row's result depends on which row it is.",
        "08_tiny_gpt#sec-embeddings",
        "common",
        ("influenza_transformer#9",),
        (
            planting(
                "size-0",
                "idx.size(0) in place of idx.size(1).",
                (POSITIONS, "        pos = torch.arange(idx.size(0), device=idx.device)[:, None]  # (B, 1)\n"),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "position-constant",
        "positions",
        "Every position gets the same position vector",
        "A validation loss of 2.27, as without positions.",
        "08_tiny_gpt#sec-embeddings",
        "seen",
        ("d2l-en PR#2121",),
        (
            planting(
                "zeros", "The positions are all 0.", (POSITIONS, POSITIONS + "        pos = torch.zeros_like(pos)\n")
            ),
            planting(
                "first-row",
                "Only the table's first row is added, broadcast over time.",
                swap(EMBED, "self.wpe(pos)", "self.wpe.weight[0]"),
            ),
        ),
    ),
    Bug(
        "position-misplaced",
        "positions",
        "Positions are added, but not where or not as they should be",
        "Nothing loud: a slightly worse loss, or logits that change when the text grows.",
        "08_tiny_gpt#sec-embeddings",
        "rare",
        (),
        (
            planting(
                "after-the-blocks",
                "The position vectors are added after the blocks.",
                (EMBED, "        x = self.drop(self.wte(idx))\n"),
                (LOOP, LOOP + "        x = x + self.wpe(pos)\n"),
            ),
            planting(
                "from-the-end",
                "Positions are counted from the end of the text.",
                (POSITIONS, POSITIONS + "        pos = pos.flip(0)\n"),
                on=(UNCACHED,),
            ),
        ),
    ),
)

EMBEDDING = (
    Bug(
        "untied",
        "embedding and head",
        "The unembedding has weights of its own",
        "C·V parameters more than there should be; the loss is a little better (2.09) if anything.",
        "08_tiny_gpt#sec-tying",
        "very common",
        ("LLMs-from-scratch#822",),
        (
            planting("never-tied", "The line that ties is not there.", (TIE, "")),
            planting(
                "table-made-anew",
                "Tied, and then the table is made a second time.",
                (TIE, TIE + "        self.wte = nn.Embedding(config.vocab_size, config.n_embd)\n"),
            ),
        ),
    ),
    Bug(
        "tied-by-copy",
        "embedding and head",
        "The unembedding is a copy of the table, equal only at the start",
        "At the start all looks tied; after one update the two differ.",
        "08_tiny_gpt#sec-tying",
        "very common",
        ("modded-nanogpt#26",),
        (
            planting(
                "copied",
                "The weights are copied, after the initialisation.",
                (TIE, ""),
                (AFTER_INIT, AFTER_INIT + "        self.lm_head.weight.data.copy_(self.wte.weight.data)\n"),
            ),
            planting(
                "cloned",
                "The head gets a Parameter of its own, cloned from the table.",
                (TIE, ""),
                (
                    AFTER_INIT,
                    AFTER_INIT + "        self.lm_head.weight = nn.Parameter(self.wte.weight.detach().clone())\n",
                ),
            ),
        ),
    ),
    Bug(
        "embedding-scaled",
        "embedding and head",
        "Token vectors are multiplied by a factor that nobody asked for",
        "Positions are drowned, or drown the tokens; training starts slowly.",
        "08_tiny_gpt#sec-embeddings",
        "rare",
        (),
        (
            planting("times-C", "Multiplied by C.", swap(EMBED, "self.wte(idx)", "self.wte(idx) * self.config.n_embd")),
            planting(
                "over-sqrt-C",
                "Divided by √C.",
                swap(EMBED, "self.wte(idx)", "self.wte(idx) / math.sqrt(self.config.n_embd)"),
            ),
        ),
    ),
    Bug(
        "head-bias",
        "embedding and head",
        "The unembedding has a bias",
        "V parameters more; weights from GPT-2 do not fit.",
        "08_tiny_gpt#sec-tying",
        "seen",
        (),
        (
            planting("linear", "bias=True, or left at its default.", swap(HEAD, "bias=False", "bias=True")),
            planting(
                "parameter",
                "A vector of V numbers is added to the logits.",
                (HEAD, HEAD + "        self.out_bias = nn.Parameter(torch.zeros(config.vocab_size))\n"),
                swap(UNEMBED, "(self.ln_f(x))", "(self.ln_f(x)) + self.out_bias"),
            ),
        ),
    ),
)

INITIALISATION = (
    Bug(
        "init-default",
        "initialisation",
        "PyTorch's own initial weights, where 0.02 was asked for",
        "The first loss is 85 (128 wide) where 4.2 is expected.",
        "08_tiny_gpt#sec-initialisation",
        "very common",
        ("xlstm#83",),
        (
            planting("not-applied", "_init_weights is written and never applied.", (APPLY, "")),
            planting(
                "linears-only",
                "Only Linear layers are initialised, and tying then brings the table's N(0, 1) back.",
                (TIE, ""),
                (
                    "        if isinstance(module, nn.Linear | nn.Embedding):\n",
                    "        if isinstance(module, nn.Linear):\n",
                ),
                (AFTER_INIT, AFTER_INIT + TIE),
            ),
        ),
    ),
    Bug(
        "init-wrong-std",
        "initialisation",
        "Weights start with another standard deviation than 0.02",
        "Ten times too large: a first loss far above ln V. Ten times too small: the first steps do nothing.",
        "08_tiny_gpt#sec-initialisation",
        "seen",
        (),
        (
            planting("0.2", "0.2 in place of 0.02.", swap(INIT, "0.02", "0.2")),
            planting("0.002", "0.002 in place of 0.02.", swap(INIT, "0.02", "0.002")),
            planting(
                "kaiming",
                "Kaiming's rule for every matrix.",
                (INIT, "            nn.init.kaiming_normal_(module.weight)\n"),
            ),
        ),
    ),
    Bug(
        "init-bias",
        "initialisation",
        "Biases do not start at zero",
        "Nothing: a first loss that is a little off.",
        "08_tiny_gpt#sec-initialisation",
        "rare",
        (),
        (
            planting("default", "Biases keep PyTorch's uniform numbers.", (ZERO_BIAS, "            pass\n")),
            planting(
                "drawn",
                "Biases are drawn like weights.",
                (ZERO_BIAS, "            nn.init.normal_(module.bias, mean=0.0, std=0.02)\n"),
            ),
        ),
    ),
)

NORMS = (
    Bug(
        "norm-post",
        "norms",
        "The norm stands after the branch, where pre-norm was asked for",
        "Nothing: a validation loss of 2.119 against 2.124. Deep models need a warm-up.",
        "07_block#sec-pre-post",
        "common",
        ("annotated-transformer#1",),
        (
            planting(
                "after-the-sum",
                "The sum is normalised: ln(x + branch(x)).",
                (ATTEND, "        x = self.ln1(x + self.attn(x, cache))\n"),
                (THINK, "        x = self.ln2(x + self.mlp(x))\n"),
            ),
            planting(
                "after-the-branch",
                "The branch's result is normalised: x + ln(branch(x)).",
                (ATTEND, "        x = x + self.ln1(self.attn(x, cache))\n"),
                (THINK, "        x = x + self.ln2(self.mlp(x))\n"),
            ),
        ),
    ),
    Bug(
        "norm-missing",
        "norms",
        "A branch reads the stream unnormalised",
        "Small: training is a little less stable.",
        "07_block#sec-layer-norm",
        "seen",
        (),
        (
            planting("attention", "attn(x) in place of attn(ln1(x)).", swap(ATTEND, "self.ln1(x)", "x")),
            planting("feed-forward", "mlp(x) in place of mlp(ln2(x)).", swap(THINK, "self.ln2(x)", "x")),
            planting(
                "both",
                "Neither branch is normalised, and there are no such layers.",
                (LN1, ""),
                (LN2, ""),
                swap(ATTEND, "self.ln1(x)", "x"),
                swap(THINK, "self.ln2(x)", "x"),
            ),
        ),
    ),
    Bug(
        "norm-on-stream",
        "norms",
        "The residual is taken from the normalised stream, not from the stream",
        "Nothing: a validation loss of 2.122 against 2.124.",
        "07_block#sec-stream",
        "very common",
        ("faster-trajectory-transformer#3", "pytorch#61165"),
        (
            planting(
                "both",
                "x = ln(x), and then x + branch(x), in both halves.",
                (ATTEND, "        x = self.ln1(x)\n        x = x + self.attn(x, cache)\n"),
                (THINK, "        x = self.ln2(x)\n        x = x + self.mlp(x)\n"),
            ),
            planting(
                "feed-forward",
                "Only the feed-forward half.",
                (THINK, "        x = self.ln2(x)\n        x = x + self.mlp(x)\n"),
            ),
        ),
    ),
    Bug(
        "final-norm-missing",
        "norms",
        "The last LayerNorm is missing, or its result is not used",
        "The first loss is slightly off (4.176); a validation loss of 2.116 against 2.124.",
        "08_tiny_gpt#sec-assembly",
        "common",
        ("keys_values PR#141",),
        (
            planting("unused", "lm_head reads the stream itself.", swap(UNEMBED, "self.ln_f(x)", "x")),
            planting(
                "result-dropped",
                "ln_f is called, and its result dropped.",
                (UNEMBED, "        self.ln_f(x)\n        return self.lm_head(x)\n"),
            ),
            planting("absent", "There is no such layer.", (LN_F, ""), swap(UNEMBED, "self.ln_f(x)", "x")),
        ),
    ),
    Bug(
        "norm-axis",
        "norms",
        "LayerNorm's mean and variance are taken over another axis than the channels",
        "Over time: loss 2.07, and 2.20 honestly, since later positions enter the mean.",
        "07_block#sec-layer-norm",
        "seen",
        ("dm-haiku#700",),
        (
            planting(
                "time",
                "Over T.",
                *own_norm(
                    "        x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()"
                ),
                on=(UNCACHED,),
            ),
            planting(
                "time-and-channels",
                "Over T and C together.",
                *own_norm(
                    "        x = x - x.mean((1, 2), keepdim=True)\n"
                    "        x = x / (x.square().mean((1, 2), keepdim=True) + 1e-5).sqrt()"
                ),
                on=(UNCACHED,),
            ),
            planting(
                "batch",
                "Over B, as BatchNorm does.",
                *own_norm(
                    "        x = (x - x.mean(0, keepdim=True)) / (x.var(0, keepdim=True, unbiased=False) + 1e-5).sqrt()"
                ),
                on=(UNCACHED,),
            ),
        ),
    ),
    Bug(
        "norm-shared",
        "norms",
        "One LayerNorm serves in several places",
        "Small: 2C parameters fewer for each one that is shared.",
        "07_block#sec-write-block",
        "seen",
        ("OLMo#222",),
        (
            planting("both-branches", "One norm for both branches of a block.", (LN2, "        self.ln2 = self.ln1\n")),
            planting(
                "used-twice", "ln2 exists, but both branches read through ln1.", swap(THINK, "self.ln2", "self.ln1")
            ),
            planting(
                "all-blocks",
                "All blocks share the first one's norms.",
                (
                    BLOCKS,
                    BLOCKS + "        for block in self.blocks:\n"
                    "            block.ln1, block.ln2 = self.blocks[0].ln1, self.blocks[0].ln2\n",
                ),
            ),
        ),
    ),
    Bug(
        "norm-rms",
        "norms",
        "LayerNorm forgets to subtract the mean",
        "Nothing in the loss; weights from GPT-2 give other logits.",
        "07_block#sec-layer-norm",
        "seen",
        (),
        (
            planting(
                "rms",
                "Divided by the root of the mean square; the mean stays in. It has a bias: it is no RMSNorm.",
                *own_norm("        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()"),
            ),
            planting(
                "std-only",
                "Divided by the standard deviation; the mean stays in.",
                *own_norm("        x = x / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()"),
            ),
        ),
    ),
)

RESIDUALS = (
    Bug(
        "residual-missing",
        "residuals",
        "A branch replaces the stream instead of adding to it",
        "Stuck at 3.36 without both; without one, slower.",
        "07_block#sec-lose-residual",
        "seen",
        ("BitNet#32",),
        (
            planting("attention", "x = attn(ln1(x)).", swap(ATTEND, "x = x + self", "x = self")),
            planting("feed-forward", "x = mlp(ln2(x)).", swap(THINK, "x = x + self", "x = self")),
        ),
    ),
    Bug(
        "residual-doubled",
        "residuals",
        "The stream is added twice",
        "The stream doubles at each branch; what branches add is lost in it. Slow, or stuck.",
        "07_block#sec-residual",
        "seen",
        ("BitNet#32",),
        (
            planting(
                "both",
                "x + x + branch, in both halves.",
                swap(ATTEND, "x = x +", "x = x + x +"),
                swap(THINK, "x = x +", "x = x + x +"),
            ),
            planting(
                "added-again",
                "x += the half's result, which holds x already.",
                (THINK, "        h = x + self.mlp(self.ln2(x))\n        x = x + h\n"),
            ),
        ),
    ),
    Bug(
        "branches-parallel",
        "residuals",
        "Both branches read the same stream, instead of one after the other",
        "Nothing at this size.",
        "07_block#sec-write-block",
        "rare",
        (),
        (
            planting(
                "own-norms",
                "x + attn(ln1(x)) + mlp(ln2(x)).",
                (ATTEND + THINK, "        x = x + self.attn(self.ln1(x), cache) + self.mlp(self.ln2(x))\n"),
            ),
            planting(
                "held-back",
                "Both results are kept first and added last.",
                (
                    ATTEND + THINK,
                    "        a = self.attn(self.ln1(x), cache)\n        m = self.mlp(self.ln2(x))\n"
                    "        x = x + a\n        x = x + m\n",
                ),
            ),
        ),
    ),
)

FFN = (
    Bug(
        "activation-missing",
        "feed-forward",
        "No activation between the two linear layers",
        "A validation loss of 2.21 in place of 2.12.",
        "06_feed_forward#sec-two-layers",
        "seen",
        ("stanza PR#1610",),
        (
            planting("not-called", "fc2(fc1(x)).", swap(ACTIVATE, "self.act(self.fc1(x))", "self.fc1(x)")),
            planting(
                "result-dropped",
                "The activation is called, and its result dropped.",
                (ACTIVATE, "        x = self.fc1(x)\n        self.act(x)\n"),
            ),
        ),
    ),
    Bug(
        "activation-wrong",
        "feed-forward",
        "Another activation than GELU",
        "Nothing: with ReLU a validation loss of 2.06.",
        "06_feed_forward#sec-activations",
        "seen",
        (),
        (
            planting("relu", "ReLU.", (GELU, "        self.act = nn.ReLU()\n")),
            planting("silu", "SiLU.", (GELU, "        self.act = nn.SiLU()\n")),
            planting(
                "tanh", "tanh; the parameter of that name is another thing.", (GELU, "        self.act = nn.Tanh()\n")
            ),
        ),
    ),
    Bug(
        "ffn-width",
        "feed-forward",
        "The hidden layer is not four times as wide as the stream",
        "Fewer parameters than there should be, and a slightly worse loss.",
        "06_feed_forward#sec-four-c",
        "seen",
        ("stanza PR#1610",),
        (
            planting("C", "d_ff = C.", swap(MLP, "4 * config.n_embd", "config.n_embd")),
            planting("2C", "d_ff = 2C.", swap(MLP, "4 *", "2 *")),
        ),
    ),
)

STACK = (
    Bug(
        "blocks-shared",
        "stack",
        "One block stands in for all of them",
        "A validation loss of 2.17, and a parameter count that does not grow with n_layer.",
        "08_tiny_gpt#sec-write-model",
        "seen",
        ("dlwpt-code#89",),
        (
            planting(
                "list-times-n",
                "[Block(config)] * n_layer.",
                (BLOCKS, "        self.blocks = nn.ModuleList([Block(config)] * config.n_layer)\n"),
            ),
            planting(
                "one-called-again",
                "There are n_layer blocks, and the first is called n_layer times.",
                swap(LOOP, "x = block(", "x = self.blocks[0]("),
            ),
        ),
    ),
    Bug(
        "blocks-unregistered",
        "stack",
        "Blocks stand in a Python list: nobody trains, saves or moves them",
        "A validation loss of 2.50; a parameter count that is far too small.",
        "08_tiny_gpt#sec-write-model",
        "very common",
        ("pytorch#666",),
        (
            planting(
                "list",
                "A list in place of a ModuleList.",
                (BLOCKS, "        self.blocks = [Block(config) for _ in range(config.n_layer)]\n"),
            ),
            planting(
                "dict",
                "A dictionary of blocks.",
                (
                    BLOCKS,
                    '        self.layers = {f"block{i}": Block(config) for i in range(config.n_layer)}\n'
                    "        self.blocks = list(self.layers.values())\n",
                ),
            ),
        ),
    ),
    Bug(
        "blocks-skipped",
        "stack",
        "Some blocks take no part",
        "A loss like that of a shallower model; parameters without gradients.",
        "08_tiny_gpt#sec-write-model",
        "rare",
        (),
        (
            planting(
                "last-left-out",
                "The loop ends one block early.",
                swap(LOOP, "enumerate(self.blocks)", "enumerate(self.blocks[:-1])"),
            ),
            planting(
                "only-last-counts",
                "Every block reads the embeddings, so that only the last one counts.",
                swap(LOOP, "x = block(x", "h = block(x"),
                swap(UNEMBED, "ln_f(x)", "ln_f(h)"),
            ),
        ),
    ),
)

BUGS = (*POSITION, *EMBEDDING, *INITIALISATION, *NORMS, *RESIDUALS, *FFN, *STACK)
