"""The panel of chapter 9: it writes what the model's own ``generate`` gives, and costs a reader nothing to import."""

import pytest
import torch
from test_pages import PAGES, cells, tags

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.data import CharTokenizer
from tiny_gpt.rng import seeded
from tiny_gpt.sampling import stream_text

PAGE = PAGES.get("09_generation", "")
PANEL = [(options, code) for options, code in cells(PAGE) if "def panel(" in code]


def test_the_panel_is_folded_and_nothing_is_displayed_without_a_kernel():
    [(options, code)] = PANEL
    assert "hide-input" in tags(options)
    assert code.rstrip().endswith("# panel()")  # the call is left to the reader: no dead widget on the page
    elsewhere = "".join(other for _, other in cells(PAGE) if other != code)
    assert "ipywidgets" not in elsewhere
    assert not any(line.startswith(("import ipywidgets", "panel(")) for line in code.splitlines())


def test_the_button_writes_the_tokens_of_generate(capsys):
    pytest.importorskip("ipywidgets")
    tokenizer = CharTokenizer("abcdefgh\n")
    with seeded(0):
        model = TinyGPT(GPTConfig(tokenizer.vocab_size, 16, 1, 2, 8)).eval()
    names = {"gpt": model, "tokenizer": tokenizer, "torch": torch, "stream_text": stream_text}
    exec(PANEL[0][1], names)
    prompt, tau, top_k, seed, length, button, _ = names["panel"]().children
    prompt.value, tau.value, top_k.value, seed.value, length.value = "abc", 0.7, 3, 5, 40
    capsys.readouterr()
    button.click()
    ids = tokenizer.encode("abc")[None]
    expected = model.generate(ids, 40, 0.7, 3, generator=torch.Generator().manual_seed(5))
    written = capsys.readouterr().out.split("\r")[-1]  # clear_output, without a kernel, wipes a terminal's line
    assert written == tokenizer.decode(expected[0, 3:])
