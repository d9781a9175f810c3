"""The patients' records: made by training and examining each, kept in trained/clinic.json."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from ..bugs import plant
from ..bugs.planting import build
from ..rng import seeded
from .examination import TESTS, expected_parameters, heads_weights, sample
from .patients import HEALTHY, PATIENTS, Patient, Record
from .training import SIZES, STEPS, source, train

FILE = Path(__file__).parents[1] / "trained" / "clinic.json"


def examine(patient: Patient, steps: int = STEPS) -> Record:
    """Train the patient and run every test on it. The record has JSON's types only."""
    text = source(patient.source)
    Model, Config = build() if patient.bug == HEALTHY else plant(patient.bug, patient.planting)
    with seeded(patient.seed):
        model = Model(Config(vocab_size=text.vocab_size, **SIZES))
    curves = train(model, text, patient.seed, steps)
    model.eval()
    draws = torch.Generator().manual_seed(1000 + patient.seed)
    return {
        "bug": patient.bug,
        "torch": torch.__version__,
        "steps": steps,
        "vocab_size": text.vocab_size,
        "floor": text.floor,
        "parameters": sum(p.numel() for p in model.parameters()),
        "expected_parameters": expected_parameters(text.vocab_size),
        **curves,
        "sample": sample(model, text, draws),
        "attention": heads_weights(model, text, draws),
        "tests": {name: test(model, text, draws) for name, test in TESTS.items()},
    }


def make() -> None:
    """Train every patient and write FILE, as ``make clinic`` does (some minutes)."""
    records = []
    for patient in PATIENTS:
        records.append(examine(patient))
        print(f"{patient.seed:3} {patient.bug:22} {records[-1]['valid'][0]} -> {records[-1]['valid'][-1]}")
    save(records)


def save(records: Sequence[Record]) -> None:
    """One record a line, so that a change of one patient is a change of one line."""
    lines = (json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records)
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def load() -> list[Record]:
    """The records of all patients, in the order of PATIENTS, as the package carries them."""
    records = json.loads(FILE.read_text(encoding="utf-8"))
    if [record["bug"] for record in records] != [patient.bug for patient in PATIENTS]:
        raise ValueError(f"{FILE.name} holds other patients than clinic.PATIENTS: run make clinic")
    return [{**asdict(patient), **record} for patient, record in zip(PATIENTS, records, strict=True)]
