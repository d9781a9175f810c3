"""ScalingExplorer: its weights, entropies and Jacobians are those of their definitions; JavaScript gives the same."""

import numpy as np
import pytest
import torch

from tiny_gpt.widgets import ScalingExplorer
from tiny_gpt.widgets.base import normals

SETTINGS = [
    {"d_k": d, "n_keys": n, "scaling": scaling, "seed": seed}
    for d, n, seed in ((1, 2, 0), (64, 6, 11), (1024, 64, 5), (7, 33, 2**31 - 1))
    for scaling in ("none", "root", "width", "model")
]
FACTOR = {"none": lambda d: 1, "root": lambda d: d**-0.5, "width": lambda d: 1 / d, "model": lambda d: (8 * d) ** -0.5}


@pytest.fixture(scope="module")
def explorer():
    return ScalingExplorer()


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_what_is_shown(explorer, settings):
    w = explorer
    for name, value in settings.items():
        setattr(w, name, value)
    d, n = settings["d_k"], settings["n_keys"]
    drawn = normals(settings["seed"], 65 * 1024).reshape(65, 1024)
    z = np.array([np.dot(drawn[0, :d], drawn[1 + i, :d]) for i in range(n)])
    p = torch.softmax(torch.tensor(z) * FACTOR[settings["scaling"]](d), 0).numpy()
    assert np.allclose(w.scores(), z, rtol=1e-12)
    assert np.allclose(w.probabilities(), p, atol=1e-12)
    assert w.bits() == pytest.approx(torch.special.entr(torch.tensor(p)).sum().item() / np.log(2), abs=1e-12)
    z = torch.tensor(z * FACTOR[settings["scaling"]](d))
    J = torch.autograd.functional.jacobian(lambda z: z.softmax(0), z)
    assert w.jacobian() == pytest.approx(J.norm().item(), abs=1e-9)


def test_more_keys_and_width_extend_the_draw():
    small, large = ScalingExplorer(d_k=64, n_keys=6), ScalingExplorer(d_k=64, n_keys=60)
    assert np.allclose(small.scores(), large.scores()[:6], rtol=1e-12)


def test_javascript_agrees(same_in_js):
    calls, w = [], ScalingExplorer()
    for settings in SETTINGS:
        for name, value in settings.items():
            setattr(w, name, value)
        d, n, scaling, seed = settings.values()
        calls.append(("scoresAt", [[d], n, seed], [w.scores()]))
        calls.append(("weights", [w.scores(), scaling, d], w.probabilities()))
        calls.append(("jacobian", [w.probabilities()], w.jacobian()))
    widths = [1, 2, 64, 1024]
    each = [ScalingExplorer(d_k=d, n_keys=5, seed=9).scores() for d in widths]
    same_in_js("scaling", [*calls, ("scoresAt", [widths, 5, 9], each)])


@pytest.mark.parametrize(
    "wrong", [{"d_k": 0}, {"d_k": 1025}, {"n_keys": 1}, {"n_keys": 65}, {"scaling": "x"}, {"seed": -1}]
)
def test_values_out_of_range_are_refused(wrong):
    import traitlets

    with pytest.raises(traitlets.TraitError):
        ScalingExplorer(**wrong)
