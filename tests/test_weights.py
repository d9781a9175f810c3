"""weights.py: a model survives the file, and what is not such a file is told apart."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tiny_gpt import GPTConfig, weights
from tiny_gpt.data import CharTokenizer, split
from tiny_gpt.train import TrainConfig, evaluate, train

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


@pytest.mark.slow
@pytest.mark.parametrize("name", [*weights.carried(), weights.STRANGERS])
def test_a_carried_models_loss_is_what_its_provenance_says(shakespeare, name):
    model, tokenizer, provenance = weights.load(name)
    _, valid = split(tokenizer.encode(shakespeare))
    run = provenance["train_config"]
    config = TrainConfig(batch_size=run["batch_size"], eval_batches=run["eval_batches"], eval_seed=run["eval_seed"])
    # The weights went through half precision, whose relative rounding of 2^-11 moves a loss of 2 by far less than this.
    assert evaluate(model, valid, config) == pytest.approx(provenance["valid_loss"], abs=1e-3)


def test_the_committed_record_of_a_run_is_its_models_provenance():
    runs = Path(__file__).parents[1] / "book" / "assets" / "runs"
    every = [*weights.carried(), weights.STRANGERS]
    kept = [name for name in every if (runs / f"{name.removeprefix('shakespeare-')}.json").exists()]
    assert {"shakespeare-cpu-long", weights.STRANGERS} <= set(kept)
    for name in kept:
        record = json.loads((runs / f"{name.removeprefix('shakespeare-')}.json").read_text(encoding="utf-8"))
        model, _, provenance = weights.load(name)
        assert record == {"model": asdict(model.config), **provenance}
        assert record["run"]["eval_step"][-1] == record["train_config"]["max_steps"]


@pytest.mark.slow
def test_a_page_gets_each_carried_model_in_few_bytes_and_with_nearly_its_loss(shakespeare):
    sizes = [len(weights.for_page(name)) for name in weights.carried()]
    assert sizes[0] <= 1_000_000
    assert max(sizes) <= 12_000_000
    assert sizes == sorted(sizes)
    for name in weights.carried():
        model, tokenizer, provenance = weights.from_bytes(weights.for_page(name))
        run = provenance["train_config"]
        config = TrainConfig(batch_size=run["batch_size"], eval_batches=20, eval_seed=run["eval_seed"], device="cpu")
        exact, _, told = weights.load(name)
        _, valid = split(tokenizer.encode(shakespeare))
        # on the same batches: what the rounding to 8 bits does to the loss, and no more
        assert evaluate(model, valid, config) == pytest.approx(evaluate(exact, valid, config), abs=0.01)
        assert provenance["valid_loss"] == told["valid_loss"]
        assert ("rounded_later" in provenance) == (provenance != told)


def test_int8_is_the_nearest_multiple_of_each_rows_scale(generator):
    matrix = torch.randn(7, 40, generator=generator) * torch.logspace(-6, 3, 7)[:, None]
    matrix[2] = 0
    ints, scale = weights.quantised(matrix)
    largest = ints.abs().amax(dim=1).tolist()
    assert largest == [127, 127, 0, 127, 127, 127, 127]
    assert (scale > 0).all(), "a row of zeros has a scale too"
    off = (matrix - ints * scale[:, None]).abs()
    assert (off <= 0.5001 * scale[:, None]).all()


def test_int8_moves_the_logits_as_much_as_noise_of_its_size_does(make, tmp_path, generator):
    model, tokenizer, _ = weights.load("shakespeare-cpu")
    noisy, _, _ = weights.load("shakespeare-cpu")
    weights.save(tmp_path / "m.safetensors", model, tokenizer, {}, int8=True)
    assert (tmp_path / "m.safetensors").stat().st_size < 0.55 * (
        weights.FOLDER / "shakespeare-cpu.safetensors"
    ).stat().st_size
    back, _, _ = weights.load(tmp_path / "m.safetensors")
    assert back.lm_head.weight is back.wte.weight
    ids = torch.randint(tokenizer.vocab_size, (4, 64), generator=generator)
    with torch.no_grad():
        for name, p in noisy.named_parameters():
            if name.startswith("blocks.") and p.dim() == 2:
                step = p.abs().amax(dim=1, keepdim=True) / 127  # rounding is uniform noise from -1/2 to 1/2 of it
                p += step * (torch.rand(p.shape, generator=generator) - 0.5)
        exact, rounded, drawn = (m(ids)[0] for m in (model, back, noisy))
    assert 0.8 < (rounded - exact).norm() / (drawn - exact).norm() < 1.25


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a text of its own: (its folder, the text)."""
    text = "to be, or not to be: that is the question.\n" * 40
    tokenizer = CharTokenizer(text)
    out = tmp_path_factory.mktemp("run")
    plan = TrainConfig(max_steps=20, batch_size=4, eval_every=10, eval_batches=3, warmup_steps=2, device="cpu")
    train(
        GPTConfig(tokenizer.vocab_size, 8, 1, 2, 16), *split(tokenizer.encode(text)), plan, tokenizer=tokenizer, out=out
    )
    return out, text


@pytest.mark.parametrize("int8", [False, True])
def test_an_exported_run_has_the_loss_that_is_told(run, tmp_path, int8):
    out, text = run
    before, after = weights.export(out, tmp_path / "m.safetensors", text, int8=int8, batches=5)
    model, tokenizer, provenance = weights.load(tmp_path / "m.safetensors")
    _, valid = split(tokenizer.encode(text))
    plan = TrainConfig(**provenance["train_config"])
    assert plan.eval_batches == 5
    assert evaluate(model, valid, plan) == pytest.approx(after, abs=1e-6)
    assert provenance["valid_loss"] == after
    assert provenance["exact_valid_loss"] == before
    assert 0 < abs(after - before) < (0.01 if int8 else 0.001)


def test_what_cannot_be_exported_leaves_no_file(run, tmp_path):
    out, text = run
    path = tmp_path / "m.safetensors"
    with pytest.raises(ValueError, match=r"1,677 characters is not the one that .* was trained on"):
        weights.export(out, path, text[43:])
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        weights.export(tmp_path / "nothing.pt", path, text)
    assert not list(tmp_path.iterdir())


def test_making_goes_on_with_a_run_and_keeps_a_record(tmp_path, monkeypatch, shakespeare):
    sizes = dict(block_size=8, n_layer=1, n_head=2, n_embd=8)
    plan = TrainConfig(max_steps=4, batch_size=2, warmup_steps=1, eval_every=2, eval_batches=2, device="cpu")
    monkeypatch.setitem(weights.PRESETS, "tiny", (sizes, plan))
    monkeypatch.setattr(weights, "FOLDER", tmp_path / "trained")
    monkeypatch.setattr(weights, "load_shakespeare", lambda: shakespeare[:20_000])
    weights.make("tiny", tmp_path / "run", tmp_path / "runs" / "tiny.json", "abc123")
    record = json.loads((tmp_path / "runs" / "tiny.json").read_text())
    model, tokenizer, provenance = weights.load(tmp_path / "trained" / "shakespeare-tiny.safetensors")
    assert record == {"model": asdict(model.config), **provenance}
    assert record["run"]["eval_step"] == [0, 2, 4]
    assert record["commit"] == "abc123"
    _, valid = split(tokenizer.encode(shakespeare[:20_000]))
    # by hand: the mean over all windows; the file's half precision moves it by far less than this
    losses = [model(valid[i : i + 8][None], valid[i + 1 : i + 9][None])[1].item() for i in range(0, len(valid) - 8, 8)]
    assert record["exact_whole_valid_loss"] == pytest.approx(sum(losses) / len(losses), abs=1e-3)
    weights.make("tiny", tmp_path / "run", commit="abc123")  # the run is over: only the file is written again
    again, _, told = weights.load(tmp_path / "trained" / "shakespeare-tiny.safetensors")
    assert told == provenance
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))


@pytest.mark.parametrize("missing", ["wte.weight", "vocab"])
def test_a_file_that_lacks_a_part_is_told_apart(make, tmp_path, missing):
    path = tmp_path / "m.safetensors"
    weights.save(path, make(TINY), TOKENIZER, {})
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys() if name != missing}  # noqa: SIM118 (no mapping)
        metadata = {name: value for name, value in file.metadata().items() if name != missing}
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(ValueError, match=rf"the parts of m\.safetensors do not fit together: .*{missing}"):
        weights.load(path)


def test_what_has_no_header_is_told_apart():
    with pytest.raises(ValueError, match="scrap is damaged or not a safetensors file"):
        weights.about(b"abc", "scrap")


def test_an_export_writes_over_no_checkpoint_and_looks_where_it_writes_first(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "load_checkpoint", lambda _: pytest.fail("too late"))
    (tmp_path / "sub.safetensors").mkdir()
    for name in ("last.pt", "mine", "sub.safetensors"):
        with pytest.raises(ValueError, match=rf"NAME\.safetensors, got .*{name}"):
            weights.export(tmp_path, tmp_path / name, "text")
    with pytest.raises(ValueError, match=r"there is no folder .*nowhere"):
        weights.export(tmp_path, tmp_path / "nowhere" / "m.safetensors", "text")
