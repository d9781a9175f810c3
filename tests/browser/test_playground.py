"""The playground on its page: it writes what Python writes, shows what PyTorch computes, and takes a reader's file."""

import base64
import math
import re

import matplotlib as mpl
import pytest
import torch
from test_widgets import PAGES, ROUNDS, open_widget  # noqa: F401 (a fixture)

from tiny_gpt import GPTConfig, TinyGPT, weights
from tiny_gpt.data import CharTokenizer
from tiny_gpt.rng import seeded
from tiny_gpt.widgets import Playground

SHOWN = 0.0051  # two decimals
INT8 = 2e-3  # what 16 bits for an activation may move a probability by, as tests/test_widgets_playground.py has it


@pytest.fixture(scope="module")
def carried():
    """The model that the page has, in PyTorch: (model, tokenizer)."""
    return weights.from_bytes(weights.for_page(weights.carried()[0]))[:2]


class Play:
    """The playground and what a reader does with it."""

    def __init__(self, widget):
        self.widget, self.page, self.root = widget, widget.page, widget.root
        self.arrived()

    def arrived(self, name="shakespeare-cpu"):
        self.root.page.locator(f".tgw-playground[data-model='{name}']").first.wait_for(timeout=60_000)
        self.page.wait_for_function("!document.querySelector('.tgw-playground progress').checkVisibility()")

    def trait(self, *names):
        found = self.root.evaluate(
            """(root, names) => {
              const { model } = window.staticModels.get(root.closest(".static-widget").dataset.model);
              return names.map((name) => model.get(name));
            }""",
            names,
        )
        return found if len(found) > 1 else found[0]

    def put(self, **traits):
        """What Python would do in a notebook."""
        self.root.evaluate(
            """(root, traits) => {
              window.staticModels.get(root.closest(".static-widget").dataset.model).model.set(traits);
            }""",
            traits,
        )
        self.widget.settle()

    def text(self):
        return self.root.locator(".tgw-page").evaluate("page => page.textContent")

    def alarm(self):
        """What stands above the text."""
        return self.root.get_by_role("alert").first.inner_text()

    def written(self):
        """Until the model has written and rests."""
        stop = self.root.get_by_role("button", name="Stop")
        self.page.wait_for_function(
            "(stop) => stop.getAttribute('aria-disabled') === 'true'", arg=stop.element_handle(), timeout=60_000
        )
        self.widget.settle()

    def choose(self, at, by):
        """Look at a place of the text."""
        if by == "mouse":
            self.root.locator(".tgw-page [role=option]").nth(at).click()
        else:
            self.root.locator(".tgw-page").focus()
            way = "ArrowRight" if at > self.trait("at") else "ArrowLeft"
            for _ in range(abs(at - self.trait("at"))):
                self.page.keyboard.press(way)
        self.widget.settle()
        assert self.trait("at") == at
        assert self.root.locator(".tgw-page [aria-selected=true]").count() == 1

    def view(self, name, by):
        tab = self.root.get_by_role("tab", name=name)
        if by == "mouse":
            tab.click()
            self.widget.settle()
        else:
            self.root.locator("[role=tab][aria-selected=true]").focus()
            while tab.get_attribute("aria-selected") != "true":
                self.page.keyboard.press("ArrowRight")
                self.widget.settle()
        assert self.root.get_by_role("tabpanel").get_attribute("aria-labelledby") == tab.get_attribute("id")

    def says(self, pattern):
        """The view's sentence, once it is such a one: the answer of the engine takes its time."""
        says = self.root.locator(".tgw-panel .tgw-says")
        for _ in range(300):
            found = re.search(pattern, says.inner_text())
            if found:
                return found
            self.page.wait_for_timeout(100)
        raise AssertionError(says.inner_text())

    def give(self, path, how):
        """Choose a file, or drop it."""
        if how == "choose":
            self.root.locator("input[type=file]").set_input_files(path)
            return
        data = self.page.evaluate_handle(
            """([name, text]) => {
              const data = new DataTransfer();
              data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
              return data;
            }""",
            [path.name, base64.b64encode(path.read_bytes()).decode()],
        )
        for event in ("dragenter", "dragover", "drop"):
            self.root.dispatch_event(event, {"dataTransfer": data})


@pytest.fixture
def play(open_widget):  # noqa: F811
    return lambda **settings: Play(open_widget("tgw-playground", **settings))


def signs(character):
    return {" ": "␣", "\n": "↵"}.get(character, character)


@ROUNDS
def test_it_writes_what_python_writes(play, scheme, by):
    playing = play(scheme=scheme)
    names = ("prompt", "temperature", "top_k", "length", "seed")
    before = dict(zip(names, playing.trait(*names), strict=True))
    twin = Playground(**before)
    assert playing.text() == before["prompt"] + twin.text, "what was computed when the page was built"
    prompt = playing.root.get_by_role("textbox", name="Prompt")
    seed = playing.root.get_by_role("textbox", name="Seed")
    if by == "mouse":
        playing.widget.drag("Length", 0)
        playing.widget.drag("Top-k", 0.1)
        playing.widget.drag("Temperature", 0.7)
        prompt.fill("JULIET:\nGood ")
        seed.fill("77")
        playing.widget.press("Write", by)
    else:
        playing.widget.key("Length", "Home", "ArrowRight", "ArrowRight")
        playing.widget.key("Top-k", "Home", "ArrowRight", "ArrowRight", "ArrowRight")
        playing.widget.key("Temperature", "End", "ArrowLeft", "ArrowLeft")
        seed.focus()
        playing.page.keyboard.press("Control+A")
        playing.page.keyboard.type("77")
        prompt.focus()
        playing.page.keyboard.press("Control+A")
        playing.page.keyboard.type("So")
        playing.page.keyboard.press("Control+Enter")
    playing.written()
    now = dict(zip(names, playing.trait(*names), strict=True))
    assert all(now[name] != before[name] for name in names), now
    assert now["seed"] == 77
    for _ in range(2):
        twin = Playground(**now)
        assert playing.trait("text") == twin.text
        assert playing.text() == now["prompt"] + twin.text
        assert len(playing.trait("record")) == now["length"]
        playing.widget.press("Another", by)
        playing.written()
        now["seed"] += 1
        assert playing.trait("seed") == now["seed"]


def test_the_large_model_comes_on_request_only(play):
    playing = play()
    large = weights.carried()[-1]
    assert large != weights.carried()[0]
    came = "(name) => [...document.scripts].some((script) => script.src.includes(name))"
    assert not playing.page.evaluate(came, large)
    offer = playing.root.get_by_role("button", name=re.compile(r"^Large model, [\d.]+ MB$"))
    megabytes = float(offer.inner_text().split()[-2])
    assert megabytes == pytest.approx(len(weights.for_page(large)) / 1e6, abs=0.06)
    offer.click()
    playing.arrived(large)
    playing.written()
    assert playing.page.evaluate(came, large)
    playing.put(length=60, prompt="ROMEO:\n", seed=5)
    playing.widget.press("Write")
    playing.written()
    names = ("prompt", "temperature", "top_k", "length", "seed")
    twin = Playground(
        *weights.from_bytes(weights.for_page(large))[:2], **dict(zip(names, playing.trait(*names), strict=True))
    )
    assert playing.trait("text") == twin.text
    says = playing.root.locator(".tgw-about").inner_text()
    assert says.startswith("Large model")
    assert "6 layers" in says
    playing.root.get_by_role("button", name=re.compile("^Small model")).click()
    playing.arrived()


def test_it_stops_and_keeps_what_was_written(play):
    playing = play()
    playing.put(length=2000)
    playing.widget.press("Write")
    playing.page.wait_for_function("document.querySelectorAll('.tgw-page [role=option]').length > 20")
    playing.widget.press("Stop")
    playing.written()
    assert 0 < len(playing.trait("text")) < 2000
    assert playing.text() == playing.trait("prompt") + playing.trait("text")
    assert len(playing.trait("record")) == len(playing.trait("text"))


@ROUNDS
def test_its_choices(play, carried, scheme, by):
    model, tokenizer = carried
    playing = play(scheme=scheme)
    text, N = playing.text(), model.config.block_size
    start = len(playing.trait("prompt"))
    for at in (start + 3, start + 12, 2, N + 9):
        playing.choose(at, by)
        with torch.no_grad():
            z = model(tokenizer.encode(text[max(0, at - N) : at])[None])[0][0, -1].double()
        p = (z / playing.trait("temperature")).softmax(-1)
        own = p[tokenizer.vocab.index(text[at])].item()
        says = playing.says(
            rf"^“{re.escape(signs(text[at]))}”(, in the prompt,)? has probability ([\d.]+) .*: ([\d.]+) bits"
        )
        assert bool(says[1]) == (at < start)
        assert float(says[2]) == pytest.approx(own, abs=INT8)
        assert float(says[3]) == pytest.approx(-math.log2(own), abs=0.01 + 2 * INT8 / own)
        rows = playing.root.locator(".tgw-choices li")
        shown = {row.locator(".tgw-key").inner_text(): row.locator(".tgw-number").inner_text() for row in rows.all()}
        assert signs(text[at]) in shown
        best = p.topk(6)
        for share, i in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            if share - best.values[-1] > INT8:
                assert float(shown[signs(tokenizer.vocab[i])][:5]) == pytest.approx(share, abs=INT8)
        assert playing.root.locator(".tgw-chosen .tgw-key").inner_text() == signs(text[at])
    playing.choose(0, by)
    playing.says("^Nothing stands before the first character")


def test_the_arrow_keys_go_up_and_down(play):
    playing = play()
    text = playing.text()
    lines = text.split("\n")
    at = len(lines[0]) + 1 + 2  # the third character of the second line
    playing.choose(at, "mouse")
    playing.page.keyboard.press("ArrowUp")
    playing.widget.settle()
    assert playing.trait("at") == 2
    playing.page.keyboard.press("ArrowDown")
    playing.widget.settle()
    assert playing.trait("at") == at
    for key, place in (("End", len(text) - 1), ("ArrowRight", len(text) - 1), ("Home", 0), ("ArrowLeft", 0)):
        playing.page.keyboard.press(key)
        playing.widget.settle()
        assert playing.trait("at") == place


def test_colours_are_the_probabilities(play):
    playing = play()
    span = playing.root.locator(".tgw-page [role=option]")
    start = len(playing.trait("prompt"))
    assert span.nth(start).evaluate("e => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"
    playing.root.get_by_label("Colour by probability").check()
    playing.widget.settle()
    for i in (0, 5, 60, 100):
        p = playing.trait("record")[i][0]
        found = span.nth(start + i).evaluate("e => getComputedStyle(e).backgroundColor")
        wanted = [255 * x for x in mpl.colormaps["cividis"](p)[:3]]
        assert [int(x) for x in re.findall(r"\d+", found)] == pytest.approx(wanted, abs=6)
    playing.page.wait_for_function(  # of the prompt's characters too, once the model was asked
        """() => getComputedStyle(document.querySelectorAll(".tgw-page [role=option]")[2]).backgroundColor
          !== "rgba(0, 0, 0, 0)" """
    )


@ROUNDS
def test_attention(play, carried, scheme, by):
    model, tokenizer = carried
    playing = play(scheme=scheme)
    playing.view("Attention", by)
    N, text = model.config.block_size, playing.text()
    for at, layer, head in ((len(playing.trait("prompt")) + 4, 0, 0), (30, 2, 1), (N + 7, 3, 3)):
        playing.choose(at, by)
        chooser = playing.root.get_by_role("radio", name=f"Layer {layer + 1}, head {head + 1}")
        chooser.wait_for()
        if by == "mouse":
            chooser.click()
        else:
            playing.root.locator(".tgw-heads [aria-checked=true]").focus()
            for name, steps in (("ArrowDown", layer), ("ArrowRight", head)):
                for _ in range((steps - playing.trait("layer" if name == "ArrowDown" else "head")) % 4):
                    playing.page.keyboard.press(name)
                    playing.widget.settle()
            assert chooser.evaluate("e => e === document.activeElement")
        assert playing.trait("layer", "head") == [layer, head]
        window = text[max(0, at - N) : at]
        with torch.no_grad():
            row = model.attention_weights(tokenizer.encode(window)[None])[layer, 0, head, -1]
        says = playing.says(
            rf"^Having read “{re.escape(signs(text[at - 1]))}”, head {head + 1} of layer {layer + 1} looks at (.*)"
        )[1]
        found = re.findall(r"“(.)” \((itself|\d+ back)\) ([\d.]+\d)", says)
        assert len(found) == min(3, len(window))
        for character, back, weight in found:
            place = len(window) - 1 - (0 if back == "itself" else int(back.split()[0]))
            assert character == signs(window[place])
            assert float(weight) == pytest.approx(row[place].item(), abs=SHOWN + INT8)
        assert float(found[0][2]) == pytest.approx(row.max().item(), abs=SHOWN + INT8)
    cells = playing.root.locator(".tgw-map .tgw-cell")
    cells.nth(5).hover()  # row 2, column 2 of what is drawn
    assert re.match(
        r"“.” \(place \d+\) reads “.” \(place \d+\): weight [\d.]+\.", playing.root.locator(".tgw-readout").inner_text()
    )
    before = playing.trait("at")
    cells.nth(5).click()
    assert playing.trait("at") < before


@ROUNDS
def test_layer_by_layer(play, carried, scheme, by):
    model, tokenizer = carried
    playing = play(scheme=scheme)
    playing.view("Layer by layer", by)
    at, text = len(playing.trait("prompt")) + 20, playing.text()
    playing.choose(at, by)
    playing.says(rf"^Before “{re.escape(signs(text[at]))}”, having read")
    ids = tokenizer.encode(text[:at])[None]
    with torch.no_grad():
        x, read = model.wte(ids) + model.wpe(torch.arange(at)), []
        for block in (None, *model.blocks):
            x = block(x) if block else x
            read.append(model.lm_head(model.ln_f(x))[0, -1].softmax(-1))
    rows = playing.root.locator(".tgw-lens tbody tr").all()
    assert len(rows) == len(read)
    for row, p in zip(rows, read, strict=True):
        cells = [cell.inner_text() for cell in row.locator("td").all()]
        for cell, share in zip(cells[:-1], p.sort(descending=True).values.tolist(), strict=False):
            assert float(re.search(r"\d\.\d+", cell)[0]) == pytest.approx(share, abs=SHOWN + INT8)
        assert float(cells[-1]) == pytest.approx(p[tokenizer.vocab.index(text[at])].item(), abs=INT8)


@ROUNDS
def test_what_if(play, carried, scheme, by):
    model, tokenizer = carried
    playing = play(scheme=scheme)
    at, text = len(playing.trait("prompt")) + 9, playing.text()
    playing.view("What if", by)
    playing.choose(at, by)
    field = playing.root.get_by_role("textbox", name="Put in its place")
    field.wait_for()
    if by == "mouse":
        field.fill("Z")
    else:
        field.focus()
        playing.page.keyboard.type("Z")
    playing.says(r"^“Z” instead of .*Nothing before it moves\.")
    N = model.config.block_size
    changed = text[:at] + "Z" + text[at + 1 :]
    with torch.no_grad():
        p, q = (model(tokenizer.encode(t[:N])[None])[0][0].softmax(-1) for t in (text, changed))
    moved = (p - q).abs().sum(-1) / 2
    tiles = [tile.inner_text().split() for tile in playing.root.locator(".tgw-tile").all()]
    place = [key for key, *_ in tiles].index("Z")
    assert place > 0
    for i, (key, number, *guesses) in enumerate(tiles):
        t = at + i - place
        assert key == signs(changed[t])
        assert float(number) == pytest.approx(moved[t].item(), abs=SHOWN + INT8)
        if t < at:
            assert number == "0"
        assert guesses[0] in [signs(tokenizer.vocab[j]) for j in p[t].topk(2).indices]
    assert float(tiles[place][1]) > 0.1
    assert field.evaluate("e => e === document.activeElement"), "a reader goes on typing"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A reader's own model, and files that are none."""
    folder = tmp_path_factory.mktemp("files")
    tokenizer = CharTokenizer("abcdefgh ROME:\n")
    with seeded(3):
        model = TinyGPT(GPTConfig(tokenizer.vocab_size, 16, 2, 2, 16)).eval()
    weights.save(
        folder / "mine.safetensors",
        model,
        tokenizer,
        {"text": "<b>my text</b>", "valid_loss": 1.25, "own": {"file": "my_gpt.py", "name": "TinyGPT"}},
        int8=True,
    )
    good = (folder / "mine.safetensors").read_bytes()
    weights.save(folder / "greek.safetensors", model, CharTokenizer("αβγδεζηθικλμνξο"), {})
    with seeded(3):
        large = TinyGPT(GPTConfig(2000, 16, 2, 2, 16)).eval()
    weights.save(
        folder / "chinese.safetensors", large, CharTokenizer("".join(map(chr, range(0x4E00, 0x4E00 + 2000)))), {}
    )
    with torch.no_grad():
        model.ln_f.weight[3] = math.nan
    weights.save(folder / "nan.safetensors", model, tokenizer, {})
    header = int.from_bytes(good[:8], "little")
    (folder / "cut.safetensors").write_bytes(good[:-50])
    (folder / "poem.safetensors").write_text("Shall I compare thee to a summer's day?")
    (folder / "shapes.safetensors").write_bytes(good.replace(b'\\"block_size\\": 16', b'\\"block_size\\": 17'))
    (folder / "vocabulary.safetensors").write_bytes(good.replace(b"abcdefgh", b"aacdefgh"))
    (folder / "large.safetensors").write_bytes(good[: 8 + header] + bytes(65 * 2**20))
    return folder


BAD = {
    "poem": "not a safetensors file",
    "cut": "damaged or cut short",
    "nan": "ln_f.weight holds NaN",
    "shapes": r"wpe.weight should have the shape \(17, 16\)",
    "vocabulary": "15 different characters, .* and has 14",
    "large": "reads at most 64.0 MB",
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_no_model_leaves_the_old_one(play, files, name):
    playing = play(scheme="file" if name == "cut" else "http")
    before = playing.text()
    playing.give(files / f"{name}.safetensors", "choose" if name in ("large", "nan") else "drop")
    alarm = playing.root.locator(".tgw-model").get_by_role("alert")  # beside the button
    playing.page.wait_for_function("(e) => e.textContent", arg=alarm.element_handle(), timeout=60_000)
    assert re.search(rf"^{name}\.safetensors: .*{BAD[name]}", alarm.inner_text())
    assert playing.text() == before
    assert "Small model" in playing.root.locator(".tgw-about").inner_text()
    playing.widget.press("Write")
    playing.written()
    assert playing.alarm() == ""
    assert playing.text() == before, "the same seed, the same model"


@pytest.mark.parametrize(("scheme", "how"), [("http", "drop"), ("file", "choose")])
def test_the_readers_own_model(play, files, scheme, how):
    playing = play(scheme=scheme)
    playing.give(files / "mine.safetensors", how)
    playing.arrived("own")
    playing.written()
    model, tokenizer, _ = weights.load(files / "mine.safetensors")
    names = ("prompt", "temperature", "top_k", "length", "seed")
    settings = dict(zip(names, playing.trait(*names), strict=True))
    assert playing.trait("text") == Playground(model, tokenizer, **settings).text
    about = playing.root.locator(".tgw-about").inner_text()
    assert about.startswith("Your model, mine · ")
    assert "Written in my_gpt.py, class TinyGPT. Trained on <b>my text</b>. Validation loss 1.250 nats" in about
    playing.view("Attention", "mouse")
    assert playing.root.get_by_role("radio").count() == 4
    playing.root.get_by_role("button", name="Small model").click()
    playing.arrived()
    playing.written()
    assert "Small model" in playing.root.locator(".tgw-about").inner_text()


@pytest.mark.parametrize("name", ["mine", "poem"])
def test_what_the_reader_chose_before_the_page_was_there_stays(book, book_url, watch, files, name):
    """The book's own model comes when all of the page is there: in the place of no choice but one that failed."""
    watched = watch(book_url, viewport={"width": 1280, "height": 900})
    page = watched.page
    # a picture that does not come keeps the page from being there
    page.add_init_script(
        "Object.defineProperty(document, 'readyState', { get: () => window.late ? 'complete' : 'interactive' });"
        "addEventListener('load', (event) => window.late || event.stopImmediatePropagation(), true);"
    )
    page.goto(f"{book_url}/book/{PAGES['tgw-playground']}.html")
    root = page.locator(".tgw-playground")
    root.wait_for()
    root.scroll_into_view_if_needed()
    root.locator("input[type=file]").set_input_files(files / f"{name}.safetensors")
    wanted = "own" if name == "mine" else "shakespeare-cpu"
    page.locator(f".tgw-playground[data-model='{wanted}']").wait_for(timeout=60_000)
    page.evaluate("window.late = true; dispatchEvent(new Event('load'))")
    page.wait_for_timeout(1000)
    assert root.get_attribute("data-model") == wanted


def test_a_long_vocabulary_and_a_prompt_that_changes_while_it_is_continued(play, files):
    playing = play()
    playing.give(files / "chinese.safetensors", "choose")
    playing.arrived("own")
    assert len(playing.alarm()) < 400
    assert "and 1900 more" in playing.alarm()
    playing.root.get_by_role("button", name="Small model").click()
    playing.arrived()
    playing.written()
    prompt = playing.root.get_by_role("textbox", name="Prompt")
    playing.put(length=1000)
    playing.root.get_by_role("button", name="Write", exact=True).click()
    prompt.fill("JULIET:")
    playing.written()
    assert playing.text() == "JULIET:"


def test_a_model_of_other_characters_says_so(play, files):
    playing = play()
    playing.give(files / "greek.safetensors", "choose")
    playing.arrived("own")
    assert re.search("has never seen “R”, “O”, .*It knows αβγ", playing.alarm())
    assert playing.text() == playing.trait("prompt")
    playing.root.get_by_role("textbox", name="Prompt").fill("αβγ")
    playing.widget.press("Write")
    playing.written()
    assert playing.alarm() == ""
    assert len(playing.trait("text")) == playing.trait("length")


def test_a_prompt_of_unknown_characters_is_told(play):
    playing = play()
    playing.root.get_by_role("textbox", name="Prompt").fill("Ω")
    playing.widget.press("Write")
    playing.page.wait_for_function("document.querySelector('.tgw-playground [role=alert]').textContent")
    assert 'never seen "Ω"' in playing.alarm()
    playing.root.get_by_role("textbox", name="Prompt").fill("")
    playing.widget.settle()
    assert playing.alarm().startswith("There is nothing to continue")
    assert playing.trait("prompt") == "Ω", "what was there stays until there is something else"
    playing.root.get_by_role("textbox", name="Prompt").fill("Romeo")
    playing.widget.press("Write")
    playing.written()
    assert playing.alarm() == ""
    assert playing.trait("text")


def test_what_python_sets_is_shown(play):
    playing = play()
    playing.put(prompt="To be", text=" or not", record=[], at=6, view="layers", temperature=0.33, seed=9)
    assert playing.text() == "To be or not"
    playing.says("^Before “o”, having read “␣”")
    assert playing.root.get_by_role("slider", name="Temperature").get_attribute("aria-valuetext") == "0.33"
    assert playing.root.get_by_role("textbox", name="Seed").input_value() == "9"
