"""Clinic: blind diagnosis of models that were really trained, most with one bug."""

from collections.abc import Sequence
from typing import Any

import traitlets
from matplotlib.figure import Figure

from .. import clinic, figures
from ..bugs import CATALOGUE
from .base import Explorer, front_end, style

# What can be ordered: its words, what it costs, and what it does. The results are in the patients' records.
TESTS = {
    "count": ("Count the parameters", 1, "What the formula gives for these sizes, beside what this model has."),
    "prefix": ("Compare prefixes", 1, "The logits of the first 8 tokens alone, beside those within 16 tokens."),
    "batch": ("Change the other rows", 1, "The same text in the last row, other texts in the other rows of the batch."),
    "perturb": ("Perturb one token", 2, "Change the token at one position: how far do the logits move at each?"),
    "silence": ("Silence the branches", 2, "Zero the last matrix of every branch: what is left of the stream?"),
    "bend": ("Double the input", 2, "Twice the input of a feed-forward network: is the output just twice as large?"),
    "scale": ("Recompute the scores", 2, "By what were the scores multiplied before the softmax?"),
    "gradients": ("Ask for gradients", 2, "The norm of the gradient that arrives in each part."),
}
START, WRONG = 10, 3  # points at the start, and what a wrong verdict costs


class Clinic(Explorer):
    """The patients of ``clinic.load()``, one at a time. ``current`` is the number of the one that is shown.

    ``charts`` maps a patient's number to what was done: ``{"ordered": [test, ...], "named": [diagnosis, ...]}``; it is
    live both ways, and ``{}`` clears it. ``key`` is the name under which the browser keeps it. ``points(n)`` is what a
    patient has brought: 10 less what the tests and the wrong verdicts cost, 0 before the right one.
    """

    _esm = front_end("clinic")
    _css = style("clinic")
    _room = (1650, 2588)
    patients = traitlets.List(traitlets.Dict()).tag(sync=True)
    diagnoses = traitlets.Dict().tag(sync=True)
    tests = traitlets.Dict().tag(sync=True)
    current = traitlets.Int(0, min=0).tag(sync=True)
    charts = traitlets.Dict().tag(sync=True)
    key = traitlets.Unicode().tag(sync=True)

    def __init__(self, patients: Sequence[clinic.Record] | None = None, key: str = "", **traits: Any):
        patients = clinic.load() if patients is None else list(patients)
        if not patients:
            raise ValueError("at least one patient is needed: clinic.load() has some")
        known = {clinic.HEALTHY: ["Nothing: the model is right", "Everything is as it should be."]}
        for patient in patients:
            for bug in (patient["bug"], *patient["confusable"]):
                if bug not in known:
                    known[bug] = [CATALOGUE[bug].title, CATALOGUE[bug].symptom]
        tests = {name: [words, cost, about] for name, (words, cost, about) in TESTS.items()}
        super().__init__(patients=patients, diagnoses=known, tests=tests, key=key, **traits)

    @traitlets.validate("current")
    def _check_current(self, proposal: traitlets.Bunch) -> int:
        number: int = proposal["value"]
        if number >= len(self.patients):
            raise traitlets.TraitError(f"there are {len(self.patients)} patients, 0 to {len(self.patients) - 1}")
        return number

    def points(self, number: int) -> int:
        """What patient ``number`` has brought so far."""
        chart = self.charts.get(str(number), {"ordered": [], "named": []})
        if self.patients[number]["bug"] not in chart["named"]:
            return 0
        cost = sum(TESTS[name][1] for name in chart["ordered"]) + WRONG * (len(chart["named"]) - 1)
        return max(0, START - cost)

    def picture(self) -> Figure:
        patient = self.patients[self.current]
        return figures.patient_curves(patient["step"], patient["train"], patient["valid"], patient["floor"])

    def describe(self) -> str:
        patient = self.patients[self.current]
        return (
            f"Patient {self.current + 1} of {len(self.patients)}, trained on {patient['source']} for "
            f"{patient['steps']} updates: first loss {patient['train'][0]}, last {patient['train'][-1]} nats, "
            f"{patient['parameters']:,} parameters. What is wrong with it?"
        )
