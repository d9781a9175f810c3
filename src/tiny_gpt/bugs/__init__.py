"""The catalogue of mistakes that people make in a GPT, and how to plant each in the right model.

``CATALOGUE`` maps an id to its Bug: what is said about it stands in ``check/causes.toml``, its edits in
``plantings.txt``.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from ..check.causes import CAUSES, Cause
from ..model import GPTConfig, TinyGPT
from .planting import Planting, read


@dataclass(frozen=True)
class Bug(Cause):
    """A cause that can be planted, and the ways to plant it."""

    plantings: tuple[Planting, ...] = ()


def _catalogue() -> dict[str, Bug]:
    ways: dict[str, list[Planting]] = {}
    for id, way in read(Path(__file__).parent / "plantings.txt"):
        ways.setdefault(id, []).append(way)
    return {id: Bug(**vars(CAUSES[id]), plantings=tuple(found)) for id, found in ways.items()}


CATALOGUE = _catalogue()  # id to Bug, in the order of the file

# What the checker said to each planting, the variants' included, when `make mutation` last tried them all.
VERDICTS = Path(__file__).parent / "verdicts.json"


def verdicts() -> dict[str, list[str]]:
    """Case name (``id-planting`` for the catalogue's own) to the ids that the checker found, the first one first."""
    found: dict[str, list[str]] = json.loads(VERDICTS.read_text(encoding="utf-8"))["found"]
    return found


def plant(id: str, planting: int = 0) -> tuple[type[TinyGPT], type[GPTConfig]]:
    """The model class and the config class with the bug ``id``, planted in one of its ways.

    Raises ValueError if there is no such bug or no such planting.
    """
    return _way(id, planting).build()


def diff(id: str, planting: int = 0) -> str:
    """What this planting changes in the right model, as a unified diff."""
    return _way(id, planting).diff()


def _way(id: str, planting: int) -> Planting:
    if id not in CATALOGUE:
        raise ValueError(f"there is no bug {id!r}: tiny_gpt.bugs.CATALOGUE has {', '.join(CATALOGUE)}")
    ways = CATALOGUE[id].plantings
    if not 0 <= planting < len(ways):
        raise ValueError(f"{id} can be planted in {len(ways)} ways, 0 to {len(ways) - 1}: got {planting}")
    return ways[planting]
