"""How a new model's weights are drawn: 0.02 for matrices and embeddings, 0 for biases, 1 for gains."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .probes import Probes
from .subject import Written

STD = 0.02
WIDE = {"vocab_size": 211, "block_size": 48, "n_head": 4, "n_embd": 64}
ROOM = 0.1  # of 4000 draws the standard deviation is known to about 1 per cent
CUT = 0.85  # a normal distribution cut off at two standard deviations has 0.88 of the whole one's


def probe(probes: Probes) -> None:
    """Judge each weight of a new, wider model by its standard deviation."""
    subject = probes.subject
    model = subject.build(3, **WIDE)
    writers, tables, matrices = _roles(probes)
    smallest = STD / math.sqrt(2 * subject.sizes["n_layer"])
    default: list[tuple[str, float]] = []  # names of matrices with their standard deviations
    wrong: list[tuple[str, float]] = []
    biases: list[tuple[str, Tensor]] = []
    for number, (name, parameter) in enumerate(model.named_parameters()):
        p = parameter.detach().double()
        is_constant = _constant(p, 0.0) or _constant(p, 1.0)
        if p.dim() < 2 or max(p.shape) == p.numel() or (number not in matrices and is_constant):
            if not _constant(p, 0.0) and not _constant(p, 1.0):
                biases.append((name, p))
            continue
        std, mean = float(p.std()), float(p.mean())
        low = smallest if number in writers or number not in matrices else STD
        if number in tables:
            low = 0.01  # GPT-2 itself drew its position embeddings at 0.01
        if not low * CUT <= std <= STD * (1 + ROOM) or abs(mean) > 0.25 * std:
            (default if _is_default(p, std) else wrong).append((name, std))
    if default and len(default) >= len(wrong):
        name, std = _loudest(default)
        probes.found(
            "init-default", f"{name} starts with a standard deviation of {std:.3g}, PyTorch's own; 0.02 is asked for"
        )
    elif wrong:
        name, std = _loudest(default + wrong)
        probes.found("init-wrong-std", f"{name} starts with a standard deviation of {std:.3g}; 0.02 is asked for")
    if biases and not default:
        name, p = biases[0]
        probes.found(
            "init-bias", f"{name} starts between {float(p.min()):.3g} and {float(p.max()):.3g}, not at 0 (a gain: at 1)"
        )
    other = subject.build(4, **WIDE)
    pairs = list(zip(model.parameters(), other.parameters(), strict=True))
    if all(torch.equal(a, b) for a, b in pairs) and not wrong:
        probes.found(
            "global-state", "two models built after different seeds have the same weights: the code seeds torch"
        )
    if not default and not wrong:
        _first_loss(probes, model)


def _roles(probes: Probes) -> tuple[set[int], set[int], set[int]]:
    """Numbers of the weights that write to the stream, of the position table, and of all matrices, where known."""
    writers: set[int] = set()
    anatomy, trace = probes.anatomy, probes.trace
    if (
        anatomy is not None
        and trace is not None
        and anatomy.complete
        and not probes.has("blocks-skipped", "blocks-shared")
    ):
        for layer in anatomy.layers:
            events = [layer.attention.out, *(pair[1] for pair in layer.ffn)]
            writers |= {n for e in events if e is not None for n in trace.weight_of(e)}
        positions = anatomy.roles.get("position embedding", set())
        used = {n for e in trace.events if e.kind == "linear" for n in trace.weight_of(e)}
        return writers, positions, used | positions | anatomy.roles.get("token embedding", set())
    return writers, set(), set()


def _constant(p: Tensor, value: float) -> bool:
    return bool((p == value).all())


def _loudest(found: list[tuple[str, float]]) -> tuple[str, float]:
    return max(found, key=lambda pair: abs(math.log(max(pair[1], 1e-12) / STD)))


def _is_default(p: Tensor, std: float) -> bool:
    """Embedding's N(0, 1), Linear's uniform with variance 1 / (3 fan_in), or attention's Xavier draw."""
    if abs(std - 1) < ROOM / 2:
        return True
    known = [1 / math.sqrt(3 * p.size(-1))]
    if p.size(0) == 3 * p.size(-1):  # nn.MultiheadAttention draws its three matrices by Xavier's rule
        known.append(math.sqrt(2 / (p.size(0) + p.size(-1))))
    uniform = float(p.abs().max()) < 1.9 * std
    return uniform and any(abs(std / value - 1) < ROOM / 2 for value in known)


def _first_loss(probes: Probes, model: Written) -> None:
    """The first loss must be about ln V + C·0.02²/2 nats."""
    subject, V = probes.subject, WIDE["vocab_size"]
    generator = subject.generator(11)
    x, y = torch.randint(V, (2, 16, WIDE["block_size"]), generator=generator)
    model.eval()
    with torch.no_grad():
        logits = model(x, y)[0]
    if logits.dim() != 3 or logits.size(1) != x.size(1) or probes.has("logits-are-probabilities"):
        return
    first = float(F.cross_entropy(logits[..., :].reshape(-1, logits.size(-1)).double(), y.reshape(-1)))
    want = math.log(V) + WIDE["n_embd"] * STD**2 / 2
    if abs(first - want) > 0.5 and not probes.has("embedding-scaled", "final-norm-missing", "logits-scaled"):
        probes.found("init-wrong-std", f"the first loss is {first:.2f} nats; ln V + C·0.02²/2 is {want:.2f}")
