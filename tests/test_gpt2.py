"""gpt2.py: weights to and from GPT-2's names, and Hugging Face's own model as the judge."""

import json

import pytest
import torch
from safetensors.torch import save_file

from tiny_gpt.gpt2 import from_gpt2, to_gpt2
from tiny_gpt.model import GPTConfig, TinyGPT

SMALL = GPTConfig(vocab_size=96, block_size=32, n_layer=3, n_head=2, n_embd=64)


@pytest.fixture
def randomised(make, generator):
    """Like ``make``, but every parameter is random: at the start biases are 0 and LayerNorms 1, which hides errors."""

    def build(config):
        model = make(config)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
        return model.eval()

    return build


@pytest.fixture
def hugging_face(generator):
    """A small random GPT2LMHeadModel, with the activation that TinyGPT has."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=96, n_positions=32, n_embd=64, n_layer=3, n_head=2, activation_function="gelu"
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator.initial_seed())
        model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    return model


@torch.no_grad()
def largest_difference(ours, theirs, generator):
    idx = torch.randint(96, (4, 32), generator=generator)
    return float((ours.eval()(idx)[0] - theirs(idx).logits).abs().max())


def test_from_pretrained_gives_hugging_faces_logits(hugging_face, generator, tmp_path):
    hugging_face.save_pretrained(tmp_path)
    ours = TinyGPT.from_pretrained(str(tmp_path))
    assert ours.config == SMALL
    assert largest_difference(ours, hugging_face, generator) < 1e-4


def test_from_gpt2_takes_hugging_faces_state_dict(hugging_face, generator):
    ours = from_gpt2(hugging_face.state_dict(), SMALL)
    assert largest_difference(ours, hugging_face, generator) < 1e-4
    body = from_gpt2(hugging_face.transformer.state_dict(), SMALL)  # without the head, the names have no prefix
    assert largest_difference(body, hugging_face, generator) < 1e-4


def test_hugging_face_takes_what_to_gpt2_gives(hugging_face, randomised, generator):
    ours = randomised(SMALL)
    assert largest_difference(ours, hugging_face, generator) > 1e-2  # before: other weights
    hugging_face.load_state_dict(to_gpt2(ours))  # strict: every name and every shape
    assert largest_difference(ours, hugging_face, generator) < 1e-4


@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_both_layouts_there_and_back(randomised, transposed, bias):
    config = GPTConfig(vocab_size=96, block_size=32, n_layer=3, n_head=1, n_embd=64, bias=bias)
    model = randomised(config)
    theirs = to_gpt2(model, transposed)
    back = from_gpt2(theirs, transposed=transposed)  # 64 wide is one of GPT-2's heads: the sizes need not be told
    assert back.config == config
    ours = model.state_dict()
    assert back.state_dict().keys() == ours.keys()
    assert all(torch.equal(tensor, ours[name]) for name, tensor in back.state_dict().items())


def test_nanogpts_names_and_shapes(randomised):
    """The names as nanoGPT's checkpoints have them, written out for one block; no biases anywhere."""
    model = randomised(GPTConfig(vocab_size=65, block_size=8, n_layer=1, n_head=2, n_embd=16, bias=False))
    theirs = to_gpt2(model, transposed=False)
    assert {name: tuple(tensor.shape) for name, tensor in theirs.items()} == {
        "transformer.wte.weight": (65, 16), "transformer.wpe.weight": (8, 16), "transformer.h.0.ln_1.weight": (16,),
        "transformer.h.0.attn.c_attn.weight": (48, 16), "transformer.h.0.attn.c_proj.weight": (16, 16),
        "transformer.h.0.ln_2.weight": (16,), "transformer.h.0.mlp.c_fc.weight": (64, 16),
        "transformer.h.0.mlp.c_proj.weight": (16, 64), "transformer.ln_f.weight": (16,), "lm_head.weight": (65, 16),
    }  # fmt: skip
    compiled = {f"_orig_mod.{name}": tensor for name, tensor in theirs.items()}  # as its train.py saves with compile
    back = from_gpt2(compiled, model.config, transposed=False)
    assert all(torch.equal(tensor, model.state_dict()[name]) for name, tensor in back.state_dict().items())


@pytest.mark.parametrize("transposed", [True, False])
def test_the_wrong_layout_is_noticed(randomised, transposed):
    theirs = to_gpt2(randomised(SMALL), transposed)
    with pytest.raises(ValueError, match=f"give transposed={transposed}"):
        from_gpt2(theirs, SMALL, transposed=not transposed)


def test_what_is_no_gpt2(randomised):
    model = randomised(SMALL)
    with pytest.raises(ValueError, match=r"not weights with GPT-2's names: h\.0\.attn\.c_attn\.weight missing"):
        from_gpt2(model.state_dict(), SMALL)
    theirs = to_gpt2(model)
    with pytest.raises(ValueError, match="do not fit"):
        from_gpt2(theirs, GPTConfig(vocab_size=96, block_size=32, n_layer=2, n_head=2, n_embd=64))
    narrow = randomised(GPTConfig(vocab_size=9, block_size=8, n_layer=1, n_head=2, n_embd=16))
    with pytest.raises(ValueError, match="number of heads cannot be read off a width of 16"):
        from_gpt2(to_gpt2(narrow))


@pytest.fixture
def folder(randomised, tmp_path):
    """``folder(config, tensors)``: a model in Hugging Face's layout with these changes; None leaves a key out."""
    weights = {
        name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in to_gpt2(randomised(SMALL)).items()
    }
    sizes = {
        "vocab_size": 96,
        "n_positions": 32,
        "n_layer": 3,
        "n_head": 2,
        "n_embd": 64,
        "activation_function": "gelu",
    }

    def write(config=None, tensors=None):
        for whole, change in ((sizes, config), (weights, tensors)):
            whole |= change or {}
            for name in [name for name, value in whole.items() if value is None]:
                del whole[name]
        (tmp_path / "config.json").write_text(json.dumps(sizes), encoding="utf-8")
        save_file(weights, tmp_path / "model.safetensors")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("config", "tensors", "says"),
    [
        ({"n_embd": None, "n_positions": None}, {}, "config.json lacks n_positions, n_embd"),
        ({"n_layer": 4}, {}, "do not fit"),
        ({}, {"transformer.h.1.ln_1.weight": None}, "do not fit"),
        ({}, {"transformer.wte.weight": None}, "wte.weight is missing"),
        ({}, {"lm_head.weight": torch.zeros(96, 64)}, "differs from wte.weight"),
    ],
)
def test_a_folder_that_is_no_such_model_is_a_sentence(folder, config, tensors, says):
    with pytest.raises(ValueError, match=says):
        TinyGPT.from_pretrained(folder(config, tensors))


@pytest.mark.parametrize("file", ["config.json", "model.safetensors"])
def test_a_folder_with_a_damaged_file_is_a_sentence(folder, file):
    path = folder() / file
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="damaged"):
        TinyGPT.from_pretrained(path.parent)


def test_an_unembedding_of_its_own_is_not_dropped_in_silence(randomised):
    theirs = to_gpt2(randomised(SMALL))
    with pytest.raises(ValueError, match="ties the two"):
        from_gpt2({**theirs, "lm_head.weight": theirs["lm_head.weight"] + 1}, SMALL)
