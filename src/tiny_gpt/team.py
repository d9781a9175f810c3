"""Several processes that train one model together, as ``torchrun`` starts them. One alone is a team of one.

Each takes its share of the rows of every batch; the gradients are averaged. So the run is the one that a single
process makes with the same settings, but for rounding and for what dropout draws.
"""

import atexit
import os
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Team:
    """This process's place among ``size`` of them: ``rank`` 0 is the one that speaks and saves."""

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> "Team":
        """What torchrun says in the environment; a team of one without it."""
        size = int(os.environ.get("WORLD_SIZE", "1"))
        return cls(int(os.environ.get("RANK", "0")) if size > 1 else 0, size)  # a RANK alone is somebody else's

    def own_device(self, device: torch.device) -> torch.device:
        """A GPU of its own for each process on a machine, if ``device`` is 'cuda' without a number."""
        if self.size > 1 and device.type == "cuda" and device.index is None:
            return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        return device

    def connect(self, device: torch.device) -> None:
        """Let the processes talk, for as long as they live: over NCCL between GPUs, else over Gloo."""
        if self.size == 1 or distributed.is_initialized():
            return
        if device.type == "cuda":
            torch.cuda.set_device(device)
            atexit.register(distributed.destroy_process_group)  # what NCCL holds on a GPU; Gloo needs no farewell
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def parallel(self, module: nn.Module) -> nn.Module:
        """``module`` with its gradients averaged over the team in each backward pass."""
        return module if self.size == 1 else nn.parallel.DistributedDataParallel(module)

    def share(self, *batch: Tensor) -> tuple[Tensor, ...]:
        """This process's rows of tensors (B, ...), (B / size, ...) each; B is a multiple of ``size``."""
        return tuple(rows.chunk(self.size)[self.rank] for rows in batch)

    def mean(self, tensor: Tensor) -> Tensor:
        """The mean of everybody's tensor, the same on all."""
        if self.size > 1:
            distributed.all_reduce(tensor)
        return tensor / self.size

    def collect(self, thing: Thing) -> list[Thing]:
        """Everybody's ``thing``, in the order of rank. Who asks waits for the others."""
        things = [thing] * self.size
        if self.size > 1:
            distributed.all_gather_object(things, thing)
        return things
