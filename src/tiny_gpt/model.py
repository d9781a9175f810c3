"""A complete GPT in one file: embeddings, causal self-attention, feed-forward network, block, model.

It needs torch and the standard library only. Copied alone beside nanoGPT's ``train.py`` as ``tiny_gpt.py``
it is a drop-in for that project's model: ``from tiny_gpt import GPTConfig, TinyGPT as GPT``.

Shapes, in every comment: B batch, T time (positions), C model width (``n_embd``), H heads (``n_head``),
D = C / H head width, V vocabulary, L layers (``n_layer``). S is T plus the positions already in a cache.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class GPTConfig:
    """The sizes that define a model. The defaults are GPT-2's smallest, its vocabulary padded to a multiple of 64.

    Raises ValueError if a size is not a positive integer, if ``n_head`` does not divide ``n_embd``, or if
    ``dropout`` lies outside [0, 1).
    """

    vocab_size: int = 50304  # V: how many different tokens there are
    block_size: int = 1024  # the longest context, in tokens
    n_layer: int = 12  # L: how many blocks
    n_head: int = 12  # H: attention heads in a block
    n_embd: int = 768  # C: the width of the residual stream
    dropout: float = 0.0  # the probability that an activation is zeroed in training
    bias: bool = True  # biases in every LayerNorm and in every Linear but the unembedding

    def __post_init__(self) -> None:
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a positive integer, got {value!r}")
        if self.n_embd % self.n_head:
            raise ValueError(
                f"n_embd={self.n_embd} is not divisible by n_head={self.n_head}: "
                "every head needs the same whole number of channels"
            )
        if not 0.0 <= self.dropout < 1.0:
            raise ValueError(f"dropout must lie in [0, 1), got {self.dropout!r}")


def causal_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention in four lines: what the fused kernel computes, spelled out.

    Queries are (B, H, T, D), keys and values (B, H, S, D); the queries belong to the last T of the S positions.
    Returns the attended values (B, H, T, D) and the weights P (B, H, T, S), whose rows sum to one.
    Source: Vaswani et al. 2017, section 3.2.1.
    """
    T, S, D = q.size(-2), k.size(-2), q.size(-1)
    # Row t of the mask is 0 up to its own position and -inf on everything later; exp(-inf) is exactly 0.
    mask = torch.full((T, S), -math.inf, dtype=q.dtype, device=q.device).triu(1 + S - T)  # (T, S)
    scores = q @ k.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, S)
    scores = scores + mask  # (B, H, T, S), the mask broadcast over B and H
    weights = F.softmax(scores, dim=-1)  # (B, H, T, S), each row a distribution over the past
    return F.dropout(weights, dropout) @ v, weights  # (B, H, T, D), (B, H, T, S)


class KVCache:
    """One block's keys and values of the positions already read, so that they are not computed again."""

    keys: Tensor  # (B, H, block_size, D), made when the first keys show their size
    values: Tensor  # (B, H, block_size, D)

    def __init__(self, block_size: int):
        self.block_size = block_size
        self.length = 0  # how many positions are stored

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the keys and values (B, H, T, D) of T new positions; return those of all S positions so far."""
        if self.length == 0:
            B, H, _, D = k.shape
            self.keys, self.values = k.new_empty(2, B, H, self.block_size, D)  # each (B, H, block_size, D)
        start, self.length = self.length, self.length + k.size(-2)
        self.keys[:, :, start : self.length] = k
        self.values[:, :, start : self.length] = v
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]  # (B, H, S, D) each


class CausalSelfAttention(nn.Module):
    """H attention heads side by side, from one fused projection: (B, T, C) -> (B, T, C).

    ``fused = False`` replaces PyTorch's kernel by the four lines of ``causal_attention``; the result is the same.
    """

    fused = True

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.n_head = config.n_head
        self.dropout = config.dropout
        # Queries, keys and values of all heads are one matrix product, 3C wide.
        self.qkv = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.out_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.out_drop = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, cache: KVCache | None = None, need_weights: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attend; with ``need_weights`` return (output, weights (B, H, T, S)) instead of the output alone."""
        B, T, C = x.shape
        D = C // self.n_head
        # The order matters. A row of 3C numbers is cut into (3, H, D) first and only then are axes exchanged;
        # a view straight to (B, H, T, D) would have the right shape and mix positions with heads.
        qkv = self.qkv(x).view(B, T, 3, self.n_head, D)  # (B, T, 3, H, D)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (3, B, H, T, D), unpacked into three (B, H, T, D)
        if cache is not None:
            k, v = cache.append(k, v)  # (B, H, S, D)
        S = k.size(-2)

        dropout = self.dropout if self.training else 0.0  # neither path below knows about eval mode by itself
        if need_weights or not self.fused or 1 < T < S:
            out, weights = causal_attention(q, k, v, dropout)  # (B, H, T, D)
        else:
            # The kernel's causal mask is for square scores. A single query is the newest position: it may see all.
            out = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=T == S)  # (B, H, T, D)

        # Heads back beside each other: H next to D again, then merged. The transpose comes first.
        out = out.transpose(1, 2).reshape(B, T, C)  # (B, T, H, D) -> (B, T, C)
        out = self.out_drop(self.out_proj(out))  # (B, T, C)
        return (out, weights) if need_weights else out


class FFN(nn.Module):
    """The position-wise feed-forward network: widen to d_ff, GELU, narrow again. (B, T, C) -> (B, T, C)."""

    def __init__(self, d_model: int, d_ff: int, dropout: float, bias: bool = True):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, bias=bias)
        self.act = nn.GELU()  # the exact one, x * Phi(x); GPT-2 was trained with its tanh approximation
        self.fc2 = nn.Linear(d_ff, d_model, bias=bias)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.fc1(x))  # (B, T, 4C)
        return self.drop(self.fc2(x))  # (B, T, C)


class Block(nn.Module):
    """One layer, pre-norm: each branch reads a normalised copy of the stream and adds to the stream itself."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.ln1 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.attn = CausalSelfAttention(config)
        self.ln2 = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.mlp = FFN(config.n_embd, 4 * config.n_embd, config.dropout, config.bias)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        x = x + self.attn(self.ln1(x), cache)  # (B, T, C): information moves between positions
        x = x + self.mlp(self.ln2(x))  # (B, T, C): each position thinks for itself
        return x


class TinyGPT(nn.Module):
    """A decoder-only transformer: token ids (B, T) in, logits (B, T, V) for the next token at each position out."""

    blocks: Any  # a ModuleList of Blocks: for PyTorch's own types they would be just any Modules

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd, bias=config.bias)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight  # one tensor, two uses: reading tokens in and writing them out

        self.apply(self._init_weights)
        # 2L branches add to the stream. Drawn smaller by sqrt(2L), their sum starts no louder than one of them.
        for block in self.blocks:
            for proj in (block.attn.out_proj, block.mlp.fc2):
                nn.init.normal_(proj.weight, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits (B, T, V) for ids ``idx`` (B, T), and with ``targets`` (B, T) the mean cross-entropy in nats.

        Logits at position t depend on ids 0 to t only. A target of -1 is not counted.
        Raises ValueError for a wrong shape or dtype, for T above ``block_size`` and for ids outside the vocabulary.
        """
        self._check_ids("idx", idx, lowest=0)
        logits = self._logits(idx)  # (B, T, V)
        if targets is None:
            return logits, None
        if isinstance(targets, Tensor) and targets.shape != idx.shape:
            raise ValueError(f"targets must have the shape of idx, {tuple(idx.shape)}, got {tuple(targets.shape)}")
        self._check_ids("targets", targets, lowest=-1)
        # reshape, not view: targets are often a slice of a longer window, which is not contiguous.
        loss = F.cross_entropy(logits.flatten(0, 1), targets.reshape(-1).long(), ignore_index=-1)
        return logits, loss

    def _check_ids(self, name: str, ids: Tensor, lowest: int) -> None:
        V, longest = self.config.vocab_size, self.config.block_size
        if not isinstance(ids, Tensor):
            raise ValueError(f"{name} must be a tensor of token ids, got {type(ids).__name__}: use torch.tensor(...)")
        if ids.dtype not in (torch.int64, torch.int32):
            raise ValueError(f"{name} must hold token ids (int64 or int32), got dtype {ids.dtype}: use {name}.long()")
        if ids.dim() != 2 or ids.size(1) < 1:
            raise ValueError(f"{name} must have the shape (B, T) with T >= 1, got {tuple(ids.shape)}")
        if ids.size(1) > longest:
            raise ValueError(f"{name} has T={ids.size(1)} positions, more than block_size={longest}: crop it")
        # Looking at values would make a GPU wait at each step; there the embedding's own check stops a wrong id.
        if ids.device.type in ("cpu", "mps") and not torch.compiler.is_compiling() and ids.numel():
            low, high = (int(bound) for bound in torch.aminmax(ids))
            if low < lowest or high >= V:
                wrong = low if low < lowest else high
                raise ValueError(f"{name} holds the id {wrong}, outside {lowest} to {V - 1} (vocab_size={V})")

    def _logits(self, idx: Tensor, caches: list[KVCache] | None = None) -> Tensor:
        past = caches[0].length if caches else 0
        pos = torch.arange(past, past + idx.size(1), device=idx.device)  # (T,)
        x = self.drop(self.wte(idx) + self.wpe(pos))  # (B, T, C): what the token is, plus where it stands
        for layer, block in enumerate(self.blocks):
            x = block(x, caches[layer] if caches else None)  # (B, T, C)
        return self.lm_head(self.ln_f(x))  # (B, T, V)

    @torch.no_grad()
    def attention_weights(self, idx: Tensor) -> Tensor:
        """Every head's attention on ids (B, T): weights (L, B, H, T, T), row t over the positions it reads."""
        self._check_ids("idx", idx, lowest=0)
        x = self.drop(self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device)))  # (B, T, C)
        weights = []
        for block in self.blocks:
            weights.append(block.attn(block.ln1(x), need_weights=True)[1])  # (B, H, T, T)
            x = block(x)  # (B, T, C)
        return torch.stack(weights)  # (L, B, H, T, T)

    # --- Writing text -------------------------------------------------------------------------------------------

    def generate(
        self,
        idx: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Continue ids (B, T) by sampling: (B, T + max_new_tokens), the prompt unchanged at the front.

        ``temperature`` divides the logits (0: always the most probable token); ``top_k`` keeps only the k most
        probable. Only the last ``block_size`` tokens are read. Dropout is off meanwhile, the mode restored after.
        """
        tokens = [token for token, _ in self.stream(idx, max_new_tokens, temperature, top_k, generator=generator)]
        return torch.cat([idx, *tokens], dim=1)  # (B, T + max_new_tokens)

    @torch.no_grad()
    def stream(
        self,
        idx: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Like ``generate``, a token at a time: yields (token (B, 1), its distribution (B, V)).

        While the text fits into the context, each step computes only the newest position and takes the keys and
        values of the others from a cache. Beyond it the window slides: every token then stands at another
        position, so nothing stored holds any more and the window is computed afresh.
        """
        if max_new_tokens < 0:
            raise ValueError(f"max_new_tokens must be 0 or more, got {max_new_tokens}")
        longest = self.config.block_size
        cropped = isinstance(idx, Tensor) and idx.dim() == 2
        self._check_ids("idx", idx[:, -longest:] if cropped else idx, lowest=0)
        modes = [(module, module.training) for module in self.modules()]
        self.eval()
        try:
            caches = [KVCache(longest) for _ in self.blocks]
            for _ in range(max_new_tokens):
                if idx.size(1) <= longest:
                    logits = self._logits(idx[:, caches[0].length :], caches)  # (B, 1, V) after the first step
                else:
                    logits = self._logits(idx[:, -longest:])  # (B, block_size, V)
                probs = next_token_probs(logits[:, -1], temperature, top_k)  # (B, V)
                token = torch.multinomial(probs, num_samples=1, generator=generator)  # (B, 1)
                idx = torch.cat([idx, token], dim=1)  # (B, T + 1): a new tensor, the caller's stays
                yield token, probs
        finally:
            for module, training in modes:
                module.training = training

    # --- What nanoGPT's scripts ask of a model ------------------------------------------------------------------

    def get_num_params(self, non_embedding: bool = True) -> int:
        """How many parameters, the tied matrix once; by convention without the position embeddings."""
        n = sum(p.numel() for p in self.parameters())
        return n - self.wpe.weight.numel() if non_embedding else n

    def configure_optimizers(
        self, weight_decay: float, learning_rate: float, betas: tuple[float, float], device_type: str
    ) -> torch.optim.AdamW:
        """AdamW that decays matrices (2 dimensions and more) and leaves biases and LayerNorms alone."""
        params = [p for p in self.parameters() if p.requires_grad]  # parameters() lists the tied matrix once
        groups = [
            {"params": [p for p in params if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=device_type in ("cuda", "cpu"))

    def estimate_mfu(self, fwdbwd_per_iter: int, dt: float) -> float:
        """Model FLOPs utilisation: the share of this GPU's peak that ``fwdbwd_per_iter`` sequences in dt s used.

        FLOPs a token: 6N + 12·L·C·T (Chowdhery et al. 2022, appendix B). NaN on a device whose peak is not in PEAK.
        """
        cfg, device = self.config, self.wte.weight.device
        peak = peak_flops(torch.cuda.get_device_name(device)) if device.type == "cuda" else math.nan
        flops_per_token = 6 * self.get_num_params() + 12 * cfg.n_layer * cfg.n_embd * cfg.block_size
        return flops_per_token * cfg.block_size * fwdbwd_per_iter / dt / peak

    def crop_block_size(self, block_size: int) -> None:
        """Shorten the context to ``block_size`` by forgetting the later positions."""
        if not 1 <= block_size <= self.config.block_size:
            raise ValueError(f"block_size={block_size} must lie between 1 and the present {self.config.block_size}")
        self.config = replace(self.config, block_size=block_size)
        self.wpe.weight = nn.Parameter(self.wpe.weight[:block_size].detach().clone())  # (block_size, C)
        self.wpe.num_embeddings = block_size

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in torch, and also for weights saved through torch.compile (``_orig_mod.``) or DDP (``module.``).

        Raises ValueError for a head unlike the embedding: the tied matrix cannot hold both.
        """
        wrappers = ("_orig_mod.", "module.")
        plain = {}
        for name, tensor in state_dict.items():
            while name.startswith(wrappers):
                name = name.split(".", 1)[1]
            plain[name] = tensor
        wte, head = plain.get("wte.weight"), plain.get("lm_head.weight")
        tied = self.lm_head.weight is self.wte.weight
        if tied and wte is not None and head is not None and not torch.equal(head.to(wte.device), wte):
            raise ValueError("lm_head.weight differs from wte.weight: TinyGPT ties the two and cannot hold both")
        result = super().load_state_dict(plain, strict, assign)
        self.lm_head.weight = self.wte.weight  # assign=True would have put two tensors in the place of one
        return result

    @classmethod
    def from_pretrained(cls, name: str, override_args: dict[str, float] | None = None) -> "TinyGPT":
        """GPT-2's published weights ('gpt2', 'gpt2-medium', 'gpt2-large', 'gpt2-xl'), or a local folder.

        A folder holds ``config.json`` and ``model.safetensors`` in Hugging Face's layout. Only ``dropout`` may be
        overridden. GPT-2 was trained with the tanh approximation of GELU and this model has the exact one: the
        book's page on nanoGPT says how far that moves the logits.
        """
        override_args = override_args or {}
        if set(override_args) - {"dropout"}:
            raise ValueError(f"only dropout can be overridden in a pretrained model, got {sorted(override_args)}")
        folder, files = Path(name), ("config.json", "model.safetensors")
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load_file

            if folder.is_dir():
                paths = [folder / file for file in files]
            elif name in GPT2_SIZES:
                from huggingface_hub import hf_hub_download

                paths = [Path(hf_hub_download(f"openai-community/{name}", file)) for file in files]
            else:
                raise ValueError(f"{name!r} is neither a folder nor one of {', '.join(GPT2_SIZES)}")
        except ImportError as error:
            raise ImportError(f"from_pretrained needs {error.name}: pip install 'tiny-gpt[gpt2]'") from error
        missing = [path.name for path in paths if not path.is_file()]
        if missing:
            raise ValueError(
                f"{name} lacks {' and '.join(missing)}: expected Hugging Face's layout, all weights in one file"
            )
        try:
            hf, theirs = json.loads(paths[0].read_text(encoding="utf-8")), load_file(paths[1])
        except (json.JSONDecodeError, SafetensorError) as error:
            raise ValueError(f"a file of {name} is damaged ({error}): fetch it again") from error
        model = cls(config_from_gpt2(hf, **override_args))
        try:
            model.load_state_dict(state_dict_from_gpt2(theirs, transposed=True))
        except RuntimeError as error:  # torch lists every name and shape that does not fit
            raise ValueError(f"the weights of {name} do not fit its config.json: {error}") from None
        return model


def next_token_probs(logits: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """The distribution (B, V) that the next token is drawn from, given the logits (B, V) of the last position.

    ``temperature`` 0 is the limit: all probability on the largest logit. A ``top_k`` above V keeps everything.
    """
    if not temperature >= 0:
        raise ValueError(f"temperature must be 0 or more, got {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be 1 or more (or None to keep every token), got {top_k}")
    logits = logits.float()  # (B, V)
    if temperature == 0:
        return F.one_hot(logits.argmax(dim=-1), logits.size(-1)).float()  # (B, V)
    # Softmax does not feel a common shift; this one keeps a tiny temperature from overflowing.
    temperature = max(temperature, torch.finfo(torch.float32).tiny)  # a smaller one would be rounded to 0
    scaled = (logits - logits.amax(dim=-1, keepdim=True)) / temperature  # (B, V), the largest is 0
    if top_k is not None:
        kept, _ = torch.topk(logits, min(top_k, logits.size(-1)))  # (B, k), largest first
        scaled = scaled.masked_fill(logits < kept[:, [-1]], -math.inf)  # (B, V)
    return F.softmax(scaled, dim=-1)  # (B, V)


# Dense bf16/fp16 tensor-core peaks in FLOP/s, from NVIDIA's data sheets.
PEAK = {
    "H200 NVL": 835e12, "H200": 989e12, "H100 HBM3": 989e12, "H100 PCIe": 756e12, "H100 NVL": 835e12, "A100": 312e12,
    "L40S": 362e12, "A10": 125e12, "A10G": 70e12, "L4": 121e12, "V100 SXM2": 125e12, "T4": 65e12,
}  # fmt: skip


def peak_flops(device_name: str) -> float:
    """The peak of the GPU with this name; NaN if it is not in PEAK, rather than the peak of another one."""
    words = device_name.replace("-", " ").split()
    if "MIG" in words:  # a slice of a GPU, whose share the name does not tell
        return math.nan
    return next((flops for name, flops in PEAK.items() if set(name.split()) <= set(words)), math.nan)


GPT2_SIZES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")

# What GPT-2 calls by another name: (ours, its).
GPT2_NAMES = (
    (".blocks.", ".h."), (".ln1.", ".ln_1."), (".ln2.", ".ln_2."), (".attn.qkv.", ".attn.c_attn."),
    (".attn.out_proj.", ".attn.c_proj."), (".mlp.fc1.", ".mlp.c_fc."), (".mlp.fc2.", ".mlp.c_proj."),
)  # fmt: skip


def config_from_gpt2(hf: dict[str, Any], **overrides: Any) -> GPTConfig:
    """The GPTConfig that says what a Hugging Face GPT-2 ``config.json`` says; ValueError if TinyGPT cannot be that."""
    needed = ("vocab_size", "n_positions", "n_layer", "n_head", "n_embd")
    if missing := [key for key in needed if key not in hf]:
        raise ValueError(f"config.json lacks {', '.join(missing)}: it does not describe a GPT-2")
    allowed = {
        "activation_function": ("gelu", "gelu_new", "gelu_pytorch_tanh"), "n_inner": (None, 4 * hf["n_embd"]),
        "layer_norm_epsilon": (1e-5,), "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,),
        "tie_word_embeddings": (True,), "add_cross_attention": (False,),
    }  # fmt: skip
    for key, values in allowed.items():
        if key in hf and hf[key] not in values:
            raise ValueError(f"config.json has {key}={hf[key]!r}, which TinyGPT cannot be; it can be one of {values}")
    sizes = {key: hf[key] for key in ("vocab_size", "n_layer", "n_head", "n_embd")}
    return GPTConfig(**sizes, block_size=hf["n_positions"], bias=True, **overrides)


def state_dict_from_gpt2(theirs: dict[str, Tensor], transposed: bool) -> dict[str, Tensor]:
    """TinyGPT's state dict from one with GPT-2's names; ``transposed`` if its matrices are (in, out), as HF's are."""
    ours = {}
    for name, tensor in theirs.items():
        if name.endswith((".attn.bias", ".masked_bias")):
            continue  # the causal mask that old checkpoints store: not a weight
        name = "." + name.removeprefix("transformer.")
        if transposed and tensor.dim() == 2 and (".attn." in name or ".mlp." in name):
            tensor = tensor.t()  # (in, out) -> (out, in), as nn.Linear has it
        for our_part, gpt2_part in GPT2_NAMES:
            name = name.replace(gpt2_part, our_part)
        ours[name[1:]] = tensor
    if "wte.weight" not in ours:
        raise ValueError(f"wte.weight is missing: these are not weights with GPT-2's names, found {list(theirs)[:4]}")
    ours.setdefault("lm_head.weight", ours["wte.weight"])
    return ours
