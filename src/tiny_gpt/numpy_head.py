"""Lesson one's exercises in NumPy: softmax, entropy in bits, and one causal attention head without projections.

Shapes: T positions, D head width; ``...`` stands for any leading axes. It needs numpy only.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def softmax(z: ArrayLike, axis: int = -1) -> NDArray[np.float64]:
    """Positive weights that sum to one along ``axis``, in the proportion exp(z). Same shape as ``z``.

    The largest score is subtracted first: that changes nothing, since only differences count, and exp cannot overflow.
    A slice that is -inf throughout has nothing to choose from and becomes NaN.
    """
    z = np.asarray(z, dtype=float)
    if z.ndim == 0 or z.shape[axis] == 0:
        raise ValueError(f"softmax needs at least one score along axis {axis}, got an array of shape {z.shape}")
    with np.errstate(invalid="ignore"):  # -inf - (-inf) in a slice without any finite score
        e = np.exp(z - z.max(axis=axis, keepdims=True))
    weights: NDArray[np.float64] = e / e.sum(axis=axis, keepdims=True)
    return weights


def entropy(p: ArrayLike, axis: int = -1) -> NDArray[np.float64] | np.float64:
    """Shannon entropy in bits of the distributions along ``axis``: 0 for a certain choice, log2(n) for n equal ones.

    0·log 0 counts as its limit, 0. Raises ValueError if a slice is not a distribution.
    """
    p = np.asarray(p, dtype=float)
    sums = p.sum(axis=axis)
    if (p < 0).any() or not np.allclose(sums, 1.0, atol=1e-6):
        raise ValueError(f"entropy needs probabilities that sum to 1 along axis {axis}, got sums {np.unique(sums)[:5]}")
    logs = np.log2(p, where=p > 0, out=np.zeros_like(p))
    bits: NDArray[np.float64] | np.float64 = -(p * logs).sum(axis=axis) + 0.0  # + 0.0: no negative zero
    return bits


def causal_head(q: ArrayLike, k: ArrayLike, v: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """One causal attention head on queries and keys (..., T, D) and values (..., T, Dv), no learned projections.

    Returns the output (..., T, Dv) and the weights (..., T, T), in which row t is zero beyond column t.
    Source: Vaswani et al. 2017, equation 1, with the causal mask of section 3.2.3.
    """
    q, k, v = (np.asarray(a, dtype=float) for a in (q, k, v))
    if q.ndim < 2 or q.shape != k.shape or q.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"q and k need one shape (..., T, D), v the same but for its width; got {q.shape}, {k.shape}, {v.shape}"
        )
    T, D = q.shape[-2:]
    scores = q @ k.swapaxes(-2, -1) / np.sqrt(D)  # (..., T, T)
    allowed = np.tril(np.ones((T, T), dtype=bool))  # (T, T), true on and below the diagonal
    scores = np.where(allowed, scores, -np.inf)  # (..., T, T)
    weights = softmax(scores, axis=-1)  # (..., T, T)
    return weights @ v, weights  # (..., T, Dv), (..., T, T)
