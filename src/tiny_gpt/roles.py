"""Which of a reader's parameters plays which role, found by tracing, whatever its name and however it is stored.

A copy of the model is given loud random weights in double precision and run once under ``check.trace``, which knows
for every number of every product where it was moved from. So the weight that makes channel d of head h's query is
found as a place in the reader's own parameters, and likewise every other number of the book's model: the result is a
table of places, which turns the reader's weights into a state dict for ``TinyGPT``. Whether that model computes the
same is then not believed but tried.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor, nn

from .check.anatomy import Anatomy, dissect
from .check.attention import operands
from .check.causes import CAUSES
from .check.places import ZERO, NotCarriedOver, Places, gathered
from .check.subject import Subject, outputs
from .check.trace import Trace, recorded
from .model import GPTConfig, TinyGPT
from .rng import seeded

__all__ = ["NotCarriedOver", "Roles", "carried_over", "config_of", "find_roles", "matrices_of_blocks", "prove"]

B = 3  # texts that the model is traced on


@dataclass(frozen=True)
class Roles:
    """For each parameter of ``TinyGPT(config)`` the places of its numbers in the reader's parameters, end to end."""

    config: GPTConfig
    places: Mapping[str, Tensor]

    def state_dict(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
        """The reader's weights under the book's names, for ``TinyGPT(self.config)``."""
        state = gathered(dict(self.places), [p.detach().to("cpu", dtype) for p in model.parameters()])
        return {**state, "lm_head.weight": state["wte.weight"]}


def config_of(model: nn.Module) -> GPTConfig:
    """The sizes of a model that somebody wrote: those of the book's ``GPTConfig``, read off the config that it keeps.

    Raises ValueError if the model keeps none under any name.
    """
    names = [field.name for field in fields(GPTConfig)]
    for value in vars(model).values():
        if all(hasattr(value, name) for name in names if name not in ("dropout", "bias")):
            return GPTConfig(**{name: getattr(value, name) for name in names if hasattr(value, name)})
    raise ValueError(
        f"the model keeps no config with {', '.join(names[:5])}: write self.config = config in its __init__"
    )


def find_roles(model: nn.Module, config: GPTConfig | None = None) -> Roles:
    """The roles of the parameters of a GPT that somebody wrote: ``model(idx, targets)`` returns logits and loss.

    ``config`` has its sizes; without it they are read off the model. Raises NotCarriedOver for a model that computes
    something else than ``TinyGPT`` does, with the part that differs.
    """
    config = config or config_of(model)
    loud = _amplified(model, config)
    trace, anatomy = _anatomy(loud, config)
    _without_findings(anatomy)
    places = Places(loud, vars(config), trace, anatomy).find()
    biased = any(bool((place != ZERO).any()) for name, place in places.items() if name.endswith("bias"))
    if not biased:
        places = {name: place for name, place in places.items() if not name.endswith("bias")}
    roles = Roles(replace(config, bias=biased, n_layer=len(anatomy.layers)), places)
    prove(loud, roles, 1e-4)
    return roles


def carried_over(model: nn.Module, config: GPTConfig | None = None) -> TinyGPT:
    """The book's model with the weights of one that somebody wrote, in eval mode on the CPU.

    Its logits equal the reader's within 1e-5 over several lengths, which is tried here. Raises NotCarriedOver.
    """
    if isinstance(model, TinyGPT):
        return model
    config = config or config_of(model)
    return prove(model, find_roles(model, config))


def matrices_of_blocks(model: nn.Module, config: GPTConfig) -> list[nn.Parameter]:
    """The parameters that are matrices within the blocks: all matrices but the embeddings and the unembedding."""
    if isinstance(model, TinyGPT):
        outside = {model.wte.weight, model.wpe.weight}
    else:
        trace, anatomy = _anatomy(_amplified(model, config), config)
        numbers = set().union(*anatomy.roles.values(), trace.weight_of(anatomy.head) if anatomy.head else ())
        outside = {p for n, p in enumerate(model.parameters()) if n in numbers}
    return [p for p in model.parameters() if p.dim() == 2 and p not in outside]


def attention_weights(module: nn.Module, x: Tensor) -> Tensor:
    """The attention weights (H, T, T) of a head, an attention or a block that somebody wrote, on one text x (1, T, C).

    Raises ValueError if none can be seen in what the module computes.
    """
    was_training = module.training
    with torch.no_grad(), recorded(1, x.size(1), [x], list(module.parameters())) as trace:
        module.eval()(x)
    module.train(was_training)
    mixes = [event for event in trace.events if event.kind == "pair" and event.scores is not None]
    if not mixes:
        raise ValueError(f"{type(module).__name__} mixes no positions by weights that can be seen")
    return torch.cat([operands(mix).P for mix in mixes])


# --- One run of the loud copy -----------------------------------------------------------------------------------------


def _amplified(model: nn.Module, config: GPTConfig) -> nn.Module:
    """A copy in double precision whose weights are random, so large that every path counts, and all different."""
    loud = copy.deepcopy(model).cpu().double().eval()
    Subject(type(model), sizes=vars(config)).amplify(loud, 0, 1.0, 1.0, vars(config))
    return loud


def _anatomy(loud: nn.Module, config: GPTConfig) -> tuple[Trace, Anatomy]:
    """What the loud copy computed on B texts, and the parts that the checker finds in it."""
    T = min(11, config.block_size)
    draws = torch.Generator().manual_seed(1)
    ids, targets = torch.randint(config.vocab_size, (2, B, T), generator=draws)  # (B, T) each
    weights = list(loud.parameters())  # a tied one comes once
    with recorded(B, T, [ids, targets], weights) as trace:
        logits = loud(ids, targets)[0]
    with torch.no_grad():
        every = [*(w.detach() for w in weights), *(w.detach() for w in trace.strays)]
        return trace, dissect(trace, logits.detach(), ids, vars(config), every, len(weights))


def _without_findings(anatomy: Anatomy) -> None:
    if anatomy.judged.findings:
        finding = anatomy.judged.findings[0]
        raise NotCarriedOver(
            f"{CAUSES[finding.id].cause} ({finding.evidence}.) The book's model cannot compute the same: mend that "
            "first, tiny-gpt check says more"
        )
    if anatomy.judged.notes or not anatomy.complete:
        raise NotCarriedOver(f"the book's model has no such part: {'; '.join(anatomy.judged.notes)}")


# --- The proof --------------------------------------------------------------------------------------------------------


def prove(model: nn.Module, roles: Roles, tolerance: float = 1e-5) -> TinyGPT:
    """The book's model with a model's weights, on the CPU, if the logits of both are the same; else NotCarriedOver.

    Both compute in double precision, on texts of four lengths up to the whole context.
    """
    with seeded(0):
        ours = TinyGPT(roles.config)
    ours.load_state_dict(roles.state_dict(model))
    ours.eval()
    double, theirs = copy.deepcopy(ours).double(), copy.deepcopy(model).cpu().double().eval()
    double.load_state_dict(roles.state_dict(model, torch.float64))  # loud weights in float32 would be another model
    N, V = roles.config.block_size, roles.config.vocab_size
    draws = torch.Generator().manual_seed(2)
    for T in sorted({1, 2, N // 2 + 1, N}):
        ids = torch.randint(V, (2, T), generator=draws)  # (2, T)
        gap = float((outputs(double, ids, ids) - outputs(theirs, ids, ids)[..., :V]).abs().max())
        if not gap <= tolerance:
            raise NotCarriedOver(f"on {T} characters its logits differ by {gap:.2g} from those of the book's model")
    return ours
