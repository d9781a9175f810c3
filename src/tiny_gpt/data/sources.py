"""Toy sources: endless text whose least possible loss is known exactly.

Shapes: B batch, T time (positions), V vocabulary. Entropies and losses are in nats.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right

import torch
from jaxtyping import Float, Int64
from torch import Tensor


class ToySource(ABC):
    """Text whose least possible loss is known exactly: no model that sees only the past can do better on average.

    ``floors(T)`` is that least loss for each of the T targets of a window that ``batch`` makes, in nats;
    ``floor(T)`` is their mean, what a model's own loss is to be compared with.
    """

    vocab_size: int  # V

    @property
    @abstractmethod
    def entropy_rate(self) -> float:
        """Nats a token, in the long run: exact, not estimated."""

    @abstractmethod
    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B independent stretches of text (B, length)."""

    @abstractmethod
    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """The least expected loss at each target (T,) of a window of T tokens, in nats, float64."""

    @abstractmethod
    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The loss (B, T), nats, of the perfect model on windows from ``batch``: -ln p(y | all of the past)."""

    def sample(self, n: int, *, generator: torch.Generator) -> Int64[Tensor, "n"]:
        """A text of n tokens, ids (n,)."""
        return self.windows(1, n, generator=generator)[0]

    def batch(
        self, batch_size: int, block_size: int, *, generator: torch.Generator
    ) -> tuple[Int64[Tensor, "B T"], Int64[Tensor, "B T"]]:
        """B fresh windows: inputs x (B, T) and targets y (B, T). Nothing comes twice, so nothing can be memorised."""
        windows = self.windows(batch_size, block_size + 1, generator=generator)  # (B, T + 1)
        return windows[:, :-1], windows[:, 1:]  # (B, T) each

    def floor(self, block_size: int) -> float:
        """The least expected mean loss over the T targets of a window, in nats."""
        return float(self.floors(block_size).mean())


class MarkovSource(ToySource):
    """A chain in which the next symbol depends on the present one only.

    ``transition`` (V, V): row i is the distribution of what follows symbol i. Text starts in the stationary
    distribution, so every stretch of it looks alike. Raises ValueError if a row is not a distribution, or if the
    chain falls apart into several that never meet (then its entropy rate depends on where it starts).
    """

    def __init__(self, transition: Float[Tensor, "V V"] | list[list[float]]):
        P = torch.as_tensor(transition, dtype=torch.float64)  # (V, V)
        if P.dim() != 2 or P.size(0) != P.size(1):
            raise ValueError(f"transition must be a square matrix (V, V), got {tuple(P.shape)}")
        for i, row in enumerate(P):
            if not (row >= 0).all() or abs(float(row.sum()) - 1) > 1e-6:
                raise ValueError(f"row {i} of transition must be 0 or more and sum to 1, got {row.tolist()}")
        self.transition = P / P.sum(dim=1, keepdim=True)  # (V, V)
        self.vocab_size = V = P.size(0)
        # The stationary distribution solves pi P = pi with sum 1; it is unique if 1 is a simple eigenvalue of P.
        balance = self.transition.T - torch.eye(V, dtype=torch.float64)  # (V, V), rank V - 1 if unique
        if int(torch.linalg.matrix_rank(balance, atol=1e-9)) < V - 1:
            raise ValueError("the chain has several stationary distributions: let its symbols be reachable")
        system = torch.cat([balance, torch.ones(1, V, dtype=torch.float64)])  # (V + 1, V)
        right = torch.zeros(V + 1, 1, dtype=torch.float64)  # (V + 1, 1)
        right[-1] = 1
        self.stationary = torch.linalg.lstsq(system, right).solution[:, 0].clamp_min(0)  # (V,)
        rows = torch.cat([self.transition, self.stationary[None]])  # (V + 1, V): the last row starts a text
        cumulative = rows.cumsum(dim=1)  # (V + 1, V)
        self._cumulative = (cumulative / cumulative[:, -1:]).tolist()

    @property
    def entropy_rate(self) -> float:
        """The rows' entropies, weighted by how often each symbol occurs: nats a token."""
        row_entropies = -torch.special.xlogy(self.transition, self.transition).sum(dim=1)  # (V,)
        return float(self.stationary @ row_entropies)

    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B independent stretches of the chain (B, length), each begun in the stationary distribution."""
        draws = torch.rand(batch_size, length, generator=generator, dtype=torch.float64).tolist()
        rows = []
        for row in draws:
            symbol, symbols = self.vocab_size, []  # the extra row: no symbol before the first
            for u in row:
                symbol = bisect_right(self._cumulative[symbol], u)  # the first symbol whose cumulative exceeds u
                symbols.append(symbol)
            rows.append(symbols)
        return torch.tensor(rows, dtype=torch.int64).view(batch_size, length)

    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """The entropy rate at each of the T targets: the symbol before is always in the window, more never helps."""
        return torch.full((block_size,), self.entropy_rate, dtype=torch.float64)

    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """-ln P[x, y] at every target (B, T), nats."""
        return -self.transition[x, y].log()


class CopySource(ToySource):
    """``length`` random symbols, then the same again, then new ones: half can only be guessed, half is known.

    Windows start where a first half starts. A model that copies needs to find the place ``length`` - 1 tokens back
    and to hand over what stood there: attention's own trade.
    """

    def __init__(self, vocab_size: int, length: int):
        if vocab_size < 1 or length < 1:
            raise ValueError(f"vocab_size and length must be 1 or more, got {vocab_size} and {length}")
        self.vocab_size, self.length = vocab_size, length

    @property
    def entropy_rate(self) -> float:
        """Half of ln V: nats a token."""
        return math.log(self.vocab_size) / 2

    def windows(self, batch_size: int, length: int, *, generator: torch.Generator) -> Int64[Tensor, "B length"]:
        """B stretches (B, length), each begun with a first half."""
        n = self.length
        pairs = -(-length // (2 * n))  # enough first-and-second halves to cover the stretch
        halves = torch.randint(self.vocab_size, (batch_size, pairs, 1, n), generator=generator)
        return halves.expand(-1, -1, 2, -1).reshape(batch_size, -1)[:, :length]  # (B, length)

    def floors(self, block_size: int) -> Float[Tensor, "T"]:
        """ln V at the targets (T,) that are new symbols, 0 at those that are copies."""
        guesses = torch.full((block_size,), math.log(self.vocab_size), dtype=torch.float64)  # (T,)
        return guesses.masked_fill(self.is_copy(block_size), 0.0)  # (T,)

    def is_copy(self, block_size: int) -> Tensor:
        """Which of the T targets of a window repeat an earlier symbol: (T,) of booleans."""
        place = torch.arange(1, block_size + 1)  # (T,): target t is token t + 1 of its window
        return place % (2 * self.length) >= self.length  # (T,)

    def loss(self, x: Int64[Tensor, "B T"], y: Int64[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """``floors(T)`` for each window (B, T), nats; infinite where a copy is not one."""
        floors = self.floors(y.size(1)).expand(y.shape)  # (B, T)
        window = torch.cat([x, y[:, -1:]], dim=1)  # (B, T + 1)
        source = torch.arange(1, y.size(1) + 1).sub(self.length).clamp_min(0)  # (T,): where a copy is copied from
        broken = self.is_copy(y.size(1)) & (window[:, source] != y)  # (B, T)
        return floors.masked_fill(broken, math.inf)
