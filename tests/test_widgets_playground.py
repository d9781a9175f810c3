"""Playground: it writes what its model writes, hands over the weights that were asked for; JavaScript does the same."""

import base64
import json
import re

import numpy as np
import pytest
import torch
import traitlets

from tiny_gpt import GPTConfig, TinyGPT, weights
from tiny_gpt.data import CharTokenizer
from tiny_gpt.widgets import Playground
from tiny_gpt.widgets.base import read, uniforms
from tiny_gpt.widgets.playground import ALTERNATIVES, PART, scripts

TOKENIZER = CharTokenizer("abcdefgh\n é")
TINY = GPTConfig(TOKENIZER.vocab_size, 8, 2, 2, 8, dropout=0.3, bias=True)


@pytest.fixture
def live(make, generator):
    model = make(TINY)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.5 * torch.randn(p.shape, generator=generator)
    return model


def test_greedy_text_is_the_models_beyond_its_context(live):
    w = Playground(live, TOKENIZER, prompt="abc", temperature=0, length=20)
    assert w.prompt + w.text == TOKENIZER.decode(live.generate(TOKENIZER.encode("abc")[None], 20, temperature=0)[0])
    assert all(p == 1 and best == [[c, 1]] for c, (p, best) in zip(w.text, w.record, strict=True))
    assert live.training, "the reader's model is as it was"


def test_each_character_is_where_the_seeds_number_falls(live):
    """From the definition: the first character at which the running sum of the probabilities reaches the number."""
    w = Playground(live, TOKENIZER, prompt="abc", temperature=1.3, top_k=4, seed=5, length=30)
    ids = TOKENIZER.encode("abc").tolist()
    live.eval()
    for u, character, (p, best) in zip(uniforms(5, 30), w.text, w.record, strict=True):
        with torch.no_grad():
            z = live(torch.tensor([ids[-8:]]))[0][0, -1].double().numpy()
        share = np.where(z >= np.sort(z)[-4], np.exp((z - z.max()) / 1.3), 0)
        share /= share.sum()
        token = next(i for i in range(len(share)) if share[: i + 1].sum() >= u * share.sum())
        assert character == TOKENIZER.vocab[token]
        assert p == pytest.approx(share[token], abs=1e-6)
        assert [c for c, _ in best] == [TOKENIZER.vocab[i] for i in np.argsort(-share)[:4]]
        assert [x for _, x in best] == pytest.approx(sorted(share, reverse=True)[:4], abs=1e-6)
        ids.append(token)


@pytest.mark.slow
def test_the_pages_engine_writes_the_same(tmp_path, node_test):
    write_cases(tmp_path, node_test, Playground(), weights.for_page("shakespeare-cpu"))


@pytest.mark.slow
def test_the_pages_engine_writes_the_same_with_a_readers_model(tmp_path, node_test):
    """One that was written and trained under names of its own, then exported: as its file has it."""
    data = weights.for_page(weights.STRANGERS)
    write_cases(tmp_path, node_test, Playground(*weights.from_bytes(data)[:2]), data)


def write_cases(tmp_path, node_test, w, data):
    (tmp_path / "model").write_bytes(data)
    cases = []
    for prompt, temperature, top_k, seed in (
        (w.prompt, w.temperature, w.top_k, w.seed), ("To be, or not to be", 1.0, 5, 3), ("\n", 0, None, 1),
    ):  # fmt: skip
        w.prompt, w.temperature, w.top_k, w.seed = prompt, temperature, top_k, seed
        w.write()
        settings = {"temperature": temperature, "topK": top_k, "seed": seed, "top": ALTERNATIVES}
        cases.append({"prompt": prompt, "text": w.text, "record": w.record, "maxNewTokens": w.length, **settings})
    node_test("playground", "engine_worker", {"path": str(tmp_path / "model"), "cases": cases}, read("engine.mjs"))


def test_weights_come_when_they_are_asked_for(live):
    w = Playground(live, TOKENIZER, prompt="a", length=1)
    assert w.weights == b""
    w.asked = "nobody"
    assert w.weights == b""
    w.asked = "live"
    model, tokenizer, _ = weights.from_bytes(w.weights)
    assert w.sent == "live"
    assert tokenizer == TOKENIZER
    for p, q in zip(live.parameters(), model.parameters(), strict=True):
        assert torch.equal(p.half().float(), q)
    with torch.no_grad():
        live.wte.weight += 1
    w.refresh()
    assert torch.equal(weights.from_bytes(w.weights)[0].wte.weight, live.wte.weight.half().float())
    shipped = Playground(length=1)
    shipped.asked = "shakespeare-cpu"
    assert shipped.weights == weights.for_page("shakespeare-cpu")


def test_the_sites_scripts_hold_the_file():
    data, files = weights.for_page("shakespeare-cpu"), scripts("shakespeare-cpu")
    said = [re.fullmatch(r"\(window\.tinyGptParts \?\?= new Map\(\)\)\.set\((.*)\);\n", t)[1] for t in files.values()]
    names, parts = zip(*(json.loads(f"[{text}]") for text in said), strict=True)
    assert b"".join(map(base64.b64decode, parts)) == data
    assert [f"{name}.js" for name in names] == list(files)
    assert Playground(length=1).models[0]["parts"] == list(names)
    assert len(files) == -(-len(data) // PART)


def test_text_that_somebody_else_wrote_has_no_record():
    w = Playground(length=12)
    assert len(w.record) == 12
    w.text = "Something else."
    assert w.record == []
    w.write()
    assert len(w.record) == len(w.text) == 12


def test_the_still_shows_what_was_written():
    w = Playground(length=30)
    assert w.at - len(w.prompt) in range(30)
    assert "<svg" in w._still
    assert w.text.split("\n")[0] in w._still


def test_what_does_not_fit_is_refused(live):
    for arguments in ((live,), (None, TOKENIZER)):
        with pytest.raises(ValueError, match="a model and its tokenizer belong together"):
            Playground(*arguments)
    w = Playground(live, TOKENIZER, prompt="a", length=5)
    for name, value in {"temperature": -0.1, "top_k": 0, "length": 0, "prompt": "", "view": "nothing"}.items():
        with pytest.raises(traitlets.TraitError):
            setattr(w, name, value)
    w.prompt, before = "xyz", w.text
    with pytest.raises(ValueError, match="'x', 'y', 'z' not among the 11 characters"):
        w.write()
    assert w.text == before


def test_javascript_agrees(same_in_js):
    rng = np.random.default_rng(3)
    calls = []
    for N in (1, 5, 64):
        for length in (1, 4, 5, 6, 64, 150):
            for i in range(0, length, 1 + length // 12):
                # the most of the text before i that fits, and as much behind as fits while nothing is lost before it
                first = next(f for f in range(length + 1) if i - f <= N)
                end = max(e for e in range(i, length + 1) if e - first <= N and (first == 0 or e == i))
                calls.append(("windowBefore", [i, N, length], [first, end]))
                found = max(range(max(1, length - N + 1)), key=lambda f: -abs(f - (i - N // 2)))
                calls.append(("windowAround", [i, N, length], [found, min(length, found + N)]))
    for q, T, most in ((0, 1, 8), (3, 20, 8), (7, 20, 8), (8, 20, 8), (19, 20, 8), (4, 5, 8)):
        calls.append(("shownPart", [q, T, most], [0, min(T, most)] if q < most else [q + 1 - most, q + 1]))
    for _ in range(5):
        p, q = rng.dirichlet(np.ones(6), 2)
        calls.append(("distance", [p, q], max(sum(p[i] - q[i] for i in chosen) for chosen in subsets(6))))
        order = sorted(range(6), key=lambda i: -p[i])
        calls.append(("likeliestOf", [p, list("abcdef"), 3], [["abcdef"[i], p[i]] for i in order[:3]]))
    calls.append(("likeliestOf", [[0, 0.5, 0.5, 0], list("abcd"), 3], [["b", 0.5], ["c", 0.5]]))
    readings = rng.normal(size=(3, 4, 5))
    for layer, t in ((0, 0), (1, 3), (2, 2)):
        shares = np.exp(readings[layer, t]) / np.exp(readings[layer, t]).sum()
        calls.append(("reading", [readings.ravel(), {"T": 4, "V": 5}, layer, t], shares))
    for known, typed in (("é ", "e\u0301 é"), ("e\u0301", "é"), ("a\n", "a\r\n"), ("ab", "ü")):
        tokenizer = CharTokenizer(known)
        calls.append(("inKnownForm", [typed, list(tokenizer.vocab)], tokenizer.in_known_form(typed)))
    calls.append(("listed", [list("abcde"), 3], "abc and 2 more"))
    calls.append(("listed", [list("abc"), 3], "abc"))
    same_in_js("playground", calls)


def subsets(n):
    """All sets of places: the distance is the largest difference of probability that any of them can have."""
    return [[i for i in range(n) if bits >> i & 1] for bits in range(2**n)]


@pytest.mark.parametrize("bias", [True, False])
def test_provenance_is_said_in_words(same_in_js, bias):
    about = {"vocab_size": 6500, "block_size": 1024, "n_layer": 24, "n_head": 8, "n_embd": 512, "bias": bias}
    with torch.device("meta"):  # so large that each term of the count is seen in its decimals
        count = TinyGPT(GPTConfig(**about)).get_num_params(non_embedding=False) / 1e6
    sizes = f"{count:.2f} million parameters: 24 layers, 8 heads, width 512, context 1024, 6500 characters."
    run = {"max_steps": 700, "seed": 9}
    whole = {"text": "a text", "valid_loss": 1.5, "device": "cpu", "torch": "2.9", "train_config": run}
    made = " Trained on a text, 700 updates, seed 9, on cpu, torch 2.9."
    loss = " Validation loss 1.500 nats a character"
    later = ", measured before its weights were rounded to 8 bits."
    same_in_js(
        "playground",
        [
            ("provenanceWords", [about, None], sizes),
            ("provenanceWords", [about, whole], f"{sizes}{made}{loss}."),
            ("provenanceWords", [about, {**whole, "rounded_later": "int8"}], f"{sizes}{made}{loss}{later}"),
            ("provenanceWords", [about, {"step": 5, "text": {"a": 1}, "valid_loss": "x"}], f"{sizes} 5 updates."),
            ("provenanceWords", [about, "nonsense"], sizes),
            (
                "provenanceWords",
                [about, {"own": {"file": "my_gpt.py", "name": "GPT"}}],
                f"{sizes} Written in my_gpt.py, class GPT.",
            ),
            ("provenanceWords", [about, {"own": {"file": 3}}], sizes),
        ],
    )
