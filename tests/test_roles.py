"""roles.py: every right variant, after a few updates, becomes the book's model with equal logits, or says why not."""

import pytest
import torch
from variants.mutants import DESIGNS, VARIANTS, text

from tiny_gpt import roles
from tiny_gpt.bugs.planting import run
from tiny_gpt.model import GPTConfig, TinyGPT
from tiny_gpt.rng import seeded

SIZES = GPTConfig(vocab_size=37, block_size=16, n_layer=2, n_head=4, n_embd=24, dropout=0.1, bias=True)
# What the book's model does not have, and the words that say so.
OTHER = {
    "minus_1e9": "tanh GELU", "position_parameter": "tanh GELU", "alibi": "ALiBi", "gqa": "GQA", "rms_norm": "RMSNorm",
    "rope": "RoPE", "scaled_embedding": "√C", "sinusoidal": "fixed function", "swiglu": "feed-forward",
    "untied_by_flag": "a matrix of its own",
}  # fmt: skip


def trained(name: str, sizes: GPTConfig):
    """A variant after a few updates, so that nothing of it is at its initial value any more."""
    Model, Config = run(text(name), name)
    with seeded(1):
        model = Model(Config(**vars(sizes)))
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for _ in range(4):
            x = torch.randint(sizes.vocab_size, (4, 16))  # (B, T)
            optimizer.zero_grad()
            model(x, x.roll(-1, 1))[1].backward()
            optimizer.step()
    return model.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", [*VARIANTS, *DESIGNS])
def test_a_variant_becomes_the_books_model_or_says_why_not(name, bias, generator):
    sizes = GPTConfig(**{**vars(SIZES), "bias": bias})
    model = trained(name, sizes)
    if name in OTHER:
        with pytest.raises(roles.NotCarriedOver, match=OTHER[name]):
            roles.carried_over(model, sizes)
        return
    ours = roles.carried_over(model, sizes)
    assert type(ours) is TinyGPT
    assert ours.config.n_layer == 2
    for T in (1, 3, 11, 16):
        ids = torch.randint(37, (2, T), generator=generator)
        with torch.no_grad():
            assert torch.allclose(ours(ids)[0][:, -1], model(ids)[0][:, -1, :37], atol=1e-5, rtol=0)


@pytest.mark.parametrize("edit", ["scale", "tie"])
def test_a_model_that_computes_something_else_is_refused(edit):
    source = text("separate_qkv")
    old, new = {"scale": (" * self.head_dim**-0.5", ""), "tie": ("", "")}[edit]
    Model, Config = run(source.replace(old, new) if old else source, "wrong")
    with seeded(1):
        model = Model(Config(**vars(SIZES)))
    if edit == "tie":
        table = next(m for m in model.modules() if isinstance(m, torch.nn.Embedding) and m.num_embeddings == 37)
        table.weight = torch.nn.Parameter(table.weight.detach().clone())
    with pytest.raises(roles.NotCarriedOver, match=r"scaled by the head width|a matrix of its own"):
        roles.carried_over(model, SIZES)


def test_the_sizes_are_read_off_the_config_that_a_model_keeps():
    class Keeps(torch.nn.Module):
        def __init__(self, config):
            super().__init__()
            self.settings = config

    assert roles.config_of(Keeps(SIZES)) == SIZES
    with pytest.raises(ValueError, match=r"self\.config = config"):
        roles.config_of(torch.nn.Linear(2, 2))


def test_the_readers_model_is_left_as_it_was():
    model = trained("sdpa", SIZES).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    roles.carried_over(model, SIZES)
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
