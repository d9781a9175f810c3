"""Training: from a text of ids to a model, its history, and checkpoints that an interrupted run goes on from.

Shapes: N tokens in a text. Losses are in nats a token. A step is one update of the weights.
"""

from .checkpoint import fingerprint, latest, load_checkpoint, settings
from .config import PRESETS, Preset, TrainConfig, learning_rate
from .device import pick_device, usable_device
from .evaluation import evaluate, whole_loss
from .history import History
from .loop import Trainer, train

__all__ = [
    "PRESETS", "History", "Preset", "TrainConfig", "Trainer", "evaluate", "fingerprint", "latest",
    "learning_rate", "load_checkpoint", "pick_device", "settings", "train", "usable_device", "whole_loss",
]  # fmt: skip
