"""muon.py against the singular value decomposition, which says what its matrix products are to come to."""

import math

import pytest
import torch

from tiny_gpt.muon import Muon, orthogonalized


@pytest.mark.parametrize("shape", [(8, 8), (3, 24, 8), (2, 8, 24)])
def test_directions_stay_and_singular_values_become_about_one(generator, shape):
    G = torch.randn(shape, generator=generator)
    U, _, Vh = torch.linalg.svd(G, full_matrices=False)
    found = U.mT @ orthogonalized(G) @ Vh.mT  # diagonal if the directions are G's own
    values = torch.diagonal(found, dim1=-2, dim2=-1)
    assert torch.allclose(found, torch.diag_embed(values), atol=1e-4)

    def five_times(s):
        for _ in range(5):
            s = 3.4445 * s - 4.775 * s**3 + 2.0315 * s**5
        return s

    expected = five_times(torch.linalg.svdvals(G) / torch.linalg.matrix_norm(G)[..., None])
    assert torch.allclose(values, expected, atol=1e-4)
    assert 0.2 < values.min() < values.max() < 1.3


def test_a_step_by_hand(generator):
    """Two matrices of one shape and one of another, two steps: momentum, look-ahead, decay, and the step's length."""
    start = [torch.randn(shape, generator=generator) for shape in ((4, 6), (4, 6), (5, 3))]
    params = [torch.nn.Parameter(p.clone()) for p in start]
    optimizer = Muon(params, lr=0.1, weight_decay=0.5, momentum=0.9)
    averages = [torch.zeros_like(p) for p in start]
    for _ in range(2):
        for i, p in enumerate(params):
            p.grad = torch.randn(p.shape, generator=generator)
            averages[i] = 0.9 * averages[i] + 0.1 * p.grad
            step = orthogonalized(0.1 * p.grad + 0.9 * averages[i]) * 0.2 * math.sqrt(max(p.shape))
            start[i] = start[i] * (1 - 0.1 * 0.5) - 0.1 * step
        optimizer.step()
    for p, expected in zip(params, start, strict=True):
        assert torch.allclose(p, expected, atol=1e-5)


def test_what_has_no_gradient_stays_and_what_is_no_matrix_is_refused(generator):
    still = torch.nn.Parameter(torch.randn(2, 2, generator=generator))
    before = still.detach().clone()
    Muon([still], lr=1.0).step()
    assert torch.equal(still, before)
    with pytest.raises(ValueError, match=r"Muon is for matrices, got a parameter of shape \(3,\): use AdamW"):
        Muon([torch.nn.Parameter(torch.zeros(3))], lr=0.1)
