"""figures/ draws and never computes: the scales, the hatching, the numbers in the cells, and nothing left open."""

import inspect

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tiny_gpt import figures, palette
from tiny_gpt.train import History

RNG = np.random.default_rng(0)
T = 5
S = RNG.standard_normal((T, T))
M = np.where(np.tril(np.ones((T, T))), 0.0, -np.inf)
P = np.exp(S + M)
P /= P.sum(axis=1, keepdims=True)
WIDTHS = (4, 16, 64)
NAMES = tuple(figures.SCALES)
HISTORY = History(eval_step=[0, 250], train_loss=[4.2, 2.4], valid_loss=[4.2, 2.5])

FIGURES = {
    "attention_triptych": lambda: figures.attention_triptych(S, M, P),
    "weight_maps": lambda: figures.weight_maps({"a": P, "b": P, "c": P}, sums=True),
    "influence_maps": lambda: figures.influence_maps({"a": P, "leak": np.ones((T, T)), "nan": np.full((T, T), np.nan)}),
    "softmax_bars": lambda: figures.softmax_bars({"a": P[-1], "b": P[-1]}),
    "variance_by_width": lambda: figures.variance_by_width(
        WIDTHS, {n: [1, 2, 3] for n in NAMES}, {"x": (np.ones(3), np.ones(3)), "y": (np.ones(3), np.ones(3))}
    ),
    "entropy_by_width": lambda: figures.entropy_by_width(WIDTHS, {6: {n: np.ones((3, 3)) for n in NAMES}, 9: {}}),
    "gradient_by_width": lambda: figures.gradient_by_width(WIDTHS, {"J": {n: np.ones((4, 3)) for n in NAMES}, "K": {}}),
    "spread_dial": lambda: figures.spread_dial([0.1, 1, 10], [1, 0.5, 0], [0, 1, 0], {"mark": 1}),
    "origins": lambda: figures.origins({"a": (np.zeros((2, 3, 4), int), np.zeros((2, 3, 4), int))}),
    "activations": lambda: figures.activations([0, 1], {"ReLU": ([0, 1], [0, 1]), "GELU": ([0, 1], [0, 1])}),
    "approximation_errors": lambda: figures.approximation_errors([0, 1], {"a": [0, 1e-4], "b": [0, 2e-4]}),
    "parameter_shares": lambda: figures.parameter_shares({"a": {"attention": 1, "feed-forward": 2, "rest": 9}}),
    "contributions": lambda: figures.contributions([1, 1], [1, 1], [1, 2, 3, 4, 5]),
    "gradient_by_depth": lambda: figures.gradient_by_depth({"pre-norm": [1, 1]}, (2, 4), {"post-norm": [1, 1]}),
    "gradient_by_layer": lambda: figures.gradient_by_layer({"pre-norm": [1, 0.5], "post-norm": [1, 2]}),
    "patient_curves": lambda: figures.patient_curves([0, 50], [4.2, None], [4.2, 2.5], 1.0),
    "pre_post_training": lambda: figures.pre_post_training({("pre-norm", 0): [2, 1]}, floor=1.0, ceiling=2.0),
    "training_curves": lambda: figures.training_curves(HISTORY, {0: 4, 250: 2.5}, {"uniform": 4.2}),
    "ladder": lambda: figures.ladder({"uniform": 4.2, "TinyGPT": 1.9}),
    "head_scores": lambda: figures.head_scores(P, "weight"),
    "head_on_text": lambda: figures.head_on_text(P, "a b\nc", "head 1"),
    "loss_by_layer": lambda: figures.loss_by_layer([8, 3, 2]),
    "characters": lambda: figures.characters({"vowels": {"a": (0, 0), " ": (1, 1)}, "capitals": {"A": (2, 1)}}),
    "stream_loudness": lambda: figures.stream_loudness({"a": {4: [1, 2], 16: [1, 3]}, "b": {4: [1, 1], 16: [1, 1]}}),
    "architecture": lambda: figures.architecture(),
    "loss_by_shift": lambda: figures.loss_by_shift([0, 1, 2], [0, 1, 2], 3),
    "loss_by_order": lambda: figures.loss_by_order([3, 2, 1], [3, 2, 2]),
    "distributions": lambda: figures.distributions("ab\n", {"τ = 1": P[-1, :3], "τ = 2": P[-1, :3]}),
    "entropy_by_temperature": lambda: figures.entropy_by_temperature([0.1, 1, 30], [0, 1, 2], [0, 0, 2], [0, 2, 2], 2),
    "degeneration": lambda: figures.degeneration([0, 1], [(0.5, 0.1), (0, 0)], [(1, 0.1), (2, 0.1)], 0.02, 1.9),
    "cache_time": lambda: figures.cache_time([16, 256], [1, 9], [1, 1]),
    "attention_cost": lambda: figures.attention_cost((8, 16), {n: [1, 2] for n in figures.PATHS}, {"fused": [1, 3]}),
    "roofline": lambda: figures.roofline({"a": (2e12, 1e9), "b": (9e12, 1e10)}, {"x": 1, "y": 1e4}),
    "loss_gaps": lambda: figures.loss_gaps({"a": ([0.1, 0.2], [1, 2]), "b": ([-1, -1], [3, 3])}, guessing=1.0),
    "failed_tests": lambda: figures.failed_tests({"a": {"x": True, "y": True}, "b": {"x": False, "y": True}}),
    "gradient_norms": lambda: figures.gradient_norms({"a": [1, 2], "b": [3, 4], "c": [1, 1]}, clip=1.0),
    "leak_losses": lambda: figures.leak_losses({"a": [2, 1], "b": [2, 0]}, floor=2.0),
}


def public_figures() -> set[str]:
    functions = inspect.getmembers(figures, inspect.isfunction)
    return {
        name
        for name, f in functions
        if f.__module__.startswith("tiny_gpt.figures.")
        and not name.startswith("_")
        and f.__annotations__.get("return") is Figure
    }


def test_every_figure_function_is_tested_here():
    assert public_figures() == set(FIGURES)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_returns_a_figure_that_fits_the_column_and_leaves_none_open(name):
    from matplotlib import pyplot

    fig = FIGURES[name]()
    fig.draw_without_rendering()
    assert isinstance(fig, Figure)
    assert fig.get_size_inches()[0] <= 7
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_data_is_not_changed(name):
    before = [a.copy() for a in (S, M, P)]
    FIGURES[name]()
    for a, b in zip((S, M, P), before, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", sorted(FIGURES))
def test_axes_are_labelled(name):
    for ax in FIGURES[name]().axes:
        bare = ax.get_label() == "<colorbar>" or len(ax.get_xticks()) == 0 or not ax.axison
        assert not ax.has_data() or ax.get_xlabel() or bare or name == "weight_maps", "an axis without a label"


@pytest.mark.parametrize("name", sorted(set(FIGURES) - {"attention_triptych", "weight_maps"}))
def test_lines_and_patches_have_palette_colours(name):
    allowed = {light.lower() for light, _ in palette.COLORS.values()}
    for ax in FIGURES[name]().axes:
        faces = [patch.get_facecolor() for patch in ax.patches]
        used = [line.get_color() for line in ax.lines] + [face for face in faces if face[3] > 0]
        assert {to_hex(colour) for colour in used} <= allowed


def test_weights_are_shown_from_zero_to_one_whatever_they_are():
    for weights in (P, P * 0.01, np.zeros((3, 3))):
        mappable = figures.heat_weights(Figure().subplots(), weights)
        assert mappable.get_clim() == (0.0, 1.0)
        assert mappable.get_cmap().name == palette.P_MAP


@pytest.mark.parametrize("limit", [None, 7.0])
def test_scores_are_shown_symmetric_about_zero(limit):
    mappable = figures.heat_scores(Figure().subplots(), S + M, limit=limit)
    low, high = mappable.get_clim()
    assert low == -high
    assert high == (np.abs(S[np.isfinite(M)]).max() if limit is None else limit)
    assert mappable.get_cmap().name == palette.S_MAP


def hatched(ax) -> set[tuple[int, int]]:
    return {(int(patch.get_y()), int(patch.get_x())) for patch in ax.patches if patch.get_hatch()}


def test_exactly_the_masked_cells_are_hatched_grey_and_have_no_colour_of_the_scale():
    future = {(i, j) for i in range(T) for j in range(T) if j > i}
    for draw, data, kwargs in (
        (figures.heat_scores, S + M, {}),
        (figures.heat_scores, S, {"masked": np.isneginf(M)}),
        (figures.heat_weights, P, {"masked": np.isneginf(M)}),
    ):
        ax = Figure().subplots()
        mesh = draw(ax, data, **kwargs)
        assert hatched(ax) == future
        assert {to_hex(patch.get_edgecolor()) for patch in ax.patches} == {palette.COLORS["masked"][0].lower()}
        assert np.array_equal(np.ma.getmaskarray(mesh.get_array()).reshape(T, T), np.isneginf(M))


def test_the_triptych_hatches_its_second_and_third_panel():
    scores, masked, weights = figures.attention_triptych(S, M, P).axes[:3]
    assert hatched(scores) == set()
    assert len(hatched(masked)) == len(hatched(weights)) == T * (T - 1) // 2


def test_numbers_are_written_where_cells_are_few_and_are_those_of_the_data():
    ax = Figure().subplots()
    figures.heat_weights(ax, P, masked=np.isneginf(M))
    assert [text.get_text() for text in ax.texts] == [f"{P[i, j]:.2f}" for i in range(T) for j in range(i + 1)]
    ax = Figure().subplots()
    figures.heat_weights(ax, np.eye(30))
    assert not ax.texts


def test_nan_is_written_not_coloured():
    ax = Figure().subplots()
    mesh = figures.heat_weights(ax, [[np.nan, np.nan], [1.0, 0.0]], masked=[[True, False], [False, False]])
    assert [text.get_text() for text in ax.texts] == ["NaN", "NaN", "1.00", "0.00"]
    assert np.ma.getmaskarray(mesh.get_array()).sum() == 2


def test_the_first_row_is_on_top():
    for draw in (figures.heat_scores, figures.heat_weights):
        ax = Figure().subplots()
        draw(ax, P)
        assert ax.get_ylim() == (T, 0)


def test_roles_have_the_hues_of_queries_keys_and_values():
    marks = np.zeros((1, 1, 3), int), np.array([[[0, 1, 2]]])
    cells = figures.origins({"a": marks}, roles=True).axes[0].patches
    assert [to_hex(c.get_facecolor()) for c in cells] == [palette.COLORS[n][0].lower() for n in "qkv"]


def test_leaks_and_only_leaks_are_crossed():
    change = np.tril(np.ones((3, 3)))
    change[0, 2] = 1e-300
    ax = figures.influence_maps({"a": change}).axes[0]
    assert [(text.get_position(), text.get_text()) for text in ax.texts] == [((2.5, 0.5), "×")]
    assert len(ax.patches) == 7


def test_the_style_is_the_palettes_and_the_ground_is_the_page():
    with mpl.rc_context():
        figures.use_book_style()
        assert mpl.rcParams["text.color"] == palette.COLORS["ink"][0]
        assert mpl.rcParams["axes.facecolor"] == "none"
