"""The mean loss of a model: on fixed batches, the same at every evaluation, or on a whole text."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Integer
from torch import Tensor, nn

from ..data import get_batch
from ..model import GPTConfig
from ..roles import config_of
from ..team import Team
from .config import TrainConfig
from .device import autocast, precision


@torch.no_grad()
def evaluate(model: nn.Module, ids: Integer[Tensor, "N"], config: TrainConfig, *, batches: int | None = None) -> float:
    """The model's mean loss, nats, on ``batches`` fixed batches of ids (N,): the same ones whenever it is called.

    By default as many as ``config.eval_batches``. Dropout is off meanwhile, the mode restored after.
    """
    device, sizes = next(model.parameters()).device, config_of(model)
    dtype = precision(config, device)
    number = batches or config.eval_batches
    losses = list(batch_losses(model, lambda x, y: model(x, y)[1], ids.to(device), config, sizes, number, dtype))
    return float(torch.stack(losses).cpu().double().mean())  # an Apple GPU has no double precision


@torch.no_grad()
def whole_loss(model: nn.Module, ids: Integer[Tensor, "N"]) -> float:
    """The mean loss, nats, of a model in eval mode on all windows of ids (N,) that do not overlap."""
    T = config_of(model).block_size
    n = (len(ids) - 1) // T
    ids = ids.to(next(model.parameters()).device)
    x, y = ids[: n * T].view(n, T), ids[1 : n * T + 1].view(n, T)  # (n, T) each
    parts = [(len(a), model(a, b)[1].item()) for a, b in zip(x.split(64), y.split(64), strict=True)]
    total: float = sum(size * loss for size, loss in parts)
    return total / n


def batch_losses(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    ids: Integer[Tensor, "N"],
    config: TrainConfig,
    sizes: GPTConfig,
    batches: int,
    dtype: torch.dtype,
    team: Team = Team(),  # noqa: B008 (frozen)
) -> Iterator[Tensor]:
    """The loss (a scalar) on this process's share of each fixed batch, by ``loss``, the model's or a compiled one's."""
    generator = torch.Generator().manual_seed(config.eval_seed)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for _ in range(batches):
            x, y = get_batch(ids, config.batch_size, sizes.block_size, generator=generator)  # (B, T) each
            with torch.no_grad(), autocast(ids.device, dtype):
                yield loss(*team.share(x, y))
    finally:
        for module, training in modes:
            module.training = training
