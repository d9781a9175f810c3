"""What a text can be predicted with before there is a network: counts of single characters, pairs and triples."""

import math

import torch
from jaxtyping import Float64, Integer
from torch import Tensor


def ngram_probs(
    ids: Integer[Tensor, "N"], order: int, vocab_size: int, strength: float = 5.0
) -> Float64[Tensor, "rows V"]:
    """p(next | the ``order`` - 1 tokens before), counted on ids (N,): one row for each of the V^(order-1) contexts.

    Counts are smoothed with the next lower order, which counts as ``strength`` extra observations of each context;
    order 0 is uniform. Row r belongs to the context whose digits to the base V are r.
    """
    if order < 0 or not strength > 0:
        raise ValueError(f"order must be 0 or more and strength above 0, got {order} and {strength}")
    if order == 0:
        return torch.full((1, vocab_size), 1 / vocab_size, dtype=torch.float64)  # (1, V)
    lower = ngram_probs(ids, order - 1, vocab_size, strength)  # (V^(order-2) or 1, V)
    windows = ids.long().unfold(0, order, 1)  # (N - order + 1, order)
    places = (windows * vocab_size ** torch.arange(order - 1, -1, -1)).sum(1)  # (N - order + 1,)
    counts = torch.bincount(places, minlength=vocab_size**order).double().view(-1, vocab_size)  # (V^(order-1), V)
    prior = strength * lower.repeat(len(counts) // len(lower), 1)  # the oldest token of the context is forgotten
    return (counts + prior) / (counts.sum(1, keepdim=True) + strength)  # (V^(order-1), V)


def ngram_loss(
    train_ids: Integer[Tensor, "N_train"],
    valid_ids: Integer[Tensor, "N_valid"],
    order: int,
    vocab_size: int,
    strength: float = 5.0,
) -> float:
    """Mean cross-entropy, nats a token, on the validation split of n-grams counted on the training split.

    Order 0 knows nothing, 1 the frequencies, 2 the token before, 3 the two before. Every order predicts the same
    tokens, all but the first three, so that the numbers can be compared.
    """
    if order > 4:
        raise ValueError(f"order must be 4 or less, got {order}: the table would have {vocab_size}^{order} entries")
    probs = ngram_probs(train_ids, order, vocab_size, strength)  # (V^(order-1), V)
    windows = valid_ids.long().unfold(0, 4, 1)[:, 4 - max(order, 1) :]  # (n, order)
    powers = vocab_size ** torch.arange(windows.size(1) - 2, -1, -1)
    rows = (windows[:, :-1] * powers).sum(1)  # (n,)
    return -math.fsum(probs[rows, windows[:, -1]].log().tolist()) / len(windows)
