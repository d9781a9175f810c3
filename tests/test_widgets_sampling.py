"""SamplingExplorer: its distribution is the model's own; draws follow it; JavaScript gives the same."""

import math

import numpy as np
import pytest
import torch
import traitlets

from tiny_gpt import weights
from tiny_gpt.widgets import SamplingExplorer

rng = np.random.default_rng(1)
VOCAB = list("abcdefghij")
CONTEXTS = [{"text": "x", "logits": rng.normal(0, 3, 10).round(6).tolist()}, {"text": "tie", "logits": [1.0] * 10}]
SETTINGS = [(c, t, k) for c in (0, 1) for t in (0.0, 0.05, 0.7, 1.0, 5.0) for k in (1, 3, 10)]


def by_hand(logits, temperature, k):
    """From the definition: keep what is not below the k-th largest, raise the rest to 1/τ, normalise."""
    z = np.array(logits)
    if temperature == 0:
        return np.eye(len(z))[z.argmax()]
    kept = z >= np.sort(z)[-k]
    powers = np.array([math.exp((x - z.max()) / temperature) if ok else 0.0 for x, ok in zip(z, kept, strict=True)])
    return powers / powers.sum()


@pytest.fixture(scope="module")
def explorer():
    return SamplingExplorer(CONTEXTS, VOCAB)


@pytest.mark.parametrize(("context", "temperature", "k"), SETTINGS)
def test_the_distribution(explorer, context, temperature, k):
    w = explorer
    w.context, w.temperature, w.top_k = context, temperature, k
    p = by_hand(CONTEXTS[context]["logits"], temperature, k)
    assert np.allclose(w.probabilities(), p, atol=1e-6)
    assert w.bits() == pytest.approx(-sum(x * math.log2(x) for x in p if x > 0), abs=1e-5)


def test_draws_follow_the_distribution():
    w = SamplingExplorer(CONTEXTS, VOCAB, temperature=1.3, draws=50_000, seed=8)
    p, counts = w.probabilities(), w.counts()
    assert counts.sum() == 50_000
    assert (abs(counts - 50_000 * p) < 4.5 * np.sqrt(50_000 * p * (1 - p)) + 1).all()
    w.top_k = 2
    assert np.count_nonzero(w.counts()) == 2


def test_javascript_agrees(same_in_js):
    calls, w = [], SamplingExplorer(CONTEXTS, VOCAB)
    for context, temperature, k in SETTINGS:
        logits = CONTEXTS[context]["logits"]
        p = by_hand(logits, temperature, k)
        calls.append(("nextTokenProbs", [logits, temperature, k], p))
        w.context, w.temperature, w.top_k, w.draws, w.seed = context, temperature, k, 500, k
        calls.append(("counts", [p, 500, k], w.counts()))
        w.draws = 499
        last = w.counts()
        w.draws = 500
        calls.append(("lastDrawn", [p, 500, k], int(np.argmax(w.counts() - last))))
    calls += [("counts", [[0.5, 0.5], 0, 1], [0, 0]), ("ranking", [[1.0, 3.0, 1.0, 7.0]], [3, 1, 0, 2])]
    same_in_js("sampling", calls)


def test_of_asks_the_model():
    gpt, tokenizer, _ = weights.load("shakespeare-cpu")
    text = "ROMEO:\nWhat, shall I s" * 5  # longer than the model's context
    w = SamplingExplorer.of(gpt, tokenizer, [text, "a"])
    idx = tokenizer.encode(text[-gpt.config.block_size :])[None]
    with torch.no_grad():
        expected = gpt(idx)[0][0, -1].softmax(-1)
    assert np.allclose(w.probabilities(), expected, atol=1e-5)
    assert w.top_k == tokenizer.vocab_size


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="9 finite logits are needed, one a token, got 10"):
        SamplingExplorer(CONTEXTS, VOCAB[:9])
    with pytest.raises(ValueError, match="finite"):
        SamplingExplorer([{"text": "x", "logits": [math.nan] * 10}], VOCAB)
    with pytest.raises(ValueError, match="at least one context"):
        SamplingExplorer([], VOCAB)
    w = SamplingExplorer(CONTEXTS, VOCAB)
    for name, value in {"temperature": -0.1, "top_k": 0, "context": 2, "draws": -1}.items():
        with pytest.raises(traitlets.TraitError):
            setattr(w, name, value)
    with pytest.raises(traitlets.TraitError, match="top_k must be at most 10, got 11"):
        w.top_k = 11
