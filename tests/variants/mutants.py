"""What mutation.py tries the checker on: the variants, the designs, and mutants.txt, which plants mistakes in them."""

from dataclasses import dataclass
from pathlib import Path

from tiny_gpt.bugs.planting import Planting, edited, read

HERE = Path(__file__).parent
VARIANTS = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in ("__init__", "mutants"))
DESIGNS = {design.name: design for _, design in read(HERE / "designs" / "designs.txt")}


def text(variant: str) -> str:
    """A variant's source, or a design's."""
    if variant in DESIGNS:
        return edited((HERE / "designs" / "base.py").read_text(encoding="utf-8"), DESIGNS[variant].edits)
    return (HERE / f"{variant}.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Mutant:
    """A variant with one bug."""

    id: str
    variant: str
    name: str
    planting: Planting

    def text(self) -> str:
        """The variant's source with the bug in it."""
        return edited(text(self.variant), self.planting.edits)


MUTANTS = tuple(Mutant(id, *way.name.split("/"), way) for id, way in read(HERE / "mutants.txt"))
