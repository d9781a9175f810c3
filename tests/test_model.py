"""model.py: the spec of lesson two, against oracles that do not share its code."""

import ast
import copy
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tiny_gpt import GPTConfig, TinyGPT, heads
from tiny_gpt import model as model_module
from tiny_gpt.model import CausalSelfAttention, KVCache, causal_attention, next_token_probs, peak_flops

# All sizes differ, so that a wrong axis cannot hide.
B, T = 3, 11
TINY = GPTConfig(vocab_size=37, block_size=16, n_layer=2, n_head=4, n_embd=24)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def loud(config=TINY, seed=0):
    """A model whose every path is audible: at the initialisation's 0.02 many mistakes are too quiet to see."""
    model, g = TinyGPT(config), seeded(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(torch.randn(p.shape, generator=g) * 0.3)
            else:
                std = 1.0 if name.startswith(("wte", "wpe")) else 1.6 / math.sqrt(p.size(1))
                p.copy_(torch.randn(p.shape, generator=g) * std)
    return model.eval()


def ids(seed=0, shape=(B, T), config=TINY):
    return torch.randint(config.vocab_size, shape, generator=seeded(seed))


def all_of(words):
    """A pattern that an error message matches if it says every one of the words."""
    return "".join(f"(?=.*{re.escape(word)})" for word in words)


# --- Configuration ------------------------------------------------------------------------------------------------


def test_config_defaults_are_gpt2_with_a_padded_vocabulary():
    assert GPTConfig() == GPTConfig(50304, 1024, 12, 12, 768, 0.0, True)


@pytest.mark.parametrize(
    ("change", "numbers"),
    [
        ({"n_embd": 25}, ["25", "4"]),
        ({"n_layer": 0}, ["n_layer", "0"]),
        ({"vocab_size": -1}, ["vocab_size", "-1"]),
        ({"block_size": 2.5}, ["block_size", "2.5"]),
        ({"dropout": 1.0}, ["dropout", "1.0"]),
        ({"dropout": -0.1}, ["dropout", "-0.1"]),
        ({"dropout": math.nan}, ["dropout", "nan"]),
    ],
)
def test_an_invalid_config_says_which_numbers_clash(change, numbers):
    with pytest.raises(ValueError, match=all_of(numbers)):
        GPTConfig(**{**vars(TINY), **change})


# --- Attention ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("D", [1, 6, 64])
def test_four_lines_equal_the_fused_kernel(D):
    q, k, v = torch.randn(3, B, 4, T, D, generator=seeded(D))
    out, weights = causal_attention(q, k, v)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(B, 4, T), atol=1e-6, rtol=0)
    assert weights.triu(1).count_nonzero() == 0


def test_both_paths_of_the_model_agree():
    model, x = loud().double(), ids()  # in double precision the two orders of summing differ by nothing that counts
    fused, _ = model(x)
    for block in model.blocks:
        block.attn.fused = False
    manual, _ = model(x)
    torch.testing.assert_close(manual, fused, atol=1e-12, rtol=0)


def test_fused_attention_equals_a_list_of_heads_with_the_same_weights():
    attn = CausalSelfAttention(TINY)
    listed = heads.MultiHeadAttention(TINY.n_head, TINY.n_embd, TINY.block_size, dropout=0.0)
    D = TINY.n_embd // TINY.n_head
    with torch.no_grad():
        attn.qkv.bias.zero_()  # lesson one's heads have none
        for part, name in enumerate(("query", "key", "value")):
            for h, head in enumerate(listed.heads):
                row = part * TINY.n_embd + h * D
                getattr(head, name).weight.copy_(attn.qkv.weight[row : row + D])
        listed.proj.load_state_dict(attn.out_proj.state_dict())
    x = torch.randn(B, T, TINY.n_embd, generator=seeded(1))
    torch.testing.assert_close(attn(x), listed(x), atol=1e-6, rtol=0)


def test_attention_weights_are_the_ones_that_were_used():
    model, x = loud().double(), ids()
    weights = model.attention_weights(x)
    assert weights.shape == (TINY.n_layer, B, TINY.n_head, T, T)
    # An independent route: what a block's attention returns must be these weights on its own values.
    stream = model.wte(x) + model.wpe(torch.arange(T))
    attn = model.blocks[0].attn
    qkv = attn.qkv(model.blocks[0].ln1(stream))
    v = qkv[..., 2 * TINY.n_embd :].unflatten(-1, (TINY.n_head, -1))
    mixed = torch.einsum("bhts,bshd->bthd", weights[0], v).flatten(2)
    torch.testing.assert_close(attn.out_proj(mixed), attn(model.blocks[0].ln1(stream)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("fused", [True, False])
def test_attention_dropout_is_off_in_eval_and_on_in_training(fused):
    attn = CausalSelfAttention(GPTConfig(**{**vars(TINY), "dropout": 0.5}))
    attn.fused, attn.out_drop.p = fused, 0.0  # only the dropout on the weights is left
    x = torch.randn(B, T, TINY.n_embd, generator=seeded(2))
    attn.train()
    assert not torch.equal(attn(x), attn(x))
    attn.eval()
    assert torch.equal(attn(x), attn(x))


# --- The model ----------------------------------------------------------------------------------------------------


def test_forward_gives_logits_everywhere_and_the_loss_of_those_logits():
    model, x, y = loud(), ids(0), ids(1)
    logits, loss = model(x)
    assert logits.shape == (B, T, TINY.vocab_size)
    assert loss is None
    y[0, :4] = -1
    logits, loss = model(x, y)
    log_probs = logits.double().log_softmax(-1)
    counted = [-log_probs[b, t, y[b, t]] for b in range(B) for t in range(T) if y[b, t] != -1]
    assert loss.item() == pytest.approx(torch.stack(counted).mean().item(), abs=1e-5)


def test_targets_may_be_a_view_that_is_not_contiguous():
    window = ids(3, (B, T + 1))
    x, y = window[:, :-1], window[:, 1:]
    assert not y.is_contiguous()
    model = loud()
    assert torch.equal(model(x, y)[1], model(x, y.contiguous())[1])


def test_the_whole_model_equals_pytorchs_own_encoder_layers_with_the_same_weights():
    """PyTorch's pre-norm encoder layer with a causal mask is this block, written by other people."""
    model, x = loud(), ids()
    stream = model.wte.weight[x] + model.wpe.weight[:T]
    for block in model.blocks:
        layer = nn.TransformerEncoderLayer(
            TINY.n_embd, TINY.n_head, 4 * TINY.n_embd, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        layer.load_state_dict({
            "self_attn.in_proj_weight": block.attn.qkv.weight, "self_attn.in_proj_bias": block.attn.qkv.bias,
            **{f"self_attn.out_proj.{name}": p for name, p in block.attn.out_proj.named_parameters()},
            **{f"linear1.{name}": p for name, p in block.mlp.fc1.named_parameters()},
            **{f"linear2.{name}": p for name, p in block.mlp.fc2.named_parameters()},
            **{f"norm1.{name}": p for name, p in block.ln1.named_parameters()},
            **{f"norm2.{name}": p for name, p in block.ln2.named_parameters()},
        })  # fmt: skip
        stream = layer(stream, src_mask=torch.full((T, T), -math.inf).triu(1), is_causal=True)
    final = F.layer_norm(stream, (TINY.n_embd,), model.ln_f.weight, model.ln_f.bias)
    torch.testing.assert_close(model(x)[0], final @ model.wte.weight.T, atol=1e-4, rtol=1e-5)


def test_logits_do_not_see_the_future_nor_other_rows():
    model, x = loud(), ids()
    before, _ = model(x)
    for t in range(T):
        other = x.clone()
        other[1, t] = (x[1, t] + 1) % TINY.vocab_size
        moved = (model(other)[0] - before).abs().amax(-1) > 1e-6
        assert not moved[[0, 2]].any()
        assert moved[1].tolist() == [s >= t for s in range(T)]


def test_parameters_are_counted_by_the_formula():
    for bias in (True, False):
        config = GPTConfig(**{**vars(TINY), "bias": bias})
        V, N, L, C = config.vocab_size, config.block_size, config.n_layer, config.n_embd
        per_block = 12 * C * C + (4 + 9 if bias else 2) * C
        total = V * C + N * C + L * per_block + (2 if bias else 1) * C
        model = TinyGPT(config)
        assert model.get_num_params(non_embedding=False) == total
        assert model.get_num_params() == total - N * C


def test_the_shakespeare_model_has_the_lessons_10_6_million():
    with torch.device("meta"):
        model = TinyGPT(GPTConfig(65, 256, 6, 6, 384, 0.2, bias=False))
    assert round(model.get_num_params() / 1e6, 1) == 10.6


def test_bias_false_leaves_no_bias_anywhere():
    names = [name for name, _ in TinyGPT(GPTConfig(**{**vars(TINY), "bias": False})).named_parameters()]
    assert not [name for name in names if "bias" in name]


def test_initial_weights_have_the_stated_spread():
    config = GPTConfig(vocab_size=500, block_size=64, n_layer=8, n_head=4, n_embd=128)
    for name, p in TinyGPT(config).named_parameters():
        if p.dim() == 1:
            assert torch.equal(p, torch.ones_like(p) if ".ln" in "." + name and "weight" in name else 0 * p), name
        else:
            residual = name.endswith(("out_proj.weight", "fc2.weight"))
            std = 0.02 / math.sqrt(16) if residual else 0.02
            # The sample spread of n normal numbers has a relative standard error of 1/sqrt(2n): five of them.
            assert p.std().item() == pytest.approx(std, rel=5 / math.sqrt(2 * p.numel())), name


def test_initial_loss_is_ln_v_plus_its_small_excess():
    """Logits are about N(0, C·0.02²), so E[ln Σ exp] exceeds ln V by half of that variance.

    What is left is the tied embedding's own token: its logit is 1.1 to 1.2 at six layers, worth up to 0.03.
    """
    config = GPTConfig(65, 64, 6, 6, 384, bias=False)
    for seed in range(3):
        torch.manual_seed(seed)  # the initialisation draws from the global generator
        x, y = ids(seed, (2, 32, 64), config)
        _, loss = TinyGPT(config)(x, y)
        assert 0 < loss.item() - (math.log(65) + 384 * 0.02**2 / 2) < 0.04


def test_tied_weights_are_one_tensor_and_both_gradients_arrive():
    model, x, y = loud(), ids(0), ids(1)
    assert model.lm_head.weight is model.wte.weight
    model(x, y)[1].backward()
    both = model.wte.weight.grad.clone()
    unused = torch.ones(TINY.vocab_size, dtype=torch.bool)
    unused[x.unique()] = False
    assert both[unused].abs().sum() > 0  # only the unembedding reaches tokens that were not read


@pytest.mark.slow
def test_same_seed_same_losses_as_nanogpt(shakespeare):
    record = json.loads((Path(__file__).parent / "data" / "nanogpt_same_seed_losses.json").read_text())
    chars = sorted(set(shakespeare))
    data = torch.tensor([chars.index(c) for c in shakespeare[: int(0.9 * len(shakespeare))]])
    N, block = len(data), record["protocol"]["config"]["block_size"]
    torch.manual_seed(1337)
    model = TinyGPT(GPTConfig(**record["protocol"]["config"]))
    assert model.get_num_params(non_embedding=False) == record["parameters"]
    optimizer = model.configure_optimizers(0.1, 1e-3, (0.9, 0.99), "cpu")
    for step, expected in enumerate(record["loss"]):
        starts = torch.tensor([(7919 * row + 104729 * step) % (N - block - 1) for row in range(12)])
        windows = data[starts[:, None] + torch.arange(block + 1)]
        _, loss = model(windows[:, :-1], windows[:, 1:])
        assert loss.item() == pytest.approx(expected, abs=1e-3), f"step {step}"
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    ("x", "said"),
    [
        (torch.zeros(B, T), ["int64", "float32"]),
        (torch.zeros(T, dtype=torch.long), ["(B, T)", "(11,)"]),
        (torch.zeros(B, 0, dtype=torch.long), ["T >= 1", "(3, 0)"]),
        (torch.zeros(B, 17, dtype=torch.long), ["T=17", "block_size=16"]),
        (torch.full((B, T), 37), ["37", "vocab_size=37"]),
        (torch.full((B, T), -1), ["-1", "0 to 36"]),
    ],
)
def test_bad_ids_are_told_apart(x, said):
    with pytest.raises(ValueError, match=all_of(said)):
        TinyGPT(TINY)(x)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (ids(0, (B, T - 1)), ["(3, 11)", "(3, 10)"]),
        (torch.full((B, T), 37), ["targets", "37"]),
        (torch.full((B, T), -2), ["targets", "-2"]),
        (torch.zeros(B, T), ["targets", "float32"]),
    ],
)
def test_bad_targets_are_told_apart(y, said):
    with pytest.raises(ValueError, match=all_of(said)):
        TinyGPT(TINY)(ids(), y)


def test_half_precision_stays_finite():
    logits, loss = loud().to(torch.bfloat16)(ids(0), ids(1))
    assert logits.isfinite().all()
    assert loss.isfinite()


# --- Generation ---------------------------------------------------------------------------------------------------


def lesson_loop(model, idx, n, temperature, top_k, generator):
    """The uncached loop, as lesson two describes it: the whole context at every step."""
    for _ in range(n):
        logits = model(idx[:, -model.config.block_size :])[0][:, -1] / temperature
        if top_k is not None:
            kept = logits.topk(min(top_k, logits.size(-1))).values
            logits[logits < kept[:, [-1]]] = -math.inf
        token = torch.multinomial(logits.softmax(-1), 1, generator=generator)
        idx = torch.cat([idx, token], dim=1)
    return idx


@pytest.mark.parametrize("prompt", [1, 7, 16, 21])
@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.7, 5), (1.9, 400)])
def test_the_cache_changes_no_token_before_or_beyond_the_context(prompt, temperature, top_k):
    model, x = loud(), ids(5, (2, prompt))
    with torch.no_grad():
        slow = lesson_loop(model, x, 30, temperature, top_k, seeded(9))
    assert torch.equal(model.generate(x, 30, temperature, top_k, generator=seeded(9)), slow)


@pytest.mark.parametrize("fused", [True, False])
@torch.no_grad()
def test_a_cache_filled_in_pieces_gives_the_whole_logits(fused):
    model, x = loud().double(), ids(6)
    for block in model.blocks:
        block.attn.fused = fused
    whole, _ = model(x)
    caches = [KVCache(TINY.block_size) for _ in model.blocks]
    pieces = [model._logits(piece, caches) for piece in x.split([4, 1, 5, 1], dim=1)]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-12, rtol=0)


def test_the_cache_reads_each_position_once(monkeypatch):
    model, seen = loud(), []
    original = CausalSelfAttention.forward
    monkeypatch.setattr(CausalSelfAttention, "forward", lambda s, x, *a: seen.append(x.size(1)) or original(s, x, *a))
    model.generate(ids(0, (1, 5)), 6)
    assert seen[:: TINY.n_layer] == [5, 1, 1, 1, 1, 1]


def test_temperature_zero_is_greedy():
    model, x = loud(), ids(0, (2, 3))
    out = x
    for _ in range(20):
        out = torch.cat([out, model(out[:, -16:])[0][:, -1].argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(model.generate(x, 20, temperature=0), out)


def test_generate_leaves_prompt_mode_and_gradients_alone():
    model, x = loud(), ids()
    model.train()
    model.blocks[1].eval()  # a mixed state has to come back as it was
    before, modes = x.clone(), [m.training for m in model.modules()]
    out = model.generate(x, 3)
    assert torch.equal(x, before)
    assert torch.equal(out[:, :T], before)
    assert out.shape == (B, T + 3)
    assert [m.training for m in model.modules()] == modes
    assert not out.requires_grad
    with pytest.raises(ValueError, match="temperature"):
        model.generate(x, 3, temperature=-1)
    assert [m.training for m in model.modules()] == modes


def test_no_new_tokens_is_a_copy_of_the_prompt():
    x = ids()
    out = loud().generate(x, 0)
    assert torch.equal(out, x)
    assert out.data_ptr() != x.data_ptr()


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"temperature": -0.1}, "-0.1"),
        ({"temperature": math.nan}, "nan"),
        ({"top_k": 0}, "0"),
        ({"top_k": -3}, "-3"),
        ({"max_new_tokens": -1}, "-1"),
    ],
)
def test_generate_refuses_settings_that_mean_nothing(kwargs, said):
    with pytest.raises(ValueError, match=said):
        loud().generate(ids(), **{"max_new_tokens": 2, **kwargs})


def test_generate_needs_a_prompt():
    with pytest.raises(ValueError, match="T >= 1"):
        loud().generate(torch.zeros(1, 0, dtype=torch.long), 3)


def test_next_token_probs_are_exact():
    logits = torch.tensor([[math.log(1), math.log(2), math.log(5), math.log(8)]])

    def expect(probs, **kwargs):
        torch.testing.assert_close(
            next_token_probs(logits, **kwargs), torch.tensor([probs], dtype=torch.float32), atol=1e-6, rtol=0
        )

    expect([1 / 16, 2 / 16, 5 / 16, 8 / 16])
    expect([1 / 94, 4 / 94, 25 / 94, 64 / 94], temperature=0.5)  # p^(1/T), renormalised
    expect([0, 0, 5 / 13, 8 / 13], top_k=2)
    expect([1 / 16, 2 / 16, 5 / 16, 8 / 16], top_k=99)
    expect([0, 0, 0, 1], temperature=0)
    expect([0, 0, 0, 1], temperature=1e-30)  # no overflow on the way to the limit
    expect([0.25, 0.25, 0.25, 0.25], temperature=math.inf)


# --- What nanoGPT's scripts ask -----------------------------------------------------------------------------------


def test_optimizer_decays_matrices_only_and_the_tied_one_once():
    model = TinyGPT(TINY)
    decayed, plain = model.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu").param_groups
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() >= 2 for p in decayed["params"])
    assert all(p.dim() < 2 for p in plain["params"])
    listed = decayed["params"] + plain["params"]
    assert len({id(p) for p in listed}) == len(listed) == len(list(model.parameters()))
    assert decayed["betas"] == (0.9, 0.95)


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA A100-SXM4-40GB", 312), ("NVIDIA H100 80GB HBM3", 989), ("NVIDIA H100 PCIe", 756), ("Tesla T4", 65),
        ("NVIDIA L4", 121), ("NVIDIA A10G", 70), ("NVIDIA H200", 989), ("Tesla V100-SXM2-16GB", 125),
    ],
)  # fmt: skip
def test_peak_of_the_device_that_is_there(name, tflops):
    assert peak_flops(name) == tflops * 1e12


@pytest.mark.parametrize("name", ["NVIDIA L40", "T400", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "GeForce GTX 1080", ""])
def test_an_unknown_device_never_gets_the_peak_of_another(name):
    assert math.isnan(peak_flops(name))


def test_mfu_is_flops_done_over_flops_possible(monkeypatch):
    config = GPTConfig(65, 256, 6, 6, 384, bias=False)
    stub = SimpleNamespace(
        config=config,
        get_num_params=lambda: 1000,
        wte=SimpleNamespace(weight=SimpleNamespace(device=SimpleNamespace(type="cuda"))),
    )
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    per_token = 6 * 1000 + 12 * 6 * 384 * 256
    expected = per_token * 256 * 40 / 2.0 / 65e12
    assert TinyGPT.estimate_mfu(stub, 40, 2.0) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(TinyGPT(TINY).estimate_mfu(40, 2.0))  # this CPU's peak is not known


def test_crop_block_size_keeps_the_first_positions():
    model, x = loud(), ids(0, (B, 9))
    before, _ = model(x)
    model.crop_block_size(9)
    assert model.config.block_size == 9
    torch.testing.assert_close(model(x)[0], before, atol=0, rtol=0)
    with pytest.raises(ValueError, match="T=10"):
        model(ids(0, (B, 10)))
    with pytest.raises(ValueError, match="block_size=10"):
        model.crop_block_size(10)


@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "module.", "module._orig_mod.", "_orig_mod.module."])
@pytest.mark.parametrize("assign", [False, True])
def test_weights_saved_through_a_wrapper_load_and_stay_tied(prefix, assign):
    source = loud()
    saved = {prefix + name: tensor.clone() for name, tensor in source.state_dict().items()}
    target = TinyGPT(TINY).eval()
    target.load_state_dict(saved, assign=assign)
    assert torch.equal(target(ids())[0], source(ids())[0])
    assert target.lm_head.weight is target.wte.weight


def test_compile_prefix_is_the_one_torch_writes():
    source = loud()
    saved = torch.compile(source, backend="eager").state_dict()
    assert all(name.startswith("_orig_mod.") for name in saved)
    target = TinyGPT(TINY).eval()
    target.load_state_dict(saved)
    assert torch.equal(target(ids())[0], source(ids())[0])


def test_a_copy_is_independent_and_tied():
    source = loud()
    other = copy.deepcopy(source)
    assert other.lm_head.weight is other.wte.weight
    with torch.no_grad():
        other.wte.weight.zero_()
    assert source.wte.weight.abs().sum() > 0


@pytest.mark.parametrize("name", ["gpt3", "no/such/folder"])
def test_from_pretrained_knows_names_and_folders(name):
    with pytest.raises(ValueError, match=r"neither a folder nor one of gpt2, gpt2-medium"):
        TinyGPT.from_pretrained(name)


def test_from_pretrained_says_what_a_folder_lacks(tmp_path):
    with pytest.raises(ValueError, match=r"lacks config\.json and model\.safetensors"):
        TinyGPT.from_pretrained(str(tmp_path))
    with pytest.raises(ValueError, match="only dropout"):
        TinyGPT.from_pretrained(str(tmp_path), {"n_layer": 3})


def test_from_pretrained_names_the_extra_when_a_library_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(ImportError, match=r"tiny-gpt\[gpt2\]"):
        TinyGPT.from_pretrained(str(tmp_path))


NANOGPT_CALLS = r"""
# The calls that nanoGPT's train.py, sample.py and bench.py make of a model, in their order and with their arguments.
import torch
from contextlib import nullcontext
from tiny_gpt import GPTConfig, TinyGPT as GPT
import tiny_gpt
assert tiny_gpt.__file__ == {file!r}, tiny_gpt.__file__

# train.py, from scratch
model_args = dict(n_layer=2, n_head=2, n_embd=16, block_size=12, bias=False, vocab_size=None, dropout=0.1)
model_args['vocab_size'] = 65
model = GPT(GPTConfig(**model_args))
if 8 < model.config.block_size:
    model.crop_block_size(8)
    model_args['block_size'] = 8
model.to('cpu')
scaler = torch.amp.GradScaler('cpu', enabled=False)
optimizer = model.configure_optimizers(1e-1, 1e-3, (0.9, 0.95), 'cpu')
unoptimized, model = model, torch.compile(model, backend='eager')
X, Y = torch.randint(65, (4, 8)), torch.randint(65, (4, 8))
model.train()
for _ in range(3):
    with nullcontext():
        logits, loss = model(X, Y)
    scaler.scale(loss / 2).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
f"{{unoptimized.estimate_mfu(4 * 2, 0.1) * 100:.2f}}%"
torch.save({{'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'model_args': model_args}}, {ckpt!r})

# train.py, resume; sample.py
checkpoint = torch.load({ckpt!r}, map_location='cpu')
resumed = GPT(GPTConfig(**checkpoint['model_args']))
resumed.load_state_dict(checkpoint['model'])
resumed.configure_optimizers(1e-1, 1e-3, (0.9, 0.95), 'cpu').load_state_dict(checkpoint['optimizer'])
resumed.eval()
unoptimized.eval()
assert torch.equal(resumed(X)[0], unoptimized(X)[0])
with torch.no_grad():
    y = resumed.generate(X[:1], 20, temperature=0.8, top_k=200)
assert y[0].tolist()[:8] == X[0].tolist() and y.shape == (1, 28)

# bench.py: no vocabulary in the arguments
bench = GPT(GPTConfig(block_size=16, n_layer=1, n_head=2, n_embd=8, dropout=0, bias=False))
assert bench.config.vocab_size == 50304
optimizer = bench.configure_optimizers(weight_decay=1e-2, learning_rate=1e-4, betas=(0.9, 0.95), device_type='cpu')
assert bench.estimate_mfu(4 * 1 * 20, 1.0) != bench.estimate_mfu(4, 1.0)  # NaN on a CPU, and NaN is unlike itself
print('all calls answered')
"""


@pytest.mark.slow
def test_the_file_copied_alone_answers_every_call_of_nanogpts_scripts(tmp_path):
    file, ckpt = tmp_path / "tiny_gpt.py", tmp_path / "ckpt.pt"
    file.write_text(Path(model_module.__file__).read_text())
    script = tmp_path / "calls.py"
    script.write_text(NANOGPT_CALLS.format(file=str(file), ckpt=str(ckpt)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "all calls answered" in done.stdout


def test_model_needs_torch_and_the_standard_library_alone():
    tree = ast.parse(Path(model_module.__file__).read_text())
    roots = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            roots |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import cannot be carried away"
            roots.add(node.module.split(".")[0])
    assert roots <= {*sys.stdlib_module_names, "torch"}


def test_extreme_temperatures_are_their_limits():
    logits = torch.tensor([[1.0, 3.0, 2.0, -1.0]])
    for temperature in (1e-30, 1e-50, 5e-324):  # the last two are 0 in single precision
        assert next_token_probs(logits, temperature).tolist() == [[0, 1, 0, 0]]
    assert next_token_probs(logits, math.inf).tolist() == [[0.25] * 4]
    assert next_token_probs(logits, math.inf, top_k=2).tolist() == [[0, 0.5, 0.5, 0]]


@pytest.mark.parametrize("ids", [torch.tensor([1, 2]), torch.tensor(1), [[1, 2]], None])
def test_what_is_not_a_batch_of_ids_is_a_value_error_everywhere(ids):
    model = loud()
    for call in (model, model.attention_weights, lambda ids: model.generate(ids, 2)):
        with pytest.raises(ValueError, match="idx must"):
            call(ids)
    with pytest.raises(ValueError, match="targets must"):
        model(torch.tensor([[1, 2]]), [[1, 2]])


def test_weights_with_an_untied_head_are_refused_and_nothing_is_loaded(make):
    model = make(GPTConfig(vocab_size=11, block_size=8, n_layer=1, n_head=2, n_embd=8))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    other = {**before, "wte.weight": before["wte.weight"] + 1}
    with pytest.raises(ValueError, match=r"lm_head\.weight differs from wte\.weight"):
        model.load_state_dict(other)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    model.load_state_dict({**other, "lm_head.weight": other["wte.weight"]})
    assert torch.equal(model.lm_head.weight, other["wte.weight"])
