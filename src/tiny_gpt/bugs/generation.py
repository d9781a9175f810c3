"""Bugs in generate, and in what configure_optimizers hands to AdamW."""

from .architecture import EMBED, WPE
from .planting import STEP, UNCACHED, Bug, planting, swap

ON = (UNCACHED,)
PROBS = "                probs = next_token_probs(logits[:, -1], temperature, top_k)  # (B, V)\n"
DRAW = "                token = torch.multinomial(probs, num_samples=1, generator=generator)  # (B, 1)\n"
APPEND = "                idx = torch.cat([idx, token], dim=1)  # (B, T + 1): a new tensor, the caller's stays\n"
TIMES = "            for _ in range(max_new_tokens):\n"
JOIN = "        return torch.cat([idx, *tokens], dim=1)  # (B, T + max_new_tokens)\n"
NO_GRAD = "    @torch.no_grad()\n    def stream(\n"
RESTORE = """\
            for module, training in modes:
                module.training = training
"""
ZERO = """\
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), logits.size(-1)).float()  # (B, V)
"""
TINY = """\
    temperature = max(temperature, torch.finfo(torch.float32).tiny)  # a smaller one would be rounded to 0
"""
DIVIDE = "    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # (B, V), the largest is 0\n"
KEPT = "        kept, _ = torch.topk(logits, min(top_k, logits.size(-1)))  # (B, k), largest first\n"
FILTER = "        scaled = scaled.masked_fill(logits < kept[:, [-1]], -math.inf)  # (B, V)\n"
DECAYED = '            {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},\n'
OTHERS = '            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},\n'
PARAMS = (
    "        params = [p for p in self.parameters() if p.requires_grad]  # parameters() lists the tied matrix once\n"
)

GENERATION = (
    Bug(
        "generate-no-crop",
        "generation",
        "The context is not cropped to block_size",
        "generate works for a while and crashes when the text is longer than the context.",
        "09_generation#sec-generation-bugs",
        "very common",
        (),
        (
            planting("never", "The whole text is read at each step.", swap(STEP, "idx[:, -longest:]", "idx"), on=ON),
            planting(
                "one-too-many", "block_size + 1 tokens are kept.", swap(STEP, "-longest:", "-longest - 1 :"), on=ON
            ),
        ),
    ),
    Bug(
        "generate-wrong-window",
        "generation",
        "The model does not read the last block_size tokens",
        "Long texts go round in circles, or forget what was just said.",
        "09_generation#sec-generation-bugs",
        "seen",
        (),
        (
            planting(
                "first-tokens",
                "The first block_size tokens are read, again and again.",
                swap(STEP, "-longest:", ":longest"),
                on=ON,
            ),
            planting("one-short", "One token fewer than fits.", swap(STEP, "-longest:", "-(longest - 1) :"), on=ON),
            planting(
                "newest-only",
                "Only the newest token is read, and there is no cache.",
                swap(STEP, "-longest:", "-1:"),
                on=ON,
            ),
        ),
    ),
    Bug(
        "generate-wrong-position",
        "generation",
        "The next token is drawn from another position's logits",
        "Samples are worse than the loss promises, and ignore what was just said.",
        "09_generation#sec-one-distribution",
        "seen",
        (),
        (
            planting("first", "logits[:, 0].", swap(PROBS, "logits[:, -1]", "logits[:, 0]"), on=ON),
            planting(
                "mean", "The mean of all positions' logits.", swap(PROBS, "logits[:, -1]", "logits.mean(1)"), on=ON
            ),
            planting(
                "last-but-one",
                "logits[:, -2], where there is one.",
                swap(PROBS, "logits[:, -1]", "logits[:, -2:][:, 0]"),
                on=ON,
            ),
        ),
    ),
    Bug(
        "generate-temperature",
        "generation",
        "The temperature does not divide the logits",
        "Diversity falls as the temperature rises, or does not change at all.",
        "09_generation#sec-temperature",
        "common",
        ("fastai#1264",),
        (
            planting("multiplied", "Multiplied in place of divided.", swap(DIVIDE, "/ temperature", "* temperature")),
            planting("ignored", "The argument is not used.", swap(DIVIDE, " / temperature", "")),
            planting(
                "on-probabilities",
                "The probabilities are divided, which multinomial undoes.",
                swap(DIVIDE, " / temperature", ""),
                (
                    "    return F.softmax(scaled, dim=-1)  # (B, V)\n",
                    "    return F.softmax(scaled, dim=-1) / temperature\n",
                ),
            ),
        ),
    ),
    Bug(
        "generate-temperature-zero",
        "generation",
        "Temperature 0 crashes, or is not greedy",
        '"probability tensor contains either inf, nan or element < 0".',
        "09_generation#sec-temperature",
        "common",
        ("nanoGPT#738",),
        (
            planting("divided", "The logits are divided by 0.", (ZERO, ""), (TINY, "")),
            planting(
                "falsy",
                "if temperature: 0 is taken for none, and samples as 1 does.",
                (ZERO, "    temperature = temperature or 1.0\n"),
            ),
        ),
    ),
    Bug(
        "generate-top-k",
        "generation",
        "top_k does not keep exactly the k most probable tokens",
        "Junk survives the filter, or good tokens do not.",
        "09_generation#sec-top-k",
        "common",
        ("litgpt PR#2309", "minGPT#10"),
        (
            planting(
                "off-by-one",
                "<= drops the k-th as well.",
                swap(FILTER, "logits < kept[:, [-1]]", "logits <= kept[:, [-1]]"),
                ("    if top_k is not None:\n", "    if top_k is not None and top_k > 1:\n"),
            ),
            planting(
                "wrong-side",
                "The k least probable are kept.",
                swap(KEPT, "logits.size(-1)))", "logits.size(-1)), largest=False)"),
                swap(FILTER, "<", ">"),
            ),
            planting(
                "soft-fill",
                "What is filtered out becomes 1e-10, not −∞.",
                (FILTER, "        scaled = (logits / temperature).masked_fill(logits < kept[:, [-1]], 1e-10)\n"),
            ),
        ),
    ),
    Bug(
        "generate-top-k-overflow",
        "generation",
        "top_k larger than the vocabulary crashes",
        '"selected index k out of range".',
        "09_generation#sec-top-k",
        "common",
        ("TransformerLens PR#1347",),
        (
            planting("topk", "torch.topk is given k as it came.", swap(KEPT, "min(top_k, logits.size(-1))", "top_k")),
            planting(
                "kthvalue",
                "The k-th largest by kthvalue, whose index runs out.",
                (KEPT, "        kept = logits.kthvalue(logits.size(-1) - top_k + 1, dim=-1, keepdim=True).values\n"),
            ),
        ),
    ),
    Bug(
        "generate-not-random",
        "generation",
        "generate does not draw: the same text every time",
        "All samples are equal, and soon go round in circles.",
        "09_generation#sec-generation-bugs",
        "seen",
        ("nanoGPT#233",),
        (
            planting(
                "argmax",
                "The most probable token, always.",
                (DRAW, "                token = probs.argmax(dim=-1, keepdim=True)\n"),
            ),
            planting(
                "same-seed",
                "A generator with the same seed, made at each call.",
                (TIMES, "            generator = torch.Generator().manual_seed(0)\n" + TIMES),
            ),
        ),
    ),
    Bug(
        "generate-batch",
        "generation",
        "Rows of a batch do not get a text of their own",
        "All rows continue alike, whatever their prompts.",
        "09_generation#sec-generation-bugs",
        "seen",
        ("Fast-dLLM#64",),
        (
            planting(
                "row-0-token",
                "Row 0's token is appended to every row.",
                (DRAW, DRAW + "                token = token[:1].expand(idx.size(0), 1)\n"),
            ),
            planting(
                "row-0-distribution",
                "Every row draws from row 0's distribution.",
                (PROBS, PROBS + "                probs = probs[:1].expand(idx.size(0), -1)\n"),
            ),
        ),
    ),
    Bug(
        "generate-length",
        "generation",
        "Not the prompt and max_new_tokens after it",
        "Texts that are too short, too long, or without their beginning.",
        "09_generation#sec-generation-bugs",
        "seen",
        (),
        (
            planting(
                "total",
                "max_new_tokens is taken for the length of the whole.",
                swap(TIMES, "max_new_tokens", "max_new_tokens - idx.size(1)"),
            ),
            planting("one-more", "One token more than asked for.", swap(TIMES, "max_new_tokens", "max_new_tokens + 1")),
            planting(
                "without-prompt",
                "Only the new tokens come back.",
                (JOIN, "        return torch.cat([idx[:, :0], *tokens], dim=1)\n"),
            ),
        ),
    ),
    Bug(
        "generate-mutates-prompt",
        "generation",
        "The caller's prompt is changed",
        "The second call continues the first one's text.",
        "09_generation#sec-generation-bugs",
        "seen",
        (),
        (
            planting(
                "data",
                "idx.data gets the longer text.",
                (JOIN, "        idx.data = torch.cat([idx, *tokens], dim=1)\n        return idx\n"),
            ),
            planting(
                "window-shifted",
                "The window is a view of the prompt, shifted in place.",
                (
                    APPEND,
                    "                whole = torch.cat([idx, token], dim=1)\n"
                    "                idx[:, :-1] = idx[:, 1:].clone()\n                idx[:, -1:] = token\n"
                    "                idx = whole\n",
                ),
                (
                    "        tokens = [token for token, _ in",
                    "        prompt = idx.clone()\n        tokens = [token for token, _ in",
                ),
                swap(JOIN, "[idx,", "[prompt,"),
                on=ON,
            ),
        ),
    ),
    Bug(
        "generate-mode",
        "generation",
        "generate leaves the model in another mode than it found",
        "After the first sample dropout is off for the rest of the training, or on in evaluation.",
        "09_generation#sec-generation-bugs",
        "common",
        ("ng-video-lecture#16",),
        (
            planting("stays-in-eval", "eval() and no way back.", (RESTORE, "            pass\n")),
            planting("always-train", "train() at the end, whatever it was.", (RESTORE, "            self.train()\n")),
        ),
    ),
    Bug(
        "generate-grad",
        "generation",
        "generate records a graph for a backward pass that never comes",
        "Memory grows with every token.",
        "09_generation#sec-generation-bugs",
        "common",
        ("OLMo PR#164",),
        (planting("no-guard", "There is no torch.no_grad().", swap(NO_GRAD, "    @torch.no_grad()\n", ""), on=ON),),
    ),
)

OPTIMISER = (
    Bug(
        "decay-on-norms",
        "optimiser",
        "Weight decay pulls on biases and LayerNorms",
        "Nothing loud: a slightly worse loss.",
        "drop_in#sec-drop-in-interface",
        "common",
        ("lit-llama#254",),
        (
            planting("all", "One group with everything.", swap(DECAYED, " if p.dim() >= 2", ""), (OTHERS, "")),
            planting(
                "norm-weights",
                "Only biases are spared; LayerNorms' weights decay.",
                (
                    PARAMS,
                    '        biases = {id(p) for name, p in self.named_parameters() if name.endswith("bias")}\n'
                    + PARAMS,
                ),
                swap(DECAYED, "p.dim() >= 2", "id(p) not in biases"),
                swap(OTHERS, "p.dim() < 2", "id(p) in biases"),
            ),
        ),
    ),
    Bug(
        "decay-missing",
        "optimiser",
        "Matrices are not decayed as asked",
        "Nothing at first; the model overfits sooner.",
        "drop_in#sec-drop-in-interface",
        "seen",
        (),
        (
            planting(
                "zero",
                "Both groups have a decay of 0.",
                swap(DECAYED, '"weight_decay": weight_decay', '"weight_decay": 0.0'),
            ),
            planting(
                "misspelt",
                "The key is misspelt, so that AdamW's own 0.01 holds.",
                swap(DECAYED, '"weight_decay":', '"decay":'),
            ),
        ),
    ),
    Bug(
        "parameters-missing",
        "optimiser",
        "The optimiser does not get every parameter",
        "Some tensors never move; the loss is a little worse.",
        "11_debugging#sec-gradient-norm",
        "seen",
        ("nanoGPT PR#21",),
        (
            planting("no-vectors", "Only the group with matrices is handed over.", (OTHERS, "")),
            planting(
                "positions-a-buffer",
                "The position table is a buffer: saved, moved and never trained.",
                (
                    WPE,
                    '        self.register_buffer("positions", 0.02 * torch.randn(config.block_size, config.n_embd))\n',
                ),
                swap(EMBED, "self.wpe(pos)", "self.positions[pos]"),
            ),
            planting(
                "no-table",
                "The table of tokens is left out.",
                swap(PARAMS, "p.requires_grad]", "p is not self.wte.weight]"),
            ),
        ),
    ),
)

BUGS = (*GENERATION, *OPTIMISER)
