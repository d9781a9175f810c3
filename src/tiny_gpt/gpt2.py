"""Weights to and from checkpoints with GPT-2's names: Hugging Face's and nanoGPT's.

Both name things alike (``transformer.h.0.attn.c_attn.weight``). They differ in the layout of the four matrices of a
block: Hugging Face stores (in, out), "transposed" here, and nanoGPT (out, in) as ``nn.Linear`` does. The names are
``model.GPT2_NAMES``. TinyGPT's GELU is the exact one and GPT-2's its tanh approximation: weights carry over, logits
move a little.
"""

from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from .model import GPT2_NAMES, GPTConfig, TinyGPT, state_dict_from_gpt2


def to_gpt2(model: TinyGPT, transposed: bool = True) -> dict[str, Float[Tensor, "..."]]:
    """The model's weights with GPT-2's names; ``transposed`` for Hugging Face's layout, False for nanoGPT's.

    The tensors share the model's memory (the transposed ones as views): ``.clone()`` what you change, and
    ``.contiguous()`` what safetensors is to write.
    """
    theirs = {}
    for name, tensor in model.state_dict().items():
        if transposed and tensor.dim() == 2 and (".attn." in name or ".mlp." in name):
            tensor = tensor.t()  # (out, in) -> (in, out)
        name = f".{name}"  # so that every part has a dot on both sides
        for our_part, gpt2_part in GPT2_NAMES:
            name = name.replace(our_part, gpt2_part)
        theirs[name[1:] if name == ".lm_head.weight" else f"transformer{name}"] = tensor
    return theirs


def from_gpt2(
    state_dict: Mapping[str, Float[Tensor, "..."]], config: GPTConfig | None = None, transposed: bool = True
) -> TinyGPT:
    """A TinyGPT with weights that have GPT-2's names; ``transposed`` for Hugging Face's layout, False for nanoGPT's.

    Without ``config`` the sizes are read off the tensors. The number of heads leaves no trace in them: it is then
    taken from GPT-2's head width, 64 channels. Prefixes of torch.compile and DDP are dropped.

    Raises ValueError if the names are not GPT-2's, the matrices are in the other layout, the number of heads cannot
    be known, or the sizes are not those of ``config``.
    """
    plain = {}
    for name, tensor in state_dict.items():
        while name.startswith(("_orig_mod.", "module.")):
            name = name.split(".", 1)[1]
        plain[name.removeprefix("transformer.")] = tensor
    missing = [name for name in ("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight") if name not in plain]
    if missing:
        some = ", ".join(list(state_dict)[:4]) or "nothing"
        raise ValueError(f"these are not weights with GPT-2's names: {', '.join(missing)} missing, found {some}, ...")
    (V, C), longest = plain["wte.weight"].shape, plain["wpe.weight"].size(0)

    fused = tuple(plain["h.0.attn.c_attn.weight"].shape)
    expected, other = ((C, 3 * C), (3 * C, C)) if transposed else ((3 * C, C), (C, 3 * C))
    if fused == other:
        raise ValueError(
            f"c_attn.weight has the shape {fused}, transposed={transposed} means {expected}: "
            f"this is {'nanoGPT' if transposed else 'Hugging Face'}'s layout, give transposed={not transposed}"
        )
    if config is None:
        if C % 64:
            raise ValueError(f"the number of heads cannot be read off a width of {C}: give config=GPTConfig(...)")
        layers = {int(name.split(".")[1]) for name in plain if name.startswith("h.")}
        config = GPTConfig(
            vocab_size=V, block_size=longest, n_layer=len(layers), n_head=C // 64, n_embd=C, bias="ln_f.bias" in plain
        )
    model = TinyGPT(config)
    try:
        model.load_state_dict(state_dict_from_gpt2(plain, transposed))
    except RuntimeError as error:  # torch lists every name and shape that does not fit
        raise ValueError(f"these weights do not fit {config}: {error}") from None
    return model
