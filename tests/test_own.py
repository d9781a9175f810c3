"""own.py and the way of a reader's model: trained under its own names, resumed, sampled, exported, shown in a page."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_train import SHORT, TOKENIZER, TRAIN, VALID, Stop, same, stop_at
from variants.mutants import text

from tiny_gpt import heads, weights
from tiny_gpt.check import check
from tiny_gpt.cli import main
from tiny_gpt.model import GPTConfig, TinyGPT
from tiny_gpt.own import Source, build, load_my, model_class, split_name
from tiny_gpt.rng import seeded
from tiny_gpt.roles import NotCarriedOver, attention_weights, carried_over, matrices_of_blocks
from tiny_gpt.sampling import stream_text
from tiny_gpt.train import load_checkpoint, train
from tiny_gpt.widgets import Playground

SIZES = GPTConfig(vocab_size=TOKENIZER.vocab_size, block_size=16, n_layer=2, n_head=2, n_embd=16, bias=False)


@pytest.fixture
def mine(tmp_path):
    """``mine(variant, (old, new), ...)``: the model's class, from a file of the reader's with these edits."""

    def load(variant: str, *edits):
        source = text(variant)
        for old, new in edits:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        path = tmp_path / "my_gpt.py"
        path.write_text(source)
        return model_class(load_my(path))

    return load


def run(model, config=SHORT, sizes=SIZES, **kwargs):
    return train(model, TRAIN, VALID, config, tokenizer=TOKENIZER, progress=False, sizes=sizes, **kwargs)


def test_a_readers_model_has_the_curve_of_the_books_with_the_same_weights(mine):
    """One Linear each for q, k and v, other names, no method for an optimizer: the same updates all the same."""
    Model = mine("separate_qkv")
    assert not hasattr(Model, "configure_optimizers")
    with seeded(3):
        theirs = build(Model, SIZES)
    ours = carried_over(theirs)
    plan = replace(SHORT, weight_decay=0.5)
    assert run(ours, plan).loss == pytest.approx(run(theirs, plan).loss, abs=1e-4)  # Adam divides roundings
    assert same(ours.state_dict(), carried_over(ours).state_dict())
    for name, tensor in carried_over(theirs).state_dict().items():
        assert torch.allclose(tensor, ours.state_dict()[name], atol=2e-3), name


@pytest.mark.parametrize(("name", "count"), [("separate_qkv", 12), ("sdpa", 8), ("encoder_layer", 8), ("head_list", 0)])
def test_muons_matrices_are_those_of_the_blocks(mine, name, count):
    with seeded(3):
        model = build(mine(name), SIZES)
    found = matrices_of_blocks(model, SIZES)
    tables = [p for p in model.parameters() if p.dim() == 2 and p.size(0) in (SIZES.vocab_size, SIZES.block_size)]
    assert not any(p is q for p in found for q in tables if p.size(0) == SIZES.vocab_size)
    assert len(found) == (count or len([p for p in model.parameters() if p.dim() == 2]) - 2)
    losses = run(model, replace(SHORT, optimizer="muon")).loss
    assert losses[-1] < losses[0]


def test_a_readers_own_optimizer_is_used_where_there_is_one(mine):
    asked = []
    Model = mine("separate_qkv")

    def configure_optimizers(self, *settings):
        asked.append(settings)
        return torch.optim.AdamW(self.parameters(), lr=1.0)

    Model.configure_optimizers = configure_optimizers
    run(Model, replace(SHORT, max_steps=1))
    assert asked == [(SHORT.weight_decay, SHORT.learning_rate, (SHORT.beta1, SHORT.beta2), "cpu")]


def test_a_class_without_sizes_and_a_model_without_a_config_are_sentences(mine):
    with pytest.raises(ValueError, match=r"sizes=GPTConfig"):
        run(mine("separate_qkv"), sizes=None)


def test_a_run_goes_on_to_the_bit_and_another_file_is_refused_with_what_changed(mine, tmp_path):
    whole = run(mine("sdpa"))
    out = tmp_path / "run"
    with pytest.raises(Stop):
        run(mine("sdpa"), out=out, on_eval=stop_at(4))
    assert "class TinyGPT" in (out / "my_gpt.py").read_text()
    resumed = run(mine("sdpa"), out=out, resume=True)
    assert resumed == replace(whole, seconds=resumed.seconds)
    assert same(resumed.model.state_dict(), whole.model.state_dict())
    with pytest.raises(
        ValueError, match=r"1 places of my_gpt\.py changed, the first in line \d+: '.*gelu.* is now '.*relu"
    ):
        run(mine("sdpa", ("F.gelu(", "F.relu(")), out=out, resume=True)
    with pytest.raises(ValueError, match=r"the model was TinyGPT of my_gpt\.py"):
        run(SIZES, out=out, resume=True)


def test_its_checkpoint_holds_the_books_model_with_its_logits(mine, tmp_path, generator):
    history = run(mine("kvq_order"), out=tmp_path / "run")
    model, tokenizer, meta = load_checkpoint(tmp_path / "run" / "last.pt")
    assert type(model) is TinyGPT
    assert (meta["own"]["file"], meta["own"]["name"]) == ("my_gpt.py", "TinyGPT")
    ids = torch.randint(SIZES.vocab_size, (2, 16), generator=generator)
    with torch.no_grad():
        assert torch.allclose(model(ids)[0], history.model.eval()(ids, ids)[0], atol=1e-5)
    assert len("".join(stream_text(model, tokenizer, "the", 5, generator=generator))) == 5


def test_it_is_exported_and_shown_in_a_page(mine, tmp_path):
    model = run(mine("interleaved_h3d")).model.train()
    weights.save(tmp_path / "mine.safetensors", model, TOKENIZER, {})
    loaded = weights.load(tmp_path / "mine.safetensors")[0]
    playground = Playground(model, TOKENIZER, prompt="the", length=3)
    playground.refresh()
    shown = weights.from_bytes(playground.weights)[0]
    assert same(shown.state_dict(), loaded.state_dict())
    ours = carried_over(model)
    for p, q in zip(ours.parameters(), loaded.parameters(), strict=True):
        assert torch.equal(p.half().float(), q)
    assert model.training, "the reader's own is left in its mode"


def test_another_design_is_trained_and_kept_but_not_carried_over(mine, tmp_path):
    Model = mine("rope")
    with pytest.raises(Stop):
        run(Model, out=tmp_path / "run", on_eval=stop_at(4))
    with pytest.raises(ValueError, match=r"RoPE.*resumed"):
        load_checkpoint(tmp_path / "run")
    assert len(run(mine("rope"), out=tmp_path / "run", resume=True).loss) == SHORT.max_steps
    with pytest.raises(NotCarriedOver, match="RoPE"):
        weights.save(tmp_path / "mine.safetensors", build(Model, SIZES), TOKENIZER, {})
    assert not (tmp_path / "mine.safetensors").exists()


@pytest.mark.parametrize(
    ("edit", "says"),
    [(("return logits, loss", "return logits"), r"at step 0 .*returned a Tensor, where \(logits, loss\)"),
     (("def forward(self, idx, targets=None):\n", "def forward(self, idx, targets=None):\n        idx.wrong\n"),
      r"failed at step 0 in my_gpt\.py, line \d+.*wrong")],
)  # fmt: skip
def test_what_a_model_does_wrong_at_a_step_is_said_with_its_line(mine, edit, says):
    with pytest.raises((ValueError, RuntimeError), match=says):
        run(mine("separate_qkv", edit))


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="tiny-gpt start"):
        load_my(tmp_path / "none.py")
    (tmp_path / "broken.py").write_text("x = 1\nimport nowhere_to_be_found\n")
    with pytest.raises(ValueError, match=r"broken\.py could not be read to its end: ModuleNotFoundError.*line 2"):
        load_my(tmp_path / "broken.py")
    (tmp_path / "other.py").write_text("class GPT: pass\n")
    with pytest.raises(ValueError, match=r"other\.py has no model class TinyGPT: it has GPT"):
        model_class(load_my(tmp_path / "other.py"))


def test_what_changed_names_the_first_line():
    before = Source("a.py", "one\ntwo\nthree\n", "TinyGPT")
    assert Source("b.py", before.text, "TinyGPT").change_from(before) == ""
    after = Source("a.py", "one\n2\nthree\nfour\n", "TinyGPT")
    assert after.change_from(before) == "2 places of a.py changed, the first in line 2: 'two' is now '2'"


def test_a_file_that_is_not_there_yet_lends_the_packages_parts(tmp_path):
    path = tmp_path / "my_gpt.py"
    assert load_my(path, instead=heads) is heads
    path.write_text("class Head: pass\n")
    half = load_my(path, instead=heads)
    assert half.Head.__module__ == "own_my_gpt"
    assert half.Block is heads.Block
    with pytest.raises(AttributeError):
        half.Nothing  # noqa: B018


def test_the_class_may_be_named_and_else_is_what_the_checker_takes(tmp_path):
    assert split_name("C:\\a\\my.py") == (Path("C:\\a\\my.py"), None)
    assert split_name("a/my.py:Writer") == (Path("a/my.py"), "Writer")
    (tmp_path / "my.py").write_text("from torch import nn\nclass GPT(nn.Module): pass\nclass Writer(nn.Module): pass\n")
    module = load_my(tmp_path / "my.py")
    assert model_class(module) is module.GPT
    assert model_class(module, "Writer") is module.Writer


@pytest.mark.parametrize("part", [lambda: heads.Head(12, 4, 8), lambda: heads.Block(12, 3, 8)])
def test_the_weights_that_a_part_uses_are_read_off_what_it_computes(part, generator):
    with seeded(1):
        module = part()
    x = torch.randn(1, 5, 12, generator=generator)
    P = attention_weights(module, x)  # (H, T, T)
    inner = [module] if isinstance(module, heads.Head) else list(module.sa.heads)
    read = x if isinstance(module, heads.Head) else module.ln1(x)
    for head, found in zip(inner, P, strict=True):
        scores = head.query(read)[0] @ head.key(read)[0].T / 2
        assert torch.allclose(found, scores.masked_fill(head.tril[:5, :5] == 0, -torch.inf).softmax(-1), atol=1e-6)
    assert module.training
    with pytest.raises(ValueError, match="mixes no positions"):
        attention_weights(heads.FeedForward(12), x)


# --- The whole way, with the command line -----------------------------------------------------------------------------


@pytest.fixture
def way(capfd, tmp_path, monkeypatch):
    """``way("check", "my_gpt.py")``: a command in a folder of its own: (exit code, all that it prints)."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text("to be, or not to be: that is the question.\n" * 40)

    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return end.value.code, "".join(capfd.readouterr())

    return call


SMALL = ("--data", "text.txt", "--preset", "cpu", "--device", "cpu", "--block-size", 8, "--n-layer", 2, "--n-head", 2)
SMALL += ("--n-embd", 8, "--batch-size", 2, "--eval-batches", 2, "--max-steps", 3, "--warmup-steps", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["separate_qkv", "mha_module", "head_list"])
def test_five_commands_lead_from_the_empty_file_to_one_that_a_page_reads(way, name):
    assert way("start", "my_gpt.py")[0] == 0
    code, said = way("check", "my_gpt.py")
    assert code == 1
    assert "not written yet" in said
    Path("my_gpt.py").write_text(text(name))
    code, said = way("check", "my_gpt.py")
    assert code == 0
    assert said.strip().endswith("Next: tiny-gpt train --model my_gpt.py --out runs/mine")
    code, said = way("train", "--model", "my_gpt.py", "--out", "runs/mine", *SMALL)
    assert code == 0
    assert "the checker finds nothing wrong" in said
    assert "Next: tiny-gpt sample --out runs/mine" in said
    Path("my_gpt.py").write_text("raise SystemExit('sample and export never run the file')")
    Path("runs/mine/my_gpt.py").write_text("raise SystemExit('nor its copy')")
    assert way("sample", "--out", "runs/mine", "--prompt", "to", "--max-new-tokens", 5, "--device", "cpu")[0] == 0
    assert way("export", "runs/mine", "mine.safetensors", "--data", "text.txt")[0] == 0
    assert weights.load("mine.safetensors")[2]["own"]["file"] == "my_gpt.py"


@pytest.mark.slow
def test_a_wrong_model_is_told_so_at_each_door_and_goes_through_none_unseen(way):
    source = text("separate_qkv")
    scale = " * self.head_dim**-0.5"
    assert source.count(scale) == 1
    Path("my_gpt.py").write_text(source.replace(scale, ""))
    code, said = way("check", "my_gpt.py")
    assert code == 1
    assert "scale-missing" in said
    assert "Next" not in said
    code, said = way("train", "--model", "my_gpt.py:TinyGPT", "--out", "runs/mine", *SMALL)
    assert code == 0
    assert "the checker finds scale-missing" in said
    for command in (
        ("sample", "--out", "runs/mine"),
        ("export", "runs/mine", "mine.safetensors", "--data", "text.txt"),
    ):
        code, said = way(*command)
        assert code == 2
        assert "scaled by the head width" in said
    assert not Path("mine.safetensors").exists()


def test_a_loss_that_is_no_number_names_the_step_and_what_was_saved(mine, tmp_path):
    Model = mine("separate_qkv", ("return logits, loss", "return logits, loss * float('nan')"))
    with pytest.raises(FloatingPointError, match="the loss became nan at step 0"):
        run(Model, out=tmp_path / "run")


def test_a_class_that_takes_no_config_is_a_sentence_at_both_doors(tmp_path):
    (tmp_path / "bare.py").write_text(
        "from torch import nn\nclass TinyGPT(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "    def forward(self, idx, targets=None):\n        return idx, None\n"
    )
    Model = model_class(load_my(tmp_path / "bare.py"))
    with pytest.raises(ValueError, match=r"def __init__\(self, config\)"):
        run(Model)
    finding = check(Model).findings[0]
    assert (finding.id, "def __init__(self, config)" in finding.evidence) == ("config-wrong", True)
