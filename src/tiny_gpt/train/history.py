"""What happened in a run: losses, rates, gradients and samples, kept as JSON lines."""

import json
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import write_beside


@dataclass
class History:
    """What happened in a run. ``loss[s]`` belongs to update s, and ``train_loss[i]`` to ``eval_step[i]`` updates."""

    loss: list[float] = field(default_factory=list)  # nats, of each update's own batch
    lr: list[float] = field(default_factory=list)  # the learning rate of each update
    grad_norm: list[float] = field(default_factory=list)  # of each update, before clipping
    eval_step: list[int] = field(default_factory=list)  # how many updates the evaluated weights have had
    train_loss: list[float] = field(default_factory=list)  # nats, on fixed batches of the training split
    valid_loss: list[float] = field(default_factory=list)  # nats, on fixed batches of the validation split
    seconds: list[float] = field(default_factory=list)  # spent on updates until then, evaluations not counted
    samples: list[tuple[int, str]] = field(default_factory=list)  # (updates so far, text)
    interrupted: bool = field(default=False, compare=False)  # whether Ctrl-C ended the run early
    model: Any = field(default=None, repr=False, compare=False)  # with the weights of the last update

    @property
    def best(self) -> tuple[int, float]:
        """(updates, loss) of the lowest validation loss. Raises ValueError before the first evaluation."""
        if not self.eval_step:
            raise ValueError("nothing has been evaluated yet")
        loss, step = min(zip(self.valid_loss, self.eval_step, strict=True))
        return step, loss

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write JSON lines: one for each update, evaluation and sample, each with its ``step``."""
        lines: list[dict[str, Any]] = []
        for step, (loss, lr, norm) in enumerate(zip(self.loss, self.lr, self.grad_norm, strict=True)):
            # JSON has no infinity; a float16 gradient can be infinite (its update is then left out).
            lines.append({"step": step, "loss": loss, "lr": lr, "grad_norm": norm if math.isfinite(norm) else None})
        for row in zip(self.eval_step, self.train_loss, self.valid_loss, self.seconds, strict=True):
            lines.append(dict(zip(("step", "train_loss", "valid_loss", "seconds"), row, strict=True)))
        lines += [{"step": step, "sample": text} for step, text in self.samples]
        lines.sort(key=lambda line: line["step"])
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        write_beside(Path(path), lambda file: file.write(text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "History":
        """Read what ``save`` wrote. Raises ValueError for a line that is none of its."""
        history = cls()
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
            try:
                entry = json.loads(line)
                for key, value in entry.items():
                    if key != "sample" and (key, value) != ("grad_norm", None) and not math.isfinite(value):
                        raise ValueError
                if "loss" in entry:
                    if entry["step"] != len(history.loss):
                        raise ValueError  # a line before it is missing, or comes twice
                    history.loss.append(entry["loss"])
                    history.lr.append(entry["lr"])
                    history.grad_norm.append(math.inf if entry["grad_norm"] is None else entry["grad_norm"])
                elif "sample" in entry:
                    history.samples.append((entry["step"], entry["sample"]))
                else:
                    history.eval_step.append(entry["step"])
                    history.train_loss.append(entry["train_loss"])
                    history.valid_loss.append(entry["valid_loss"])
                    history.seconds.append(entry["seconds"])
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"line {number} of {path} is not a line of a history: {line[:80]!r}") from error
        return history
