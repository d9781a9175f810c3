"""heads.py: lesson one's modules against PyTorch's own attention and against the NumPy head."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tiny_gpt import heads, numpy_head

B, T, C, H, D, BLOCK = 3, 11, 24, 4, 6, 16


@pytest.fixture
def x():
    return torch.randn(B, T, C, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("module", "signature"),
    [
        (heads.Head, ["n_embd", "head_size", "block_size", "dropout"]),
        (heads.MultiHeadAttention, ["n_head", "n_embd", "block_size", "dropout"]),
        (heads.FeedForward, ["n_embd", "dropout"]),
        (heads.Block, ["n_embd", "n_head", "block_size", "dropout"]),
    ],
)
def test_signatures_are_lesson_ones(module, signature):
    parameters = inspect.signature(module).parameters
    assert list(parameters) == signature
    assert parameters["dropout"].default == 0.2


def test_head_equals_the_fused_kernel_and_the_numpy_head(x):
    head = heads.Head(C, D, BLOCK).eval()
    q, k, v = head.query(x), head.key(x), head.value(x)
    out = head(x)
    torch.testing.assert_close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6, rtol=0)
    by_numpy, _ = numpy_head.causal_head(*(a.detach().double().numpy() for a in (q, k, v)))
    np.testing.assert_allclose(out.detach().numpy(), by_numpy, atol=1e-6)


def test_the_mask_is_a_buffer_that_is_saved_and_not_trained():
    head = heads.Head(C, D, BLOCK)
    assert "tril" in head.state_dict()
    assert "tril" not in dict(head.named_parameters())
    assert not head.tril.requires_grad


def test_many_heads_equal_pytorchs_multihead_attention(x):
    ours = heads.MultiHeadAttention(H, C, BLOCK).eval()
    theirs = nn.MultiheadAttention(C, H, bias=True, batch_first=True).eval()
    with torch.no_grad():
        rows = [torch.cat([getattr(h, name).weight for h in ours.heads]) for name in ("query", "key", "value")]
        theirs.in_proj_weight.copy_(torch.cat(rows))
        theirs.in_proj_bias.zero_()
        theirs.out_proj.load_state_dict(ours.proj.state_dict())
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    expected, _ = theirs(x, x, x, attn_mask=future, need_weights=False)
    torch.testing.assert_close(ours(x), expected, atol=1e-6, rtol=0)


def test_feed_forward_knows_no_positions_and_uses_relu(x):
    ffwd = heads.FeedForward(C).eval()
    order = torch.randperm(T, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ffwd(x[:, order]), ffwd(x)[:, order], atol=1e-6, rtol=0)
    first, second = ffwd.net[0], ffwd.net[2]
    hidden = x @ first.weight.T + first.bias
    assert hidden.size(-1) == 4 * C
    torch.testing.assert_close(ffwd(x), hidden.clamp(min=0) @ second.weight.T + second.bias, atol=1e-6, rtol=0)


def test_a_block_adds_to_the_stream_what_its_branches_read_normalised(x):
    block = heads.Block(C, H, BLOCK).eval()
    middle = x + block.sa(F.layer_norm(x, (C,)))
    torch.testing.assert_close(block(x), middle + block.ffwd(F.layer_norm(middle, (C,))), atol=1e-6, rtol=0)


def test_silent_branches_leave_the_stream_exactly_as_it_was(x):
    block = heads.Block(C, H, BLOCK).eval()
    with torch.no_grad():
        for linear in (block.sa.proj, block.ffwd.net[2]):
            linear.weight.zero_()
            linear.bias.zero_()
    assert torch.equal(block(x), x)


def test_dropout_acts_in_training_only(x):
    block = heads.Block(C, H, BLOCK, dropout=0.5)
    assert not torch.equal(block(x), block(x))
    block.eval()
    assert torch.equal(block(x), block(x))


def test_bad_input_says_both_numbers(x):
    with pytest.raises(ValueError, match=r"T=11.*block_size=8"):
        heads.Head(C, D, block_size=8)(x)
    with pytest.raises(ValueError, match=r"\(B, T, C\), got \(11, 24\)"):
        heads.Head(C, D, BLOCK)(x[0])
    with pytest.raises(ValueError, match=r"n_embd=24.*n_head=5"):
        heads.MultiHeadAttention(5, C, BLOCK)
