"""baselines.py: against counting by hand, and against a source whose entropy is known."""

import math
from collections import Counter

import pytest
import torch

from tiny_gpt.baselines import ngram_loss, ngram_probs
from tiny_gpt.data import MarkovSource

V, K = 3, 5.0


@pytest.fixture
def ids():
    return torch.randint(V, (400,), generator=torch.Generator().manual_seed(0))


def by_hand(text, context, token):
    """The recursion written out with a dictionary: p_n = (count + K p_{n-1}) / (total + K)."""
    if context is None:
        return 1 / V
    n = len(context)
    counts = Counter(tuple(text[i : i + n + 1]) for i in range(len(text) - n))
    total = sum(counts[(*context, c)] for c in range(V))
    lower = by_hand(text, context[1:] if n else None, token)
    return (counts[(*context, token)] + K * lower) / (total + K)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_probabilities_equal_counting_by_hand(ids, order):
    probs = ngram_probs(ids, order, V, K)
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs), dtype=torch.float64))
    text = ids.tolist()
    for row in range(len(probs)):
        digits = tuple(row // V ** (order - 2 - i) % V for i in range(order - 1)) if order else None
        for token in range(V):
            assert probs[row, token].item() == pytest.approx(by_hand(text, digits, token), abs=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_loss_is_the_mean_surprise_of_all_tokens_but_three(ids, order):
    train, valid = ids[:300], ids[300:]
    text, total = train.tolist(), 0.0
    tokens = valid.tolist()
    for i in range(3, len(tokens)):
        total -= math.log(by_hand(text, tuple(tokens[i - order + 1 : i]) if order else None, tokens[i]))
    assert ngram_loss(train, valid, order, V, K) == pytest.approx(total / (len(tokens) - 3), abs=1e-12)


def test_pairs_reach_the_entropy_of_a_chain_and_triples_gain_nothing():
    source = MarkovSource([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.3, 0.6, 0.1]])
    ids = source.sample(60_000, generator=torch.Generator().manual_seed(1))
    train, valid = ids[:40_000], ids[40_000:]
    losses = [ngram_loss(train, valid, order, V) for order in range(4)]
    assert losses[0] == pytest.approx(math.log(3), abs=1e-12)
    assert losses[0] > losses[1] > losses[2]
    # 20,000 tokens whose surprise has a standard deviation of about 0.6: four standard errors.
    assert losses[2] == pytest.approx(source.entropy_rate, abs=4 * 0.6 / math.sqrt(20_000))
    assert losses[3] == pytest.approx(losses[2], abs=1e-3)


def test_bad_orders_are_refused(ids):
    with pytest.raises(ValueError, match="-1"):
        ngram_probs(ids, -1, V)
    with pytest.raises(ValueError, match=r"3\^9"):
        ngram_loss(ids, ids, 9, V)
