"""Every widget on its page: each control by mouse and by keyboard, what it shows beside what Python computes for it."""

import re

import numpy as np
import pytest

from tiny_gpt.widgets import Clinic, MaskExplorer, SamplingExplorer, ScalingExplorer, ShapeWalk

PAGES = {
    "tgw-scaling": "02_scores_and_scaling",
    "tgw-mask": "03_causal_mask",
    "tgw-shapes": "05_many_heads",
    "tgw-residual": "07_block",
    "tgw-sampling": "09_generation",
    "tgw-losses": "13_train_it",
    "tgw-clinic": "11_debugging",
    "tgw-playground": "intro",
}
HOSTILE = ["<script>window.hacked = 1</script>", "w" * 10_000, "🤖👩‍👩‍👧🏳️‍🌈", "שלום עליכם", "\u202eabc", ""]


class Widget:
    """One widget on a page: where a reader looks and what a reader does."""

    def __init__(self, watched, name):
        self.page, self.complaints = watched.page, watched.complaints
        self.root = self.page.locator(f".{name}").first
        self.root.scroll_into_view_if_needed()
        self.twin = None

    def traits(self) -> dict:
        return self.root.evaluate(
            """(root, names) => {
              const { model } = window.staticModels.get(root.closest(".static-widget").dataset.model);
              return Object.fromEntries(names.map((name) => [name, model.get(name)]));
            }""",
            ["d_k", "n_keys", "scaling", "seed", "text", "mask", "changed", "B", "T", "C", "H", "reshape", "step",
             "kind", "depth", "profiles", "contexts", "vocab", "context", "temperature", "top_k", "draws",
             "eval_step", "train_loss", "valid_loss", "lr", "at", "samples", "reference", "ladder"],
        )  # fmt: skip

    def python(self, cls):
        """The same widget in Python, with the traits that the page's one has now."""
        mine = {
            name: value for name, value in self.traits().items() if value is not None and name in cls.class_traits()
        }
        if self.twin is None:
            self.twin = cls(mine["contexts"], mine["vocab"]) if cls is SamplingExplorer else cls()
        with self.twin.hold_trait_notifications():
            for name, value in mine.items():
                setattr(self.twin, name, value)
        return self.twin

    def says(self) -> str:
        self.settle()
        return self.root.locator(".tgw-says").inner_text().replace("−", "-").replace("\u202f", "")

    def settle(self):
        """Until what was asked for has been drawn."""
        self.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def slider(self, name):
        return self.root.get_by_role("slider", name=name)

    def drag(self, name, share):
        """Take a slider to a share of its way, with the mouse."""
        box = self.slider(name).bounding_box()
        self.page.mouse.click(box["x"] + 8 + share * (box["width"] - 16), box["y"] + box["height"] / 2)
        self.settle()

    def key(self, name, *keys):
        self.slider(name).focus()
        for key in keys:
            self.page.keyboard.press(key)
        self.settle()

    def choose(self, name, by):
        radio = self.root.get_by_role("radio", name=name, exact=True)
        if by == "mouse":
            radio.click()
        else:
            radio.focus()
            self.page.keyboard.press("Space")
        self.settle()

    def press(self, name, by="mouse"):
        button = self.root.get_by_role("button", name=name)
        if by == "mouse":
            button.click()
        else:
            button.focus()
            self.page.keyboard.press("Enter")
        self.settle()


# where the page comes from and what the reader's hand is on: both of each, in two rounds instead of four
ROUNDS = pytest.mark.parametrize(("scheme", "by"), [("http", "mouse"), ("file", "keyboard")])


@pytest.fixture
def open_widget(book, book_url, watch):
    opened = []

    def make(name, page=None, scheme="http", **settings) -> Widget:
        base = book_url if scheme == "http" else book.as_uri()
        watched = watch(base, viewport={"width": 1280, "height": 900}, **settings)
        watched.open(f"{base}/book/{page or PAGES[name]}.html")
        watched.page.wait_for_selector(f".{name}")
        opened.append(watched)
        return Widget(watched, name)

    yield make
    for watched in opened:
        assert watched.complaints == []


def numbers(text):
    return [float(x) for x in re.findall(r"-?\d+(?:\.\d+)?(?:e-?\d+)?", text)]


@ROUNDS
def test_scaling(open_widget, scheme, by):
    widget = open_widget("tgw-scaling", scheme=scheme)

    def check():
        w, text = widget.python(ScalingExplorer), widget.says()
        shown = numbers(text.replace("1/√D", "").replace("1/D", "").replace("1/√C", ""))
        most = np.log2(w.n_keys)
        expected = [w.d_k, w.n_keys, w.bits("none"), most, w.jacobian("none"), w.bits(), most, w.jacobian()]
        assert len(shown) == len(expected), text
        for a, b in zip(shown, expected, strict=True):
            assert abs(a - b) <= 0.0051 + 0.05 * abs(b) * (b < 0.01), text
        titles = widget.root.locator(".tgw-title").all_text_contents()
        assert f"{w.bits('none'):.2f} bits" in titles[0]
        assert f"{w.bits():.2f} bits" in titles[1]
        assert widget.root.locator(".tgw-chart").first.locator(".tgw-bar").count() == w.n_keys

    check()
    if by == "mouse":
        widget.drag("Width D", 1)
        assert widget.traits()["d_k"] == 1024
        check()
        widget.drag("Number of keys", 1)
        assert widget.traits()["n_keys"] == 64
    else:
        widget.key("Width D", "Home", "ArrowRight", "ArrowRight")
        assert widget.traits()["d_k"] == 3
        check()
        widget.key("Number of keys", "End", "ArrowLeft")
        assert widget.traits()["n_keys"] == 63
    check()
    for name in ("÷ D", "÷ √C, with C = 8 D", "not at all", "÷ √D"):
        widget.choose(name, by)
        check()
    seed = widget.traits()["seed"]
    widget.press("Draw other vectors", by)
    assert widget.traits()["seed"] == seed + 1
    check()


@ROUNDS
def test_mask(open_widget, scheme, by):
    widget = open_widget("tgw-mask", scheme=scheme)

    def check():
        w, text = widget.python(MaskExplorer), widget.says()
        T, P = len(w.text), w.weights()
        cells = widget.root.locator("[data-map=P] [role=gridcell]")
        labels = cells.evaluate_all("cells => cells.map((c) => c.getAttribute('aria-label') ?? '')")
        found = [re.search(r"P = (\S+)\.$", label.replace("−", "-")) for label in labels]
        found = [float(match[1]) for match in found if match]
        assert np.allclose(np.reshape(found, (T, T)), P, atol=5.1e-4, equal_nan=True)
        sums = widget.root.locator("[data-map=P] .tgw-beside").all_inner_texts()[1:]
        assert np.allclose([float(x) for x in sums], P.sum(1), atol=5.1e-3, equal_nan=True)
        assert ("NaN" in text) == bool(np.isnan(P).any())
        if w.changed >= 0:
            moves = [float(x) for x in widget.root.locator(".tgw-tile span:last-child").all_inner_texts()]
            assert np.allclose(moves, w.moved(), atol=5.1e-3, equal_nan=True)
            assert ("leaks" in text) == bool((w.moved()[: w.changed] > 1e-9).any())

    check()
    for changed in (0, 3, 5):
        tile = widget.root.locator(".tgw-tile").nth(changed)
        if by == "mouse":
            tile.click()
        else:
            tile.focus()
            widget.page.keyboard.press("Enter")
        widget.settle()
        assert widget.traits()["changed"] == changed
        assert tile.get_attribute("aria-pressed") == "true"
        if by == "keyboard":
            assert tile.evaluate("tile => tile === document.activeElement")  # it was drawn again, and keeps the focus
        for name in ("as it should be", "one too far: sees the next", "one too short: not itself", "missing"):
            widget.choose(name, by)
            check()
        widget.choose("after the softmax", by)
        check()
    field = widget.root.get_by_role("textbox")
    if by == "mouse":
        field.fill("Now is the winter of our")
    else:
        field.focus()
        widget.page.keyboard.press("Control+A")
        widget.page.keyboard.type("Now is the w")
    widget.settle()
    assert widget.traits()["text"] == "Now is the w"
    check()


def test_mask_cells_say_what_they_are(open_widget):
    widget = open_widget("tgw-mask")
    readout = widget.root.locator(".tgw-readout")
    w = widget.python(MaskExplorer)
    widget.root.locator("[data-map=S] .tgw-cell").nth(6 * 4 + 1).hover()
    assert readout.inner_text().replace("−", "-").startswith(f"Query 4 “e”, key 1 “o”: S = {w.scores()[4, 1]:.2f},")
    first = widget.root.locator("[data-map=P] .tgw-cell").first
    first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "End", "ArrowUp", "Home", "ArrowLeft"):
        widget.page.keyboard.press(key)
    assert "Query 1 “o”, key 0 “T”" in readout.inner_text()
    assert f"P = {w.weights()[1, 0]:.3f}." in readout.inner_text()
    assert widget.root.locator("[data-map=P] [tabindex='0']").count() == 1  # one stop for Tab


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "long", "emoji", "rtl", "override", "empty"])
def test_mask_takes_any_text_as_text(open_widget, text):
    widget = open_widget("tgw-mask")
    widget.root.get_by_role("textbox").fill(text)
    widget.settle()
    assert widget.traits()["text"] == text[:12]
    assert widget.page.evaluate("window.hacked") is None
    assert widget.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if text:
        assert widget.root.locator("[data-map=S] th[scope=row]").count() == len(text[:12])
    else:
        assert "Type a character" in widget.root.inner_text()
        widget.root.get_by_role("textbox").fill("ab")
        widget.settle()
        assert widget.root.locator("[data-map=S] .tgw-cell").count() == 4


@pytest.mark.parametrize("page", ["04_attention_head", "05_many_heads"])
@ROUNDS
def test_shapes(open_widget, page, scheme, by):
    widget = open_widget("tgw-shapes", page, scheme)

    def check():
        w = widget.python(ShapeWalk)
        positions, owners = w.origins()
        labels = widget.root.locator(".tgw-grids .tgw-chart").evaluate_all(
            "all => all.map((g) => g.getAttribute('aria-label'))"
        )
        found = re.findall(r"from position (\d+), head (\d+)", " ".join(labels))
        assert [int(p) for p, _ in found] == positions.ravel().tolist()
        assert [int(h) for _, h in found] == owners.ravel().tolist()
        assert f"Shape ({', '.join(map(str, w.elements().shape))})." in widget.says()
        current = widget.root.locator("[aria-current=step]").get_attribute("data-step")
        assert current == str(w.step)

    check()
    for name in ("q, k, v and heads cut all at once", "merged without the transpose", "split by view alone", "right"):
        widget.choose(name, by)
        while widget.traits()["step"] > 0:
            widget.press("Back", by)
        for step in range(9):
            assert widget.traits()["step"] == step
            check()
            if step < 8:
                widget.press("Next line", by)
        end = widget.root.get_by_role("button", name="Next line")
        assert end.get_attribute("aria-disabled") == "true"
        end.click(force=True)
        assert widget.traits()["step"] == 8
    for name, values in (
        ("B, texts", (1, 2)),
        ("T, positions", (2, 5)),
        ("H, heads", (1, 3)),
        ("C, channels", (3, 12)),
    ):
        for end, value in zip((0, 1), values, strict=True):
            if by == "mouse":
                widget.drag(name, end)
            else:
                widget.key(name, ("Home", "End")[end])
            assert widget.traits()[name[0]] == value
            check()


@ROUNDS
def test_residual(open_widget, scheme, by):
    widget = open_widget("tgw-residual", scheme=scheme)
    profiles = widget.traits()["profiles"]
    assert set(profiles) == {"pre-norm", "post-norm", "no residual"}
    for end, depth in ((0, 2), (1, 16)):
        if by == "mouse":
            widget.drag("Depth", end)
        else:
            widget.key("Depth", ("Home", "End")[end])
        assert widget.traits()["depth"] == depth
        for kind in profiles:
            widget.choose(kind, by)
            assert widget.traits()["kind"] == kind
            profile = profiles[kind][str(depth)]
            reach = profile["gradient"][0] / profile["gradient"][-1]
            share = np.hypot(profile["attention"][-1], profile["ffn"][-1]) / profile["stream"][-1]
            shown = numbers(widget.says().replace("Pre-norm", "").replace("Post-norm", ""))
            assert shown[0] == depth
            assert shown[-2] == pytest.approx(reach, rel=0.06)
            assert shown[-1] == pytest.approx(share, rel=0.06)


@ROUNDS
def test_sampling(open_widget, scheme, by):
    widget = open_widget("tgw-sampling", scheme=scheme)
    vocab = widget.traits()["vocab"]

    def check():
        w, text = widget.python(SamplingExplorer), widget.says()
        p = w.probabilities()
        bits, choices = numbers(text)[:2]
        assert bits == pytest.approx(w.bits(), abs=0.0051)
        assert choices == pytest.approx(2 ** w.bits(), abs=0.051)
        kept = int((p > 0).sum())
        assert (f"All {kept} tokens" if kept == len(vocab) else f"{kept} of {len(vocab)} tokens") in text
        if w.draws:
            assert f"Last of {w.draws} drawn" in text
            dots = widget.root.locator(".tgw-drawn")
            order = np.argsort(-np.array(w.contexts[w.context]["logits"]), kind="stable")
            most = widget.root.locator(".tgw-chart .tgw-axes text").count()
            assert dots.count() <= np.count_nonzero(w.counts()[order[:most]])
            assert w.counts().sum() == w.draws

    check()
    steps = (("Temperature", 0.0), ("Temperature", 5.0), ("Top-k", 1), ("Top-k", len(vocab)))
    for (name, value), end in zip(steps, (0, 1, 0, 1), strict=True):
        if by == "mouse":
            widget.drag(name, end)
        else:
            widget.key(name, ("Home", "End")[end])
        assert widget.traits()[{"Temperature": "temperature", "Top-k": "top_k"}[name]] == value
        check()
    widget.press("Draw one", by)
    assert widget.traits()["draws"] == 1
    check()
    widget.press("Draw a thousand", by)
    assert widget.traits()["draws"] == 1001
    check()
    widget.key("Temperature", "ArrowLeft")  # another distribution: the draws are gone
    assert widget.traits()["draws"] == 0
    seed = widget.traits()["seed"]
    widget.press("Start again", by)
    assert widget.traits()["seed"] == seed + 1
    picker = widget.root.get_by_role("combobox")
    if by == "mouse":
        picker.select_option(index=2)
    else:
        picker.focus()
        widget.page.keyboard.press("ArrowDown")
        widget.page.keyboard.press("ArrowDown")
    widget.settle()
    assert widget.traits()["context"] == 2
    check()


@ROUNDS
def test_losses(open_widget, scheme, by):
    widget = open_widget("tgw-losses", scheme=scheme)
    run = widget.traits()
    assert run["at"] == len(run["eval_step"]) - 1
    assert run["ladder"]
    for end, at in ((0, 0), (1, len(run["eval_step"]) - 1)):
        if by == "mouse":
            widget.drag("Look at the run", end)
        else:
            widget.key("Look at the run", ("Home", "End")[end])
        assert widget.traits()["at"] == at
        text = widget.says()
        assert f"After {run['eval_step'][at]} updates" in text
        assert f"training loss {run['train_loss'][at]:.3f}, validation loss {run['valid_loss'][at]:.3f}" in text
        for name, loss in run["ladder"].items():
            assert (name in text) == (run["valid_loss"][at] < loss)
        if run["reference"]:
            assert "nanoGPT 4.166" in text if at == 0 else "nanoGPT" in text or len(run["eval_step"]) < 9
        written = [sample for step, sample in run["samples"] if step <= run["eval_step"][at]][-1]
        assert widget.root.locator(".tgw-sample").evaluate("pre => pre.textContent") == written


@ROUNDS
def test_clinic(open_widget, scheme, by):
    widget = open_widget("tgw-clinic", scheme=scheme)
    clinic = Clinic()

    def chart():
        return widget.root.evaluate(
            """root => window.staticModels.get(root.closest(".static-widget").dataset.model).model.get("charts")"""
        )

    def tally():
        return widget.root.locator(".tgw-tally").inner_text()

    widget.press("Next", by)
    patient = clinic.patients[1]
    assert f"{patient['parameters']:,}".replace(",", "\u202f") in widget.root.locator(".tgw-facts").inner_text()
    assert f"{patient['train'][0]:.3f} nats" in widget.root.locator(".tgw-facts").inner_text()
    assert widget.root.locator(".tgw-sample").evaluate("pre => pre.textContent") == patient["sample"]
    widget.press("That is it", by)
    assert widget.says() == "Choose a verdict first."
    widget.press("Perturb one token", by)
    result = widget.root.locator(".tgw-test").filter(has_text="Perturb one token")
    assert f"position {patient['tests']['perturb']['position']} was changed" in result.inner_text()
    assert result.locator(".tgw-bar").count() == len(patient["tests"]["perturb"]["moved"])
    widget.choose(clinic.diagnoses[patient["confusable"][0]][0], by)
    widget.press("That is it", by)
    assert widget.says().startswith("Not that. If it were so:")
    assert tally() == "0 of 25 diagnosed, 0 of 0 points."
    widget.choose(clinic.diagnoses[patient["bug"]][0], by)
    widget.press("That is it", by)
    assert chart() == {"1": {"ordered": ["perturb"], "named": [patient["confusable"][0], patient["bug"]]}}
    clinic.charts = chart()
    assert clinic.points(1) == 5
    assert widget.says().startswith("Right, 5 points. " + patient["why"])
    assert tally() == "1 of 25 diagnosed, 5 of 10 points."
    assert widget.root.get_by_role("button", name="That is it").count() == 0

    widget.page.reload()
    widget.page.wait_for_selector(".tgw-clinic")
    widget.settle()
    assert tally() == "1 of 25 diagnosed, 5 of 10 points."
    widget.press("Forget all", by)
    assert tally() == "0 of 25 diagnosed, 0 of 0 points."
    widget.page.evaluate("localStorage.setItem('tiny-gpt:clinic:chapter-11', '{\"0\": {\"ordered\": 7}}')")
    widget.page.reload()
    widget.page.wait_for_selector(".tgw-clinic")
    assert tally() == "0 of 25 diagnosed, 0 of 0 points."


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_and_its_still_keeps_its_room(book_url, watch, name, width):
    """Nothing scrolls sideways; and what stands there before the widget starts is not lower than the widget."""
    heights = []
    for script in (True, False):
        watched = watch(book_url, viewport={"width": width, "height": 900}, java_script_enabled=script)
        page = watched.page
        if script:
            watched.open(f"{book_url}/book/{PAGES[name]}.html")
            page.wait_for_selector(f".{name}")
            box = page.locator(f".{name}").first.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            heights.append(box["height"])
        else:
            page.goto(f"{book_url}/book/{PAGES[name]}.html")
            still = page.locator(".tgw-still").first
            text = still.inner_text()
            assert "With JavaScript" in text
            assert still.locator("svg").count() == 1
            side = "--narrow" if width <= 600 else "--wide"
            heights.append(still.evaluate(f"el => parseFloat(getComputedStyle(el).getPropertyValue('{side}'))"))
    assert -8 <= heights[1] - heights[0] <= 60, heights


@pytest.mark.parametrize("name", PAGES)
def test_what_a_screen_reader_is_told(book_url, watch, name):
    """Every chart has words, every control a name; the sentence is announced after a change, once."""
    watched = watch(book_url, viewport={"width": 1280, "height": 900})
    watched.open(f"{book_url}/book/{PAGES[name]}.html")
    watched.page.wait_for_selector(f".{name}")
    widget = Widget(watched, name)
    for chart in widget.root.locator("svg[role=img]").all():
        assert len(chart.get_attribute("aria-label")) > 10
    for control in widget.root.locator("input, select, button").all():
        if control.is_visible():
            names = control.evaluate(
                "el => (el.labels?.[0]?.innerText || el.getAttribute('aria-label') || el.innerText).trim()"
            )
            assert names
    status = widget.root.locator("[role=status]").first
    assert status.inner_text() == ""
    slider = widget.root.get_by_role("slider").first
    if name == "tgw-clinic":
        widget.press("That is it", "keyboard")
    elif slider.count():
        slider.focus()
        for _ in range(3):
            watched.page.keyboard.press("ArrowLeft")
    else:
        widget.choose("missing", "keyboard")
    assert status.inner_text() == ""  # the reader may go on: nothing is said before the control has rested a while
    watched.page.wait_for_timeout(1000)
    assert status.inner_text().replace("\u202f", "").replace("−", "-").endswith(widget.says()[-30:])
