"""The mean loss of a model: on fixed batches, the same at every evaluation, or on a whole text."""

from collections.abc import Iterator

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from ..data import get_batch
from ..model import TinyGPT
from ..team import Team
from .config import TrainConfig
from .device import autocast, precision


@torch.no_grad()
def evaluate(model: TinyGPT, ids: Integer[Tensor, "N"], config: TrainConfig, *, batches: int | None = None) -> float:
    """The model's mean loss, nats, on ``batches`` fixed batches of ids (N,): the same ones whenever it is called.

    By default as many as ``config.eval_batches``. Dropout is off meanwhile, the mode restored after.
    """
    device = model.wte.weight.device
    dtype = precision(config, device)
    losses = list(batch_losses(model, model, ids.to(device), config, batches or config.eval_batches, dtype))
    return float(torch.stack(losses).cpu().double().mean())  # an Apple GPU has no double precision


@torch.no_grad()
def whole_loss(model: TinyGPT, ids: Integer[Tensor, "N"]) -> float:
    """The mean loss, nats, of a model in eval mode on all windows of ids (N,) that do not overlap."""
    T = model.config.block_size
    n = (len(ids) - 1) // T
    ids = ids.to(model.wte.weight.device)
    x, y = ids[: n * T].view(n, T), ids[1 : n * T + 1].view(n, T)  # (n, T) each
    parts = [(len(a), model(a, b)[1].item()) for a, b in zip(x.split(64), y.split(64), strict=True)]
    total: float = sum(size * loss for size, loss in parts)
    return total / n


def batch_losses(
    model: TinyGPT,
    forward: nn.Module,
    ids: Integer[Tensor, "N"],
    config: TrainConfig,
    batches: int,
    dtype: torch.dtype,
    team: Team = Team(),  # noqa: B008 (frozen)
) -> Iterator[Tensor]:
    """The loss (a scalar) on this process's share of each fixed batch; ``forward`` may be the model's compiled form."""
    generator = torch.Generator().manual_seed(config.eval_seed)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for _ in range(batches):
            x, y = get_batch(ids, config.batch_size, model.config.block_size, generator=generator)  # (B, T) each
            with torch.no_grad(), autocast(ids.device, dtype):
                yield forward(*team.share(x, y))[1]
    finally:
        for module, training in modes:
            module.training = training
