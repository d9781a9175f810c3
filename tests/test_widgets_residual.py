"""ResidualStream: it shows what it is given, refuses what does not fit; JavaScript's ratios are Python's."""

import numpy as np
import pytest
import traitlets

from tiny_gpt.widgets import ResidualStream

rng = np.random.default_rng(4)
PROFILES = {
    kind: {
        L: {name: 10 ** rng.uniform(-3, 1, L) for name in ("gradient", "attention", "ffn", "stream")} for L in (2, 16)
    }
    for kind in ("pre-norm", "post-norm")
}


def test_it_shows_what_it_is_given():
    w = ResidualStream(PROFILES)
    assert (w.kind, w.depth) == ("pre-norm", 16)
    for kind, depths in PROFILES.items():
        for depth, profile in depths.items():
            w.kind, w.depth = kind, depth
            for name, values in profile.items():
                assert np.array_equal(w.profile()[name], values)
            assert w.reach() == profile["gradient"][0] / profile["gradient"][-1]
    assert ResidualStream(PROFILES, kind="post-norm", depth=2).reach("pre-norm") == pytest.approx(
        np.divide(*PROFILES["pre-norm"][2]["gradient"])
    )


def test_javascript_agrees(same_in_js):
    calls = [("reach", [p], p["gradient"][0] / p["gradient"][-1]) for d in PROFILES.values() for p in d.values()]
    calls += [
        ("decades", [[0.02, 3.0]], [0.01, 10]),
        ("decades", [[1.0, 5.0]], [1, 10]),
        ("decades", [[0.0, 0.5, float("inf")]], [0.1, 1]),
        ("decades", [[100.0]], [100, 1000]),
    ]
    same_in_js("residual", calls)


def test_profiles_that_do_not_fit_are_refused():
    short = {"pre-norm": {2: {**PROFILES["pre-norm"][2], "ffn": [1.0]}}}
    with pytest.raises(ValueError, match="needs 2 numbers a curve"):
        ResidualStream(short)
    with pytest.raises(ValueError, match="same depths"):
        ResidualStream({**PROFILES, "other": {2: PROFILES["pre-norm"][2]}})
    with pytest.raises(ValueError, match="at least one"):
        ResidualStream({})
    w = ResidualStream(PROFILES)
    with pytest.raises(traitlets.TraitError, match="one of"):
        w.depth = 3
    with pytest.raises(traitlets.TraitError, match="one of"):
        w.kind = "x"
