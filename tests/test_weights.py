"""weights.py: a model survives the file, and what is not such a file is told apart."""

import pytest
import torch
from safetensors.torch import save_file

from tiny_gpt import GPTConfig, weights
from tiny_gpt.data import CharTokenizer, split
from tiny_gpt.train import TrainConfig, evaluate

TOKENIZER = CharTokenizer("abc\n é")
TINY = GPTConfig(TOKENIZER.vocab_size, 8, 2, 2, 8, bias=True)


def test_a_model_comes_back_in_half_precision_tied_and_in_eval_mode(make, tmp_path):
    model = make(TINY)
    weights.save(tmp_path / "m.safetensors", model, TOKENIZER, {"seed": 1, "by": "é"})
    back, tokenizer, provenance = weights.load(tmp_path / "m.safetensors")
    assert back.config == TINY
    assert tokenizer == TOKENIZER
    assert provenance == {"seed": 1, "by": "é"}
    assert not back.training
    assert back.lm_head.weight is back.wte.weight
    for (name, p), q in zip(model.named_parameters(), back.parameters(), strict=True):
        assert torch.equal(p.half().float(), q), name
    assert not list(tmp_path.glob("*.part"))


def test_loading_leaves_the_global_generator_alone(make, tmp_path):
    weights.save(tmp_path / "m.safetensors", make(TINY), TOKENIZER, {})
    before = torch.get_rng_state()
    weights.load(tmp_path / "m.safetensors")
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_not_such_a_file_is_told_apart(tmp_path):
    (tmp_path / "text.safetensors").write_text("not weights")
    with pytest.raises(ValueError, match=r"text\.safetensors is damaged or not a safetensors file"):
        weights.load(tmp_path / "text.safetensors")
    save_file({"a": torch.ones(2)}, tmp_path / "foreign.safetensors")
    with pytest.raises(ValueError, match="was not written by tiny_gpt"):
        weights.load(tmp_path / "foreign.safetensors")
    save_file({"a": torch.ones(2)}, tmp_path / "hugging_face.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"was not written by tiny_gpt.*its format is pt"):
        weights.load(tmp_path / "hugging_face.safetensors")
    with pytest.raises(ValueError, match=r"one of .*shakespeare-cpu"):
        weights.load("shakespeare-gpu-of-my-dreams")


def test_a_truncated_file_is_damaged(make, tmp_path):
    path = tmp_path / "m.safetensors"
    weights.save(path, make(TINY), TOKENIZER, {})
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="damaged"):
        weights.load(path)


def test_the_carried_models_loss_is_what_its_provenance_says(shakespeare):
    model, tokenizer, provenance = weights.load("shakespeare-cpu")
    _, valid = split(tokenizer.encode(shakespeare))
    run = provenance["train_config"]
    config = TrainConfig(batch_size=run["batch_size"], eval_batches=run["eval_batches"], eval_seed=run["eval_seed"])
    # The weights went through half precision, whose relative rounding of 2^-11 moves a loss of 2 by far less than this.
    assert evaluate(model, valid, config) == pytest.approx(provenance["valid_loss"], abs=1e-3)
