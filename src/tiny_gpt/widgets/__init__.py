"""The book's interactive figures: each is a class in NAME.py beside NAME.mjs, its whole front end.

They need anywidget, which nothing else in the package imports. One source works in four places: the static site, the
same site opened from a file, JupyterLab and Notebook, and Colab.
"""

from .clinic import Clinic
from .losses import LossCurve
from .mask import MaskExplorer
from .playground import Playground
from .quiz import Quiz, choice, choices, numeric, order
from .residual import ResidualStream
from .sampling import SamplingExplorer
from .scaling import ScalingExplorer
from .shapes import ShapeWalk

__all__ = [
    "Clinic",
    "LossCurve",
    "MaskExplorer",
    "Playground",
    "Quiz",
    "ResidualStream",
    "SamplingExplorer",
    "ScalingExplorer",
    "ShapeWalk",
    "choice",
    "choices",
    "numeric",
    "order",
]
