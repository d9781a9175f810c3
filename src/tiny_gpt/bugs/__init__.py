"""The catalogue of mistakes that people make in a GPT, and how to plant each in the right model.

``CATALOGUE`` maps an id to its Bug. A planting is a few exact edits of ``model.py``, so that its diff can be read.
"""

import json
from pathlib import Path

from ..model import GPTConfig, TinyGPT
from . import architecture, attention, contract, generation
from .planting import Bug, Planting

CATALOGUE: dict[str, Bug] = {
    bug.id: bug for bug in (*attention.BUGS, *architecture.BUGS, *contract.BUGS, *generation.BUGS, *contract.GLOBAL)
}

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
    return _planting(id, planting).build()


def diff(id: str, planting: int = 0) -> str:
    """What this planting changes in the right model, as a unified diff."""
    return _planting(id, planting).diff()


def _planting(id: str, planting: int) -> Planting:
    if id not in CATALOGUE:
        raise ValueError(f"there is no bug {id!r}: tiny_gpt.bugs.CATALOGUE has {', '.join(CATALOGUE)}")
    ways = CATALOGUE[id].plantings
    if not 0 <= planting < len(ways):
        raise ValueError(f"{id} can be planted in {len(ways)} ways, 0 to {len(ways) - 1}: got {planting}")
    return ways[planting]
