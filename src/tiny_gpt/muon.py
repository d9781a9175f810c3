"""Muon, an optimizer for matrices: momentum, then a step of equal length in every direction that the matrix has.

Source: Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks". ``torch.optim.Muon`` does the
same in bfloat16, one matrix after another: where bfloat16 is not native, as on most CPUs, that takes forty times as
long as in float32. This one also works with every torch that the package allows.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from jaxtyping import Float
from torch import Tensor


def orthogonalized(G: Float[Tensor, "*N R C"], steps: int = 5) -> Float[Tensor, "*N R C"]:
    """Nearly U Vᵀ for each matrix G = U S Vᵀ (R, C): the same directions, all singular values made about 1.

    Each step puts every singular value s through 3.4445 s - 4.775 s³ + 2.0315 s⁵, which needs matrix products only.
    After five of them what was above 0.003 of the matrix's norm lies between 0.6 and 1.3.
    """
    X: Tensor = G.mT if G.size(-2) > G.size(-1) else G  # the products below are as large as the shorter side
    X = X / (X.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # no singular value is above 1
    for _ in range(steps):
        A = X @ X.mT
        X = 3.4445 * X + (-4.775 * A + 2.0315 * A @ A) @ X
    return X.mT if G.size(-2) > G.size(-1) else X


class Muon(torch.optim.Optimizer):
    """Muon for weights that are matrices, with decoupled weight decay. A step is 0.2 in the root mean square times lr.

    That is about what AdamW's steps are, so that the same learning rate and weight decay suit both.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
    ):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        for group in self.param_groups:
            for p in group["params"]:
                if p.dim() != 2:
                    raise ValueError(f"Muon is for matrices, got a parameter of shape {tuple(p.shape)}: use AdamW")

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One update of every weight that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            # matrices of one shape go through the products together
            alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    alike[p.shape].append(p)
            for (rows, columns), params in alike.items():
                for p in params:
                    if "momentum" not in self.state[p]:
                        self.state[p]["momentum"] = torch.zeros_like(p)
                grads = [p.grad for p in params if p.grad is not None]  # as all have
                averages = [self.state[p]["momentum"] for p in params]
                torch._foreach_lerp_(averages, grads, 1 - group["momentum"])
                # Nesterov's variant: a look ahead, where this gradient weighs once more.
                ahead = torch.stack(torch._foreach_lerp(grads, averages, group["momentum"]))  # (N, R, C)
                directions = orthogonalized(ahead).mul_(0.2 * math.sqrt(max(rows, columns)))  # (N, R, C)
                torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
                torch._foreach_add_(params, list(directions), alpha=-group["lr"])
        return loss
