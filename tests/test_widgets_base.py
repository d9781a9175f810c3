"""widgets/base.py and base.mjs: numbers from a seed, colours, scales, still pictures; Python and JavaScript agree."""

import json
import math
import re

import matplotlib as mpl
import numpy as np
import pytest

import tiny_gpt.widgets as widgets
from tiny_gpt import palette
from tiny_gpt.widgets.base import Explorer, _colour_maps, front_end, normals, style, uniforms

EXPLORERS = [cls for cls in vars(widgets).values() if isinstance(cls, type) and issubclass(cls, Explorer)]


def mulberry32(seed, count):
    """The generator with Python's whole numbers, of any length, cut to 32 bits by hand."""
    mask, found = 2**32 - 1, []
    for i in range(1, count + 1):
        state = (seed + i * 0x6D2B79F5) & mask
        t = ((state ^ (state >> 15)) * (state | 1)) & mask
        t = ((t + ((t ^ (t >> 7)) * (t | 61) & mask)) & mask) ^ t
        found.append((((t ^ (t >> 14)) & mask) + 1) / 2**32)
    return found


@pytest.mark.parametrize("seed", [0, 1, 11, 2**31 - 1, 2**32 + 5, 7919 * 0x10FFFF, -3])
def test_uniforms_are_those_of_the_definition(seed):
    assert uniforms(seed, 50).tolist() == mulberry32(seed, 50)


def test_normals_are_standard_normal():
    x = normals(5, 40_000)
    error = 1 / math.sqrt(len(x))
    assert abs(x.mean()) < 4 * error
    assert abs((x**2).mean() - 1) < 4 * math.sqrt(2) * error
    assert abs((x**4).mean() - 3) < 4 * math.sqrt(96) * error
    assert abs((x[::2] * x[1::2]).mean()) < 4 * error * math.sqrt(2)
    for z in (-1.5, -0.5, 0, 1, 2):
        share = 0.5 * math.erfc(-z / math.sqrt(2))
        assert abs((x < z).mean() - share) < 4 * math.sqrt(share * (1 - share)) * error
    assert normals(5, 7).tolist() == x[:7].tolist()


def test_javascript_agrees(same_in_js):
    rng = np.random.default_rng(0)
    calls = [("uniforms", [seed, 9], uniforms(seed, 9)) for seed in (0, 3, 2**31 - 1, -5)]
    calls += [("normals", [seed, n], normals(seed, n)) for seed in (1, 99) for n in (1, 2, 7)]
    for _ in range(5):
        z = rng.normal(0, 30, 6)
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        calls += [("softmax", [z], p), ("entropy", [p], -sum(x * math.log2(x) for x in p if x > 0))]
    calls += [
        ("softmax", [[-math.inf, 0.0, -math.inf]], [0, 1, 0]),
        ("softmax", [[-math.inf, -math.inf]], [math.nan, math.nan]),
        ("entropy", [[0, 1, 0]], 0),
        ("shown", [-0.001, 2], "0.00"), ("shown", [-0.006, 2], "−0.01"),
        ("shown", [1234567.0, 0], "1\u202f234\u202f567"),
        ("shown", [math.nan], "NaN"), ("shown", [-math.inf], "−∞"), ("shown", [9999, 0], "9999"),
        ("precise", [0.00012], "1.2e−4"), ("precise", [0.5], "0.500"), ("precise", [3.4034], "3.4"),
        ("precise", [0], "0.000"),
        ("precise", [-123.4], "−123"), ("precise", [2.5e7], "2.5e7"),
        ("ticks", [0, 1, 4], [0, 0.5, 1]), ("ticks", [-1, 1, 4], [-1, -0.5, 0, 0.5, 1]),
        ("ticks", [1, 1024, 5, 2], [1, 4, 16, 64, 256, 1024]), ("ticks", [1e-3, 10, 5, 10], [1e-3, 1e-2, 0.1, 1, 10]),
        ("power", [0.001], "10⁻³"), ("power", [1e12], "10¹²"),
    ]  # fmt: skip
    same_in_js("scaling", calls)


@pytest.mark.parametrize(("name", "key"), [(palette.P_MAP, "weights"), (palette.S_MAP, "scores")])
def test_colour_maps_are_matplotlibs(name, key, same_in_js):
    shares = np.linspace(0, 1, 13)
    stops = np.array(json.loads(_colour_maps())[key])
    calls = []
    for share in shares:
        exact = 255 * np.array(mpl.colormaps[name](share)[:3])
        near = [np.interp(share, np.linspace(0, 1, len(stops)), stops[:, c]) for c in range(3)]
        assert np.abs(near - exact).max() < 6  # of 255: what straight lines between 33 stops are off by
        calls.append(("mapped", [key, share], np.floor(np.add(near, 0.5))))
    same_in_js("mask", [*calls, ("mapped", [key, 7], stops[-1]), ("mapped", [key, -1], stops[0])])


@pytest.mark.parametrize("name", ["#ffffff", "#000000", "#0072B2", "#7f7f7f", "#fde725"])
def test_numbers_on_a_colour_can_be_read(name, same_in_js):
    from test_palette import contrast

    rgb = [int(name[i : i + 2], 16) for i in (1, 3, 5)]
    best = max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, name))
    assert contrast(best, name) >= 4.5
    same_in_js("mask", [("onColour", [rgb], "#000" if best == "#000000" else "#fff")])


@pytest.mark.parametrize("name", ["quiz", "scaling", "mask", "shapes", "residual", "sampling", "losses", "playground"])
def test_a_front_end_is_one_module_without_imports(name):
    source = front_end(name)
    assert not re.search(r"^\s*import\b|\bimport\(", source, re.M)
    assert source.count("export default") == 1
    assert "http" not in source.replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nothing fetches


def test_styles_take_the_pages_colours_and_bring_their_own():
    text = style("mask")
    for key, (light, dark) in palette.COLORS.items():
        assert f"--w-{key}:var(--tg-{key},{light})" in text
        assert f"--w-{key}:var(--tg-{key},{dark})" in text
    assert ".tgw-strip" in text
    assert ".tgw-strip" not in style("scaling")


def test_all_explorers_are_known_here():
    found = [cls.__name__ for cls in EXPLORERS]
    names = ["ResidualStream", "SamplingExplorer", "ScalingExplorer", "ShapeWalk"]
    assert sorted(found) == ["Clinic", "LossCurve", "MaskExplorer", "Playground", *names]


def test_a_still_is_a_picture_with_its_words():
    from tiny_gpt.widgets import MaskExplorer

    still = MaskExplorer(text='<b>"&')._still
    assert still.count("<svg") == 1
    assert "<b>" not in still
    assert re.search(r'data-says="[^"<]*&lt;b&gt;&quot;&amp;[^"<]*"><svg', still)
    assert "<noscript>" in still


def test_drawing_a_still_leaves_matplotlibs_settings_alone():
    from tiny_gpt.widgets import ScalingExplorer

    before = dict(mpl.rcParams)
    ScalingExplorer()
    assert dict(mpl.rcParams) == before
