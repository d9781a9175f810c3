"""Bugs in what the model promises: loss, results, dropout, batch, config, devices and types, global state."""

from .architecture import ATTEND, EMBED, LN1, LN2, LN_F, POSITIONS, THINK, UNEMBED
from .attention import FUSED, KERNEL, MASK, MASKED, OUT_PROJ, PLAIN, SOFTMAX, UNPACK, kernel
from .planting import UNCACHED, Bug, planting, swap

LOSS = "        loss = F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1).long(), ignore_index=-1)\n"
RETURN = "        return logits, loss\n"
NO_TARGETS = "            return logits, None\n"
LOGITS = "        logits = self._logits(idx)  # (B, T, V)\n"
FFN_DROP = "        return self.drop(self.fc2(x))  # (B, T, C)\n"
DROP = "        self.drop = nn.Dropout(dropout)\n"
OUT_DROP = "        self.out_drop = nn.Dropout(config.dropout)\n"
EMBED_DROP = "        self.drop = nn.Dropout(config.dropout)\n"
WHILE_TRAINING = (
    "        dropout = self.dropout if self.training else 0.0  # neither path below knows about eval mode by itself\n"
)
SUPER = "    def __init__(self, config: GPTConfig):\n        super().__init__()\n        self.config = config\n"
DIVISIBLE = """\
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_embd={self.n_embd} is not divisible by n_head={self.n_head}: "
                "every head needs the same whole number of channels"
            )
"""
TOO_LONG = """\
        if ids.size(1) > longest:
            raise ValueError(f"{name} has T={ids.size(1)} positions, more than block_size={longest}: crop it")
"""
MODEL_INIT = "        self.wte = nn.Embedding(config.vocab_size, config.n_embd)\n"
LOAD = (
    "    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:\n"
)

LOSSES = (
    Bug(
        "loss-shifted-twice",
        "loss",
        "The loss shifts targets that are shifted already",
        "A loss of 2.72 that looks possible; samples skip every other character.",
        "01_text_to_batches#sec-shift",
        "common",
        ("transformers#47394",),
        (
            planting(
                "sliced",
                "logits[:, :-1] against targets[:, 1:].",
                (
                    LOSS,
                    "        early, late = logits[:, :-1].flatten(0, 1), targets[:, 1:].reshape(-1).long()\n"
                    "        loss = F.cross_entropy(early, late, ignore_index=-1)\n",
                ),
            ),
            planting(
                "rolled",
                "The targets are rolled by one, the last one not counted.",
                (LOSS, "        targets = targets.roll(-1, dims=1)\n        targets[:, -1] = -1\n" + LOSS),
            ),
        ),
    ),
    Bug(
        "loss-on-inputs",
        "loss",
        "The loss compares with the input, not with the targets",
        "The loss goes to 0; the model repeats its input.",
        "01_text_to_batches#sec-problems",
        "common",
        ("bart-base-jax PR#6",),
        (
            planting("idx", "cross_entropy(logits, idx).", swap(LOSS, "targets.reshape", "idx.reshape")),
            planting(
                "own-shift",
                "The model shifts its own input and leaves the targets unread.",
                (LOSS, "        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), idx[:, 1:].reshape(-1).long())\n"),
            ),
        ),
    ),
    Bug(
        "loss-ignore-index",
        "loss",
        "Targets of −1 are counted, or crash",
        'Fine until somebody pads: "Target -1 is out of bounds".',
        "01_text_to_batches#sec-objective",
        "seen",
        ("nanoGPT#323",),
        (
            planting("default", "ignore_index is left at -100.", swap(LOSS, ", ignore_index=-1", "")),
            planting(
                "clamped",
                "-1 becomes 0, and is counted.",
                (
                    LOSS,
                    LOSS.replace("targets.reshape(-1)", "targets.reshape(-1).clamp(min=0)").replace(
                        ", ignore_index=-1", ""
                    ),
                ),
            ),
            planting(
                "zero",
                "ignore_index=0: a real token is left out.",
                (LOSS, LOSS.replace("targets.reshape(-1)", "targets.reshape(-1).clamp(min=0)").replace("=-1", "=0")),
            ),
        ),
    ),
    Bug(
        "loss-after-softmax",
        "loss",
        "Cross-entropy gets probabilities where it wants logits",
        "The first loss is ln V to three decimals, and training sticks at 4.02.",
        "01_text_to_batches#sec-objective",
        "very common",
        ("llama-from-scratch#5",),
        (
            planting(
                "softmax",
                "cross_entropy(softmax(logits)).",
                swap(LOSS, "logits.flatten(0, 1)", "F.softmax(logits, dim=-1).flatten(0, 1)"),
            ),
            planting(
                "no-log",
                "nll_loss of probabilities, the logarithm forgotten.",
                swap(LOSS, "cross_entropy(logits.flatten(0, 1)", "nll_loss(F.softmax(logits, dim=-1).flatten(0, 1)"),
            ),
        ),
    ),
    Bug(
        "loss-reduction",
        "loss",
        "The loss is not the mean over the counted targets",
        "A loss in the thousands, or one that depends on T or on padding.",
        "01_text_to_batches#sec-objective",
        "seen",
        (),
        (
            planting("sum", 'reduction="sum".', swap(LOSS, "ignore_index=-1", 'ignore_index=-1, reduction="sum"')),
            planting(
                "per-row",
                "Summed over time, averaged over the batch.",
                swap(LOSS, "ignore_index=-1)", 'ignore_index=-1, reduction="sum") / idx.size(0)'),
            ),
            planting(
                "all-counted",
                "The sum is divided by B·T, ignored targets included.",
                swap(LOSS, "ignore_index=-1)", 'ignore_index=-1, reduction="sum") / targets.numel()'),
            ),
        ),
    ),
    Bug(
        "loss-layout",
        "loss",
        "Logits and targets are flattened in different orders",
        "The loss hardly falls: every prediction is compared with another position's target.",
        "01_text_to_batches#sec-objective",
        "seen",
        (),
        (
            planting(
                "time-first",
                "Logits are flattened time first, targets batch first.",
                swap(LOSS, "logits.flatten(0, 1)", "logits.transpose(0, 1).flatten(0, 1)"),
            ),
            planting(
                "classes-mixed",
                "(B, V, T) is flattened to (B·T, V): classes and positions mix.",
                swap(LOSS, "logits.flatten(0, 1)", "logits.transpose(1, 2).reshape(-1, logits.size(-1))"),
            ),
        ),
    ),
    Bug(
        "loss-detached",
        "loss",
        "The loss has no way back to the parameters",
        '"element 0 of tensors does not require grad", or a loss that never moves.',
        "01_text_to_batches#sec-objective",
        "seen",
        (),
        (
            planting("detach", "loss.detach().", (LOSS, LOSS + "        loss = loss.detach()\n")),
            planting(
                "logits-detached",
                "The loss is computed from logits.detach().",
                swap(LOSS, "logits.fl", "logits.detach().fl"),
            ),
            planting(
                "made-anew", "torch.tensor(loss.item()).", (LOSS, LOSS + "        loss = torch.tensor(loss.item())\n")
            ),
        ),
    ),
)

RESULTS = (
    Bug(
        "logits-shape",
        "results",
        "The logits are not (B, T, V)",
        "Shape errors in whoever calls the model.",
        "08_tiny_gpt#sec-write-model",
        "seen",
        ("ng-video-lecture PR#10",),
        (
            planting(
                "flattened",
                "With targets the logits come back as (B·T, V).",
                (RETURN, "        return logits.flatten(0, 1), loss\n"),
            ),
            planting(
                "last-only",
                "Only the last position's logits come back, with targets too.",
                (RETURN, "        return logits[:, [-1]], loss\n"),
            ),
            planting(
                "classes-second",
                "(B, V, T), as cross_entropy likes it.",
                (RETURN, "        return logits.transpose(1, 2), loss\n"),
            ),
        ),
    ),
    Bug(
        "logits-are-probabilities",
        "results",
        "forward returns probabilities and calls them logits",
        "Samples are almost uniform, since the softmax is taken twice.",
        "09_generation#sec-one-distribution",
        "seen",
        ("llama-from-scratch#5",),
        (
            planting(
                "at-return",
                "A softmax at the return; the loss is right.",
                (RETURN, "        return F.softmax(logits, dim=-1), loss\n"),
                (NO_TARGETS, "            return F.softmax(logits, dim=-1), None\n"),
            ),
            planting(
                "in-the-head",
                "The model ends in a softmax, and the loss takes its logarithm.",
                (UNEMBED, "        return F.softmax(self.lm_head(self.ln_f(x)), dim=-1)\n"),
                (
                    LOSS,
                    "        log_probs = logits.flatten(0, 1).log()\n"
                    "        loss = F.nll_loss(log_probs, targets.reshape(-1).long(), ignore_index=-1)\n",
                ),
            ),
        ),
    ),
    Bug(
        "returns-wrong",
        "results",
        "forward does not return (logits, loss)",
        "not enough values to unpack, or logits that turn out to be a loss.",
        "08_tiny_gpt#sec-write-model",
        "seen",
        (),
        (
            planting("bare-logits", "Without targets the logits alone.", (NO_TARGETS, "            return logits\n")),
            planting("swapped", "(loss, logits).", (RETURN, "        return loss, logits\n")),
            planting("number", "The loss as a Python number.", (RETURN, "        return logits, loss.item()\n")),
        ),
    ),
)

DROPOUT = (
    Bug(
        "dropout-in-eval",
        "dropout",
        "Dropout goes on in eval mode",
        "Two evaluations of the same batch differ; samples are worse than the loss says.",
        "04_attention_head#sec-attention-dropout",
        "very common",
        ("karpathy/nanoGPT PR#240", "pytorch#124464"),
        (
            planting(
                "kernel",
                "The kernel is given dropout_p whatever the mode.",
                (WHILE_TRAINING, "        dropout = self.dropout\n"),
            ),
            planting(
                "functional",
                "F.dropout without training=self.training.",
                (DROP, "        self.dropout = dropout\n"),
                (FFN_DROP, "        return F.dropout(self.fc2(x), self.dropout)\n"),
            ),
        ),
    ),
    Bug(
        "dropout-missing",
        "dropout",
        "config.dropout has no effect",
        "No difference between train and eval mode; the model overfits early.",
        "04_attention_head#sec-attention-dropout",
        "seen",
        (),
        (
            planting(
                "ignored",
                "Every dropout has probability 0.",
                ("        self.dropout = config.dropout\n", "        self.dropout = 0.0\n"),
                swap(OUT_DROP, "config.dropout", "0.0"),
                swap(DROP, "dropout)", "0.0)"),
                swap(EMBED_DROP, "config.dropout", "0.0"),
            ),
            planting(
                "always-eval",
                "train() leaves the modules in eval mode.",
                (
                    LOAD,
                    "    def train(self, mode: bool = True):\n        super().train(False)\n"
                    "        self.training = mode\n        return self\n\n" + LOAD,
                ),
            ),
        ),
    ),
    Bug(
        "dropout-misplaced",
        "dropout",
        "Dropout where it does not belong: the whole stream, the scores or the logits",
        "Training is noisy and ends worse; with dropout at 0 nothing is to be seen.",
        "04_attention_head#sec-attention-dropout",
        "rare",
        (),
        (
            planting(
                "stream",
                "The stream itself is dropped, after each sum.",
                (ATTEND, "        x = self.attn.out_drop(x + self.attn(self.ln1(x), cache))\n"),
                (THINK, "        x = self.mlp.drop(x + self.mlp(self.ln2(x)))\n"),
                (
                    "        out = self.out_drop(self.out_proj(out))  # (B, T, C)\n",
                    "        out = self.out_proj(out)\n",
                ),
                (FFN_DROP, "        return self.fc2(x)\n"),
            ),
            planting(
                "scores",
                "Scores are dropped before the softmax, not weights after it.",
                (MASKED, "    scores = F.dropout(scores, dropout) + mask\n"),
                ("    return F.dropout(weights, dropout) @ v, weights", "    return weights @ v, weights"),
                on=PLAIN,
            ),
            planting(
                "logits", "The logits are dropped.", (UNEMBED, "        return self.drop(self.lm_head(self.ln_f(x)))\n")
            ),
        ),
    ),
)

BATCH = (
    Bug(
        "batch-leak",
        "batch",
        "A row's result depends on the other rows of the batch",
        "Evaluation depends on the batch size; the same text gives other logits in other company.",
        "04_attention_head#sec-batch-axis",
        "seen",
        (),
        (
            planting(
                "one-long-text",
                "The batch is attended as one text of B·T positions.",
                (
                    UNPACK,
                    UNPACK
                    + "        q, k, v = (h.transpose(0, 1).reshape(1, self.n_head, B * T, D) for h in (q, k, v))\n",
                ),
                ("        S = k.size(-2)\n\n", "        S = T\n\n"),
                (
                    KERNEL,
                    kernel("is_causal=True") + "            out = out.view(self.n_head, B, T, D).transpose(0, 1)\n",
                ),
                on=(UNCACHED,),
            ),
            planting(
                "time-first-by-view",
                "A view to (T, B, C) where a transpose was meant.",
                (
                    EMBED,
                    EMBED + "        B, T, C = x.shape\n        x = x.view(T, B, C).transpose(0, 1).contiguous()\n",
                ),
                on=(UNCACHED,),
            ),
        ),
    ),
)

CONTRACT = (
    Bug(
        "heads-not-divisible",
        "contract",
        "n_embd that n_head does not divide is accepted",
        "A model with fewer channels than asked for, or a shape error deep inside the first forward.",
        "05_many_heads#sec-reshape",
        "seen",
        (),
        (
            planting(
                "channels-lost",
                "H · (C // H) channels are used, and the rest is silently left out.",
                (DIVISIBLE, ""),
                (
                    FUSED,
                    "        inner = config.n_head * (config.n_embd // config.n_head)\n"
                    "        self.qkv = nn.Linear(config.n_embd, 3 * inner, bias=config.bias)\n",
                ),
                swap(OUT_PROJ, "nn.Linear(config.n_embd,", "nn.Linear(inner,"),
                (
                    "        out = out.transpose(1, 2).reshape(B, T, C)",
                    "        out = out.transpose(1, 2).reshape(B, T, self.n_head * D)",
                ),
            ),
            planting(
                "heads-changed",
                "n_head is lowered until it divides.",
                (
                    DIVISIBLE,
                    "        while self.n_embd % self.n_head:\n"
                    '            object.__setattr__(self, "n_head", self.n_head - 1)\n',
                ),
            ),
        ),
    ),
    Bug(
        "context-unchecked",
        "contract",
        "A text longer than block_size is accepted",
        "Logits that look fine and mean nothing beyond the context.",
        "08_tiny_gpt#sec-embeddings",
        "seen",
        (),
        (
            planting(
                "wrapped",
                "Positions beyond the table start again at 0.",
                (TOO_LONG, ""),
                (POSITIONS, POSITIONS + "        pos = pos % self.config.block_size\n"),
            ),
            planting(
                "clamped",
                "Positions beyond the table get its last row.",
                (TOO_LONG, ""),
                (POSITIONS, POSITIONS + "        pos = pos.clamp(max=self.config.block_size - 1)\n"),
            ),
        ),
    ),
    Bug(
        "bias-ignored",
        "contract",
        "config.bias is not, or not everywhere, obeyed",
        "A parameter count that is the same with bias on and off.",
        "10_faster#sec-no-bias",
        "seen",
        (),
        (
            planting(
                "linears",
                "The Linear layers of attention have a bias in any case.",
                swap(FUSED, ", bias=config.bias", ""),
                swap(OUT_PROJ, ", bias=config.bias", ""),
            ),
            planting(
                "norms",
                "LayerNorms have a bias in any case.",
                *(swap(norm, ", bias=config.bias", "") for norm in (LN1, LN2, LN_F)),
            ),
            planting(
                "never",
                "There are no biases, though the config asks for them.",
                swap(FUSED, "config.bias", "False"),
                swap(OUT_PROJ, "config.bias", "False"),
                *(swap(norm, "config.bias", "False") for norm in (LN1, LN2, LN_F)),
                ("config.dropout, config.bias)", "config.dropout, False)"),
            ),
        ),
    ),
    Bug(
        "device-assumed",
        "contract",
        "A tensor is made on the CPU, wherever the model is",
        '"Expected all tensors to be on the same device", on the first GPU.',
        "04_attention_head#sec-buffer",
        "common",
        ("nanoGPT#473", "OpenNMT-py PR#240"),
        (
            planting("positions", "arange without device.", swap(POSITIONS, ", device=idx.device", "")),
            planting("mask", "The mask is made without device.", swap(MASK, ", device=q.device", ""), on=PLAIN),
        ),
    ),
    Bug(
        "dtype-nan",
        "contract",
        "The model breaks in float16 or bfloat16",
        '"value cannot be converted to type Half without overflow", or two types that do not multiply.',
        "10_faster#sec-bf16",
        "common",
        ("apex#1052",),
        (
            planting(
                "minus-1e9",
                "Masked scores become −1e9, which float16 cannot hold.",
                (MASKED, "    scores = scores.masked_fill(mask < 0, -1e9)\n"),
                on=PLAIN,
            ),
            planting(
                "float32-mask",
                "The mask is float32 in any case, and makes the weights float32.",
                swap(MASK, "dtype=q.dtype, ", ""),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "inplace-breaks-grad",
        "contract",
        "An in-place edit destroys what the backward pass needs",
        '"one of the variables needed for gradient computation has been modified by an inplace operation".',
        "07_block#sec-residual",
        "seen",
        ("Multimodal-Transformer#30",),
        (
            planting(
                "stream",
                "x += branch(x), where LayerNorm still needs x.",
                swap(ATTEND, "x = x +", "x +="),
                swap(THINK, "x = x +", "x +="),
            ),
            planting(
                "weights",
                "The softmax's result is normalised once more, in place.",
                (SOFTMAX, SOFTMAX + "    weights /= weights.sum(-1, keepdim=True)\n"),
                on=PLAIN,
            ),
        ),
    ),
    Bug(
        "state-dict-broken",
        "contract",
        "Saved weights cannot be loaded again, or give another model",
        '"Missing key(s) in state_dict", or a size mismatch, when it is too late.',
        "drop_in#sec-drop-in-resume",
        "common",
        ("nanoGPT#325", "nanoGPT PR#209"),
        (
            planting(
                "tied-left-out",
                "state_dict leaves the tied matrix out, and loading asks for it.",
                (
                    LOAD,
                    "    def state_dict(self, *args, **kwargs):\n        state = super().state_dict(*args, **kwargs)\n"
                    '        del state["lm_head.weight"]\n        return state\n\n' + LOAD,
                ),
            ),
            planting(
                "mask-grows",
                "The mask is a saved buffer that takes each call's size.",
                (OUT_PROJ, OUT_PROJ + '        self.register_buffer("mask", torch.ones(1, 1, dtype=torch.bool))\n'),
                (
                    KERNEL,
                    "            self.mask = torch.ones(T, S, dtype=torch.bool, device=q.device).tril()\n"
                    + kernel("attn_mask=self.mask"),
                ),
                on=(UNCACHED,),
            ),
        ),
    ),
)

GLOBAL = (
    Bug(
        "global-state",
        "global state",
        "The model changes what belongs to everybody: seed, default type, autograd",
        "Runs with different seeds are the same; or somebody else's code misbehaves afterwards.",
        "09_generation#sec-one-distribution",
        "seen",
        (),
        (
            planting(
                "seed", "The constructor calls torch.manual_seed.", (SUPER, SUPER + "        torch.manual_seed(1337)\n")
            ),
            planting(
                "grad-off",
                "generate turns autograd off, for good.",
                (
                    "        modes = [(module, module.training) for module in self.modules()]\n",
                    "        torch.set_grad_enabled(False)\n"
                    "        modes = [(module, module.training) for module in self.modules()]\n",
                ),
                ("    @torch.no_grad()\n    def stream(\n", "    def stream(\n"),
            ),
            planting(
                "default-type",
                "The constructor sets the default type.",
                (SUPER, SUPER + "        torch.set_default_dtype(torch.float64)\n"),
            ),
        ),
    ),
)

BUGS = (*LOSSES, *RESULTS, *DROPOUT, *BATCH, *CONTRACT)
