"""The book's figures, one function each, by subject: it takes data, draws, returns the Figure, and computes nothing.

Only ``palette.COLORS`` is used, so that the build can turn each colour into its CSS variable, with one exception:
numbers written into the cells of a heat map are plain black or white, for the cells keep their colours in the dark
theme and so must the numbers. Figures are made without pyplot: none stays open.
"""

from .attention import attention_triptych, head_on_text, head_scores, influence_maps, origins, weight_maps
from .cost import PATHS, attention_cost, roofline
from .debugging import failed_tests, gradient_norms, loss_gaps, patient_curves
from .feed_forward import activations, approximation_errors, parameter_shares
from .generation import cache_time, degeneration, distributions, entropy_by_temperature
from .model import architecture, characters
from .scaling import entropy_by_width, gradient_by_width, softmax_bars, spread_dial, variance_by_width
from .stream import (
    contributions,
    gradient_by_depth,
    gradient_by_layer,
    loss_by_layer,
    pre_post_training,
    stream_loudness,
)
from .style import SCALES, STYLE, heat_scores, heat_weights, label_cells, use_book_style
from .training import ladder, leak_losses, loss_by_order, loss_by_shift, training_curves

__all__ = [
    "PATHS",
    "SCALES",
    "STYLE",
    "activations",
    "approximation_errors",
    "architecture",
    "attention_cost",
    "attention_triptych",
    "cache_time",
    "characters",
    "contributions",
    "degeneration",
    "distributions",
    "entropy_by_temperature",
    "entropy_by_width",
    "failed_tests",
    "gradient_by_depth",
    "gradient_by_layer",
    "gradient_by_width",
    "gradient_norms",
    "head_on_text",
    "head_scores",
    "heat_scores",
    "heat_weights",
    "influence_maps",
    "label_cells",
    "ladder",
    "leak_losses",
    "loss_by_layer",
    "loss_by_order",
    "loss_by_shift",
    "loss_gaps",
    "origins",
    "parameter_shares",
    "patient_curves",
    "pre_post_training",
    "roofline",
    "softmax_bars",
    "spread_dial",
    "stream_loudness",
    "training_curves",
    "use_book_style",
    "variance_by_width",
    "weight_maps",
]
