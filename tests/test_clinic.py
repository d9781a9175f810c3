"""clinic.py: the records are what the code makes, and each patient's evidence points to its cause."""

import math

import pytest
import torch

from tiny_gpt import clinic
from tiny_gpt.bugs import CATALOGUE

RECORDS = clinic.load()
BY_SEED = {record["seed"]: record for record in RECORDS}
NAMES = [f"{r['seed']}-{r['bug']}" for r in RECORDS]


def test_who_is_there():
    assert len(RECORDS) >= 20
    assert len({r["seed"] for r in RECORDS}) == len(RECORDS)
    healthy = [r for r in RECORDS if r["bug"] == clinic.HEALTHY]
    assert len(healthy) >= 3
    assert {r["source"] for r in RECORDS} == {r["source"] for r in healthy} == {"shakespeare", "markov", "copy"}
    for r in RECORDS:
        assert r["bug"] == clinic.HEALTHY or r["bug"] in CATALOGUE
        assert r["bug"] not in r["confusable"]
        assert set(r["confusable"]) <= {*CATALOGUE, clinic.HEALTHY}
        assert r["settles"] in ("", *clinic.TESTS)
        assert r["steps"] == clinic.STEPS
    assert clinic.FILE.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 16])
def test_a_patient_made_again_is_the_same(seed, shakespeare, monkeypatch):
    """The first updates of its training, from its seed; rounding differs from machine to machine, and little else."""
    record = BY_SEED[seed]
    patient = next(p for p in clinic.PATIENTS if p.seed == seed)
    monkeypatch.setattr(clinic.training, "load_shakespeare", lambda: shakespeare)
    again = clinic.examine(patient, steps=50)
    assert again["step"] == record["step"][:2]
    for curve in ("train", "valid", "gradient"):
        assert again[curve] == pytest.approx(record[curve][:2], rel=5e-3)
    assert again["parameters"] == record["parameters"]


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_the_evidence(record):
    """Every test is clean, unless the bug is of the kind that it finds."""
    bug, tests = record["bug"], record["tests"]
    leaks = {
        "mask-missing",
        "mask-sees-next",
        "mask-after-softmax",
        "heads-merge-mixed",
        "heads-split-mixed",
        "softmax-axis",
    }
    moved, at = tests["perturb"]["moved"], tests["perturb"]["position"]
    assert (max(moved[:at]) > 1e-3) == (bug in leaks)
    assert (tests["prefix"]["difference"] > 1e-3) == (bug in leaks)
    assert (tests["batch"]["difference"] > 1e-3) == (bug == "batch-leak")
    wiring = {"residual-missing", "norm-post", "residual-doubled"}
    assert (abs(tests["silence"]["size"] - 1) < 1e-4 and tests["silence"]["cosine"] > 0.9999) == (bug not in wiring)
    ratio = tests["scale"]["ratio"]
    expected = {"scale-missing": 4.0, "scale-by-width": 0.5}.get(bug, 1.0)  # √16, and √(16/64)
    if bug not in {"heads-split-mixed", "softmax-axis", "mask-after-softmax"}:
        assert ratio == pytest.approx(expected, rel=0.02)
    extra = record["parameters"] - record["expected_parameters"]
    block = 12 * 64**2 + 2 * 64
    off = {"untied": 65 * 64, "blocks-shared": -2 * block, "blocks-unregistered": -3 * block, "final-norm-missing": -64}
    assert extra == off.get(bug, 0)
    assert (tests["gradients"]["norms"]["position embedding"] is None) == (bug == "position-missing")
    if bug != "blocks-unregistered":
        assert (tests["bend"]["bend"] < 1e-4) == (bug == "activation-missing")


@pytest.mark.parametrize("record", RECORDS, ids=NAMES)
def test_the_losses(record):
    """The first is ln V and a little more, but for the bugs that show there; no honest model is below its source."""
    first, last, V = record["valid"][0], record["valid"][-1], record["vocab_size"]
    loud = {"init-default", "mask-sees-next", "loss-on-inputs", "final-norm-missing"}
    if record["bug"] not in loud:
        assert abs(first - math.log(V) - 64 * 0.02**2 / 2) < 0.12
    if record["floor"]:
        cheats = {"mask-sees-next", "heads-merge-mixed"}
        assert (last < record["floor"] - 0.05) == (record["bug"] in cheats)
        if record["bug"] == clinic.HEALTHY:
            assert last < record["floor"] + 0.06


def test_attention_maps_are_rows_of_weights():
    for record in RECORDS:
        P = torch.tensor(record["attention"]["P"])
        assert P.shape == (13, 13)
        rows = P.sum(1)
        if record["bug"] in ("softmax-axis", "mask-after-softmax"):
            assert (rows - 1).abs().max() > 0.05
        else:
            assert (rows - 1).abs().max() < 2e-3


def test_other_patients_than_the_code_knows_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(clinic.records, "FILE", tmp_path / "clinic.json")
    clinic.records.save([{"bug": "mask-missing"}])
    with pytest.raises(ValueError, match="run make clinic"):
        clinic.load()
