"""Clinic: points, verdicts and results, in Python and in JavaScript alike; what the browser kept is not trusted."""

import pytest
import traitlets

from tiny_gpt import clinic
from tiny_gpt.widgets import Clinic
from tiny_gpt.widgets.clinic import TESTS


@pytest.fixture(scope="module")
def widget():
    return Clinic()


CASES = [  # ordered, named before the right one, named it, points
    ([], [], False, 0),
    ([], [], True, 10),
    (["count", "perturb"], [], True, 7),
    (["count"], [0, 1], True, 3),
    (list(TESTS), [0], True, 0),
    (["scale"], [0], False, 0),
]


def charts(patient):
    for ordered, others, found, points in CASES:
        named = [patient["confusable"][i] for i in others] + [patient["bug"]] * found
        yield {"ordered": ordered, "named": named}, points


def test_points(widget, same_in_js):
    calls = []
    for i in (0, 1, 12):
        for chart, points in charts(widget.patients[i]):
            widget.charts = {str(i): chart}
            assert widget.points(i) == points
            calls.append(("points", [widget.patients[i], chart, widget.tests], points))
    widget.charts = {}
    assert widget.points(3) == 0
    same_in_js("clinic", calls)


def test_every_test_is_known_on_both_sides(widget):
    assert set(TESTS) == {"count", *clinic.TESTS}
    for patient in widget.patients:
        assert set(patient["tests"]) == set(clinic.TESTS)


def test_verdicts_tell_nothing_by_their_order(widget, same_in_js):
    calls = []
    for patient in widget.patients:
        ids = {patient["bug"], *patient["confusable"]} - {"healthy"}
        by_words = sorted(ids, key=lambda id: widget.diagnoses[id][0])
        calls.append(("verdicts", [patient, widget.diagnoses], [*by_words, "healthy"]))
    same_in_js("clinic", calls)


def test_results_have_the_records_numbers(widget, same_in_js):
    patient = widget.patients[2]  # scale-missing
    P, E = patient["parameters"], patient["expected_parameters"]
    spaced = f"{P:,}".replace(",", "\u202f")
    assert P == E
    calls = [
        ("result", ["count", patient], f"The formula gives {spaced} parameters. This model has {spaced}."),
        ("result", ["scale", {"tests": {"scale": {"ratio": 4.0}}}], "The scores were multiplied by 4.0 times 1/√D."),
        (
            "result",
            ["batch", {"tests": {"batch": {"difference": 0.0}}}],
            "Largest change of the last row's logits when the other rows change: 0.",
        ),
        (
            "result",
            ["gradients", {"tests": {"gradients": {"norms": {"a": 0.5, "b": None}}}}],
            "a: 0.500; b: no gradient.",
        ),
    ]
    same_in_js("clinic", calls)


def test_what_was_kept_is_not_trusted(widget, same_in_js):
    patients, tests, diagnoses = widget.patients[:2], widget.tests, widget.diagnoses
    good = {"0": {"ordered": ["scale"], "named": ["healthy"]}}
    rest = [patients, tests, diagnoses]
    calls = [
        ("revive", ["", *rest], {}),
        ("revive", ["[1", *rest], {}),
        ("revive", ["null", *rest], {}),
        ("revive", ['{"0": {"ordered": ["scale"], "named": ["healthy"]}}', *rest], good),
        (
            "revive",
            ['{"0": {"ordered": ["scale", "scale", "toString", 7], "named": ["healthy", "untied"]}, "9": {}}', *rest],
            good,
        ),
        ("revive", ['{"0": {"ordered": 3, "named": []}, "1": 5}', *rest], {}),
    ]
    same_in_js("clinic", calls)


def test_patients_that_do_not_exist_are_refused(widget):
    with pytest.raises(traitlets.TraitError, match="25 patients"):
        widget.current = 25
    with pytest.raises(ValueError, match="at least one patient"):
        Clinic([])
