"""What bench/ says of its measurements: the exponent of a growth, the peak of memory, the median of a pair's ratios.

No time is asserted: a clock of the test's own takes the place of the real one.
"""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "bench"))
import growth
import measure


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_its_power(power):
    xs = [128, 256, 512, 1024, 2048]
    assert measure.exponent(xs, [3e-6 * x**power for x in xs]) == pytest.approx(power)


def test_the_exponent_is_the_best_over_all_rows_not_that_of_the_ends():
    """The same error upwards and downwards, placed alike on both sides, leaves the slope; the ends alone would not."""
    xs, errors = [1, 2, 4, 8, 16], [1.0, 1.3, 1.0, 1.0, 1.0]
    found = measure.exponent(xs, [x**2 * e for x, e in zip(xs, errors, strict=True)])
    assert found == pytest.approx(2 - 0.1 * torch.tensor(1.3).log2().item())  # -1 of the steps' 10 squares


def test_a_sum_of_two_growths_has_an_exponent_between_and_nears_the_larger():
    xs = [1, 10, 100, 1000]
    ys = [x**2 + 100 * x for x in xs]
    whole, last = measure.exponent(xs, ys), measure.exponent(xs[-2:], ys[-2:])
    assert 1 < whole < last < 2


def test_the_table_has_the_exponents_under_their_columns():
    rows = [[x, 5 * x**2, 7.0, c] for x, c in ((2, 0.5), (4, 0.5), (8, 4.0))]
    lines = growth.table(["x", "a", "b", "c"], rows, ["{}", "{:.1f}", "{}", "{:.2f}"], [1, 3])
    assert lines[0] == "| x | a | b | c |"
    assert lines[2] == "| 2 | 20.0 | 7.0 | 0.50 |"
    assert lines[-2:] == ["| exponent | 2.00 |  | 1.50 |", "| of the last two | 2.00 |  | 3.00 |"]


def test_peak_memory_is_the_most_at_once_and_only_the_calls_own():
    there = torch.zeros(1_000_000)

    def call():
        first = torch.zeros(500_000)
        del first
        return torch.zeros(300_000), there.clone()[:1]  # 4 bytes a number: 1.2 MB and 4 MB at once

    assert measure.peak_bytes(call) == pytest.approx(5.2e6, rel=1e-3)


def test_a_pairs_ratio_is_that_of_the_same_round(monkeypatch):
    """Two rounds of five in which everything is slow, and one in which b alone is: the medians' ratio would be 1/6."""
    clock = [0.0]
    monkeypatch.setattr(measure.time, "process_time", lambda: clock[0])
    slowness = iter([9, 9, 1, 1, 4, 4, 1, 1, 4, 4, 1, 3])  # a and b by turns; the first of each is not counted

    def takes(seconds):
        def call():
            clock[0] += seconds * next(slowness)

        return call

    assert measure.pair(takes(2.0), takes(4.0), 5) == (2.0, 12.0, 0.5)
