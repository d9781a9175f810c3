"""ResidualStream: how loud each branch writes, and how much gradient comes back to each layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import figures
from .base import Explorer, front_end, style

CURVES = ("gradient", "attention", "ffn", "stream")  # each has one number a layer


class ResidualStream(Explorer):
    """Measured profiles of models that differ in ``kind`` and ``depth`` only.

    ``profiles[kind][depth]`` has four lists with one number a layer: ``gradient`` (norm of the loss's gradient there),
    ``attention`` and ``ffn`` (root mean square of what the branch writes), ``stream`` (of what stands after the block).
    It shows what it is given and computes nothing else than ratios. ``kind`` and ``depth`` are live both ways.
    """

    _esm = front_end("residual")
    _css = style()
    _room = (456, 830)
    profiles = traitlets.Dict().tag(sync=True)
    kind = traitlets.Unicode().tag(sync=True)
    depth = traitlets.Int(1).tag(sync=True)

    def __init__(self, profiles: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]], **traits: Any):
        if not profiles:
            raise ValueError("at least one kind of model is needed")
        clean = {}
        for kind, depths in profiles.items():
            if set(depths) != set(next(iter(profiles.values()))):
                raise ValueError(f"every kind needs the same depths; {kind!r} has {sorted(depths)}")
            for depth, profile in depths.items():
                lengths = {name: len(profile.get(name, ())) for name in CURVES}
                if set(lengths.values()) != {depth}:
                    raise ValueError(f"{kind!r} of depth {depth} needs {depth} numbers a curve, got {lengths}")
            clean[kind] = {
                str(depth): {name: [float(v) for v in profile[name]] for name in CURVES}
                for depth, profile in depths.items()
            }
        first = next(iter(clean))
        super().__init__(**{"profiles": clean, "kind": first, "depth": max(map(int, clean[first]))} | traits)

    @traitlets.validate("kind", "depth")
    def _check_known(self, proposal: traitlets.Bunch) -> str | int:
        name: str = proposal["trait"].name
        value: str | int = proposal["value"]
        known: list[str] | list[int] = (
            list(self.profiles) if name == "kind" else sorted(map(int, next(iter(self.profiles.values()))))
        )
        if value not in known:
            raise traitlets.TraitError(f"{name} must be one of {known}, got {value!r}")
        return value

    def profile(self, kind: str | None = None) -> dict[str, NDArray[np.float64]]:
        """The four curves (depth,) of ``kind``, or of the present one, at the present depth."""
        return {name: np.array(v) for name, v in self.profiles[kind or self.kind][str(self.depth)].items()}

    def reach(self, kind: str | None = None) -> float:
        """The gradient at the first layer divided by that at the last."""
        gradient = self.profile(kind)["gradient"]
        return float(gradient[0] / gradient[-1])

    def picture(self) -> Figure:
        curves = {kind: self.profile(kind)["gradient"] for kind in self.profiles}
        return figures.gradient_by_layer(curves)

    def describe(self) -> str:
        each = ", ".join(f"{kind} {self.reach(kind):.2g}" for kind in self.profiles)
        return f"Depth {self.depth}: the gradient at the first layer divided by that at the last is {each}."
