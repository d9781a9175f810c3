"""The catalogue of bugs: complete, well described, and each planting wrong in the way that its id says."""

import ast
import contextlib
import copy
import math
import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tiny_gpt import bugs, model
from tiny_gpt.bugs import planting
from tiny_gpt.rng import seeded

ROOT = Path(__file__).parent.parent
WAYS = [(bug.id, way.name) for bug in bugs.CATALOGUE.values() for way in bug.plantings]
B, T, V, N, L, H, C = 3, 8, 13, 12, 2, 2, 8  # T = C: an identity can stand for a text in attention
SIZES = dict(vocab_size=V, block_size=N, n_layer=L, n_head=H, n_embd=C, dropout=0.0, bias=True)
IDS = re.findall(
    r"\S+",
    """
mask-missing mask-excludes-self mask-sees-next mask-reversed mask-after-softmax mask-soft mask-stale scale-missing
scale-by-width scale-wrong softmax-axis heads-split-mixed heads-merge-mixed heads-ignored heads-share-weights qkv-shared
out-projection-missing position-missing position-wrong-axis position-constant position-misplaced untied tied-by-copy
embedding-scaled head-bias init-default init-wrong-std init-bias norm-post norm-missing norm-on-stream
final-norm-missing norm-axis norm-shared norm-rms residual-missing residual-doubled branches-parallel activation-missing
activation-wrong ffn-width blocks-shared blocks-unregistered blocks-skipped loss-shifted-twice loss-on-inputs
loss-ignore-index loss-after-softmax loss-reduction loss-layout loss-detached logits-shape logits-are-probabilities
returns-wrong dropout-in-eval dropout-missing dropout-misplaced batch-leak heads-not-divisible context-unchecked
bias-ignored device-assumed dtype-nan inplace-breaks-grad state-dict-broken generate-no-crop generate-wrong-window
generate-wrong-position generate-temperature generate-temperature-zero generate-top-k generate-top-k-overflow
generate-not-random generate-batch generate-length generate-mutates-prompt generate-mode generate-grad decay-on-norms
decay-missing parameters-missing global-state
""",
)


def ways(*ids):
    """Parameters: every planting of these bugs."""
    return pytest.mark.parametrize(("id", "name"), [way for way in WAYS if way[0] in ids])


def build(id, name, seed=0, loud=True, **sizes):
    """A model with this planting, its weights loud so that nothing is too small to see."""
    way = next(way for way in bugs.CATALOGUE[id].plantings if way.name == name) if id else planting.Planting("", "", ())
    Model, Config = way.build()
    with seeded(seed):
        made = Model(Config(**(SIZES | sizes)))
    if loud:
        shout(made, seed)
    return made.eval()


def shout(made, seed=0):
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in made.parameters():
            noise = torch.randn(p.shape, generator=draws, dtype=p.dtype)
            p.copy_(noise * 1.6 / p.size(-1) ** 0.5 if p.dim() > 1 else p + 0.3 * noise)
        made.wte.weight.mul_(C**0.5 / 1.6)


def ids(seed=0, rows=B, length=T):
    return torch.randint(V, (rows, length), generator=torch.Generator().manual_seed(seed))


# --- The catalogue itself ---------------------------------------------------------------------------------------------


def test_it_has_the_issues_ids_in_its_order():
    assert list(bugs.CATALOGUE) == IDS


@pytest.mark.parametrize("bug", bugs.CATALOGUE.values(), ids=lambda bug: bug.id)
def test_an_entry_is_whole(bug):
    assert bug.common in ("very common", "common", "seen", "rare")
    assert all(re.fullmatch(r"[\w./-]+( PR)?#\d+", report) for report in bug.reports)
    assert (bug.common in ("very common", "common")) <= bool(bug.reports) or bug.id.startswith("generate")
    assert 20 < len(bug.symptom) < 140
    assert len({way.name for way in bug.plantings}) == len(bug.plantings) >= 1
    for way in bug.plantings:
        assert re.fullmatch(r"[\w.-]+", way.name)
        assert way.description[-1] == "."


def test_without_an_edit_it_is_the_right_source():
    assert planting.combined() == Path(model.__file__).read_text(encoding="utf-8")


def test_the_preparations_change_no_number():
    right = build("", "")
    plain = planting.Planting("plain", "Nothing is wrong.", (), (planting.OPEN, planting.UNCACHED)).build()
    other = plain[0](plain[1](**SIZES)).eval()
    other.load_state_dict(right.state_dict())
    assert torch.allclose(other(ids())[0], right(ids())[0], atol=1e-5)
    assert torch.equal(other.generate(ids(), 9, temperature=0), right.generate(ids(), 9, temperature=0))


def test_an_edit_that_no_longer_fits_is_an_error():
    with pytest.raises(ValueError, match="once, and finds it 0 times:\nno such text"):
        planting.edited("some text", [("no such text", "")])
    with pytest.raises(ValueError, match="finds it 2 times"):
        planting.edited("aa", [("a", "b")])


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("=== id\n", "begins with '=== id name'"),
        ("=== id name\nA sentence.\n", "the entry id name needs"),
        ("=== id name\n<<<<<<<\na\n=======\nb\n", "the entry id name needs"),
        ("=== id name\nA sentence.\nAnother.\n<<<<<<<\na\n=======\n>>>>>>>\n", "one sentence at most"),
        ("=== id name after magic\n<<<<<<<\na\n=======\n>>>>>>>\n", "wants magic; there is open-attention, uncached"),
    ],
)
def test_an_entry_that_cannot_be_read_is_an_error(tmp_path, entry, said):
    (tmp_path / "plantings.txt").write_text("How it is written.\n\n" + entry)
    with pytest.raises(ValueError, match=said):
        list(planting.read(tmp_path / "plantings.txt"))


def test_an_entry_is_read_as_it_stands(tmp_path):
    edits = "<<<<<<<\n    a\n=======\n    b\n\n    c\n>>>>>>>\n<<<<<<<\nd\n=======\n>>>>>>>\n"
    (tmp_path / "plantings.txt").write_text(
        f"Top.\n\n=== id name after uncached\nWords.\n{edits}\n=== other x/y\n{edits}"
    )
    first, second = planting.read(tmp_path / "plantings.txt")
    pairs = ("    a\n", "    b\n\n    c\n"), ("d\n", "")
    assert first == ("id", planting.Planting("name", "Words.", pairs, (planting.UNCACHED,)))
    assert second == ("other", planting.Planting("x/y", "", pairs))


def test_plant_and_diff_by_id():
    Model, Config = bugs.plant("untied", 0)
    assert Model.__name__ == "TinyGPT"
    assert Config(**SIZES).n_embd == C
    assert bugs.diff("scale-wrong", 0).splitlines()[1:3] == [
        "-    scores = q @ k.transpose(-2, -1) / math.sqrt(D)  # (B, H, T, S)",
        "+    scores = q @ k.transpose(-2, -1) / D  # (B, H, T, S)",
    ]
    with pytest.raises(ValueError, match="no bug 'mask'"):
        bugs.plant("mask")
    with pytest.raises(ValueError, match="in 2 ways, 0 to 1: got 2"):
        bugs.diff("untied", 2)


@pytest.mark.parametrize(("id", "name"), WAYS)
def test_a_planting_constructs_and_its_diff_is_short(id, name):
    way = next(way for way in bugs.CATALOGUE[id].plantings if way.name == name)
    ast.parse(planting.combined(way))
    assert 1 <= sum(line[0] in "+-" for line in way.diff().splitlines()) <= 26
    with seeded(0):
        before = torch.get_default_dtype()
        try:
            Model, Config = way.build()
            assert isinstance(Model(Config(**SIZES)), nn.Module)
        finally:
            torch.set_default_dtype(before)


def test_running_one_leaves_no_module_behind():
    import sys

    before = set(sys.modules)
    bugs.plant("untied")
    assert set(sys.modules) == before


# --- Attention: the weights are read off, and compared with a formula of the test's own -------------------------------


def probabilities(made, x=None):
    """P of the first attention (H, T, T), read off with values and output projection that change nothing.

    The text is an identity matrix, so that channel c of the output at t is the weight of position c, in c's head.
    """
    attn = copy.deepcopy(made.blocks[0].attn)
    with torch.no_grad():
        attn.qkv.weight[2 * C :] = torch.eye(C)
        attn.qkv.bias[2 * C :] = 0
        attn.out_proj.weight.copy_(torch.eye(C))
        attn.out_proj.bias.zero_()
    out = attn(torch.eye(T).expand(1, T, C))[0]  # (T, C): in columns of head h stand its weights of these positions
    q, k, _ = attn.qkv(torch.eye(T)).view(T, 3, H, C // H).permute(1, 2, 0, 3)  # (H, T, D)
    return out, q, k


def expected(P):
    """What ``probabilities`` reads if the weights of each head are P (H, T, T)."""
    return torch.cat([P[h][:, h * C // H : (h + 1) * C // H] for h in range(H)], dim=1)


LATER = torch.ones(T, T).triu(1).bool()
D = C // H


def attended(q, k, hide=LATER, fill=-math.inf, scale=D**-0.5):
    scores = torch.einsum("htd,hsd->hts", q, k) * scale
    return scores.masked_fill(hide, fill).softmax(-1)


def raw(q, k):
    return torch.einsum("htd,hsd->hts", q, k) * D**-0.5


NOTHING = torch.zeros(T, T).bool()
AT_OR_AFTER = torch.ones(T, T).triu(0).bool()
FORMULAS = {
    ("mask-missing", ""): lambda q, k: attended(q, k, NOTHING),
    ("mask-excludes-self", "triu-0"): lambda q, k: attended(q, k, AT_OR_AFTER),
    ("mask-excludes-self", "tril-minus-1"): lambda q, k: attended(q, k, AT_OR_AFTER, -1e38),
    ("mask-sees-next", ""): lambda q, k: attended(q, k, torch.ones(T, T).triu(2).bool()),
    ("mask-reversed", "tril"): lambda q, k: attended(q, k, torch.ones(T, T).tril(-1).bool()),
    ("mask-reversed", "transposed"): lambda q, k: attended(q, k, torch.ones(T, T).tril(-1).bool()),
    ("mask-reversed", "kernel-inverted"): lambda q, k: attended(q, k, torch.ones(T, T).tril(0).bool()),
    ("mask-after-softmax", ""): lambda q, k: attended(q, k, NOTHING).masked_fill(LATER, 0),
    ("mask-soft", "minus-ten"): lambda q, k: attended(q, k, fill=-10.0),
    ("mask-soft", "times-mask"): lambda q, k: attended(q, k, fill=0.0),
    ("mask-soft", "binary-added"): lambda q, k: (raw(q, k) + (~LATER)).softmax(-1),
    ("scale-missing", ""): lambda q, k: attended(q, k, scale=1.0),
    ("scale-by-width", ""): lambda q, k: attended(q, k, scale=C**-0.5),
    ("scale-wrong", "divided-by-D"): lambda q, k: attended(q, k, scale=1 / D),
    ("scale-wrong", "multiplied"): lambda q, k: attended(q, k, scale=D**0.5),
    ("scale-wrong", "twice"): lambda q, k: attended(q, k, scale=1 / D),
    ("softmax-axis", "over-queries"): lambda q, k: raw(q, k).masked_fill(LATER, -math.inf).softmax(1),
    ("softmax-axis", "over-heads"): lambda q, k: raw(q, k).masked_fill(LATER, -math.inf).softmax(0),
    ("softmax-axis", "over-batch"): lambda q, k: raw(q, k).masked_fill(LATER, -math.inf)[None].softmax(0)[0],
}  # fmt: skip


def test_the_reading_of_attention_weights_is_right_on_the_right_model():
    out, q, k = probabilities(build("", ""))
    assert torch.allclose(out, expected(attended(q, k)), atol=1e-5)


@ways(
    "mask-missing", "mask-excludes-self", "mask-sees-next", "mask-reversed", "mask-after-softmax", "mask-soft",
    "scale-missing", "scale-by-width", "scale-wrong", "softmax-axis",
)  # fmt: skip
def test_attention_weights_follow_the_wrong_formula(id, name):
    out, q, k = probabilities(build(id, name))
    wrong = expected(FORMULAS.get((id, name), FORMULAS.get((id, "")))(q, k))
    rows = slice(0, T - 1) if name == "kernel-inverted" else slice(None)  # in the last row nothing is left to read
    # a column of softmax over a hidden axis is 0/0, which makes the whole row of the output NaN
    seen, wrong = out[rows], wrong[rows]
    fine = ~(seen.isnan() | wrong.isnan())
    assert torch.allclose(seen[fine], wrong[fine], atol=1e-5)
    assert torch.equal(wrong.isnan().any(1), wrong.isnan().any(1) & seen.isnan().any(1))
    assert not torch.allclose(seen, expected(attended(q, k))[rows], atol=1e-5)


@ways("mask-stale")
def test_a_stale_mask_is_right_at_one_length_only(id, name):
    made, right = build(id, name, block_size=16), build("", "", block_size=16)
    right.load_state_dict(made.state_dict())
    good = 16 if name == "not-cropped" else 8
    text = ids(length=16)
    assert torch.allclose(made(text[:, :good])[0], right(text[:, :good])[0], atol=1e-5)
    try:
        other = made(text[:, : 24 - good])[0]
    except RuntimeError:
        return
    assert not torch.allclose(other, right(text[:, : 24 - good])[0], atol=1e-3)


@ways("heads-split-mixed", "heads-merge-mixed")
def test_mixed_heads_leak_though_the_mask_is_right(id, name):
    """Even attention over uniform weights moves the wrong channels: a later position reaches an earlier output."""
    attn = build(id, name).blocks[0].attn
    x = torch.randn(1, T, C, generator=torch.Generator().manual_seed(1))
    y = x.clone()
    y[:, -1] += 1
    assert (attn(x) - attn(y))[:, :-1].abs().max() > 1e-3
    out = attn.out_proj(attn.qkv(x)[..., 2 * C :])  # at T = 1 nothing can be mixed but channels
    if "merge" in id:
        assert torch.allclose(attn(x[:, :1]), out[:, :1], atol=1e-5)


@ways("heads-ignored")
def test_one_head_has_one_distribution_over_all_channels(id, name):
    made = build(id, name)
    out, _, _ = probabilities(made)
    assert torch.allclose(out.sum(1), torch.ones(T), atol=1e-5)  # one P: its whole row stands across the channels
    right, _, _ = probabilities(build("", ""))
    assert not torch.allclose(right.sum(1), torch.ones(T), atol=1e-2)


@ways("heads-share-weights")
def test_heads_that_share_weights_compute_the_same(id, name):
    attn = build(id, name).blocks[0].attn
    with torch.no_grad():
        attn.out_proj.weight.copy_(torch.eye(C))
        attn.out_proj.bias.zero_()
    heads = attn(torch.randn(B, T, C)).chunk(H, dim=-1)
    assert torch.equal(heads[0], heads[1])


@ways("qkv-shared")
def test_a_third_of_the_projection_does_not_matter(id, name):
    attn = build(id, name).blocks[0].attn
    attn(torch.randn(B, T, C)).square().sum().backward()
    if name == "one-for-all":
        assert attn.qkv.weight.shape == (C, C)
    else:
        part = {"keys-are-queries": 1, "values-are-keys": 2}[name]
        thirds = attn.qkv.weight.grad.chunk(3)
        assert [bool(third.any()) for third in thirds] == [i != part for i in range(3)]


@ways("out-projection-missing")
def test_silencing_the_output_projection_silences_nothing(id, name):
    attn = build(id, name).blocks[0].attn
    if name == "absent":
        assert not hasattr(attn, "out_proj")
    else:
        nn.init.zeros_(attn.out_proj.weight)
        nn.init.zeros_(attn.out_proj.bias)
    assert attn(torch.randn(B, T, C)).abs().max() > 0.1


# --- The parts and how they are joined --------------------------------------------------------------------------------


def entering(made, text):
    """What the first block reads (B, T, C)."""
    seen = []
    made.blocks[0].register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    made(text)
    return seen[0]


STREAMS = {
    "position-missing": lambda w, p, b: w,
    "position-wrong-axis": lambda w, p, b: w + p[:b, None],
    "position-constant": lambda w, p, b: w + p[0],
    "after-the-blocks": lambda w, p, b: w,
    "from-the-end": lambda w, p, b: w + p[:T].flip(0),
    "times-C": lambda w, p, b: w * C + p[:T],
    "over-sqrt-C": lambda w, p, b: w / C**0.5 + p[:T],
}


@ways("position-missing", "position-wrong-axis", "position-constant", "position-misplaced", "embedding-scaled")
def test_the_stream_begins_wrongly(id, name):
    made, text = build(id, name), ids()
    w, p = made.wte(text), made.wpe.weight
    wrong = STREAMS.get(name, STREAMS.get(id))(w, p, B)
    assert torch.allclose(entering(made, text), wrong, atol=1e-5)
    assert not torch.allclose(wrong, w + p[:T], atol=0.1)


@ways("untied", "tied-by-copy", "head-bias")
def test_the_head_has_parameters_of_its_own(id, name):
    made, right = build(id, name, loud=False), build("", "", loud=False)
    surplus = sum(p.numel() for p in made.parameters()) - sum(p.numel() for p in right.parameters())
    assert surplus == (V if id == "head-bias" else V * C)
    same = torch.equal(made.lm_head.weight, made.wte.weight)
    assert same == (id != "untied")


@ways("init-default", "init-wrong-std", "init-bias")
def test_weights_start_wrongly(id, name):
    made = build(id, name, loud=False, n_embd=96, vocab_size=200)
    fc1 = made.blocks[0].mlp.fc1
    right = (0.018, 0.022)
    if id == "init-bias":
        assert fc1.bias.abs().max() > 0.01
        assert right[0] < fc1.weight.std() < right[1]
        return
    wrong = made.wte.weight if name == "linears-only" else fc1.weight
    assert not right[0] < wrong.std() < right[1]
    if id == "init-default":
        assert 0.9 < made.wte.weight.std() < 1.1  # torch's own for an Embedding


HALVES = {
    ("norm-post", "after-the-sum"): lambda b, x: b.ln2((y := b.ln1(x + b.attn(x))) + b.mlp(y)),
    ("norm-post", "after-the-branch"): lambda b, x: (y := x + b.ln1(b.attn(x))) + b.ln2(b.mlp(y)),
    ("norm-missing", "attention"): lambda b, x: (y := x + b.attn(x)) + b.mlp(b.ln2(y)),
    ("norm-missing", "feed-forward"): lambda b, x: (y := x + b.attn(b.ln1(x))) + b.mlp(y),
    ("norm-missing", "both"): lambda b, x: (y := x + b.attn(x)) + b.mlp(y),
    ("norm-on-stream", "both"): lambda b, x: (z := b.ln2((y := b.ln1(x)) + b.attn(y))) + b.mlp(z),
    ("norm-on-stream", "feed-forward"): lambda b, x: (z := b.ln2(x + b.attn(b.ln1(x)))) + b.mlp(z),
    ("residual-missing", "attention"): lambda b, x: (y := b.attn(b.ln1(x))) + b.mlp(b.ln2(y)),
    ("residual-missing", "feed-forward"): lambda b, x: b.mlp(b.ln2(x + b.attn(b.ln1(x)))),
    ("residual-doubled", "both"): lambda b, x: 2 * (y := 2 * x + b.attn(b.ln1(x))) + b.mlp(b.ln2(y)),
    ("residual-doubled", "added-again"): lambda b, x: 2 * (y := x + b.attn(b.ln1(x))) + b.mlp(b.ln2(y)),
    ("branches-parallel", "own-norms"): lambda b, x: x + b.attn(b.ln1(x)) + b.mlp(b.ln2(x)),
    ("branches-parallel", "held-back"): lambda b, x: x + b.attn(b.ln1(x)) + b.mlp(b.ln2(x)),
}  # fmt: skip


@ways("norm-post", "norm-missing", "norm-on-stream", "residual-missing", "residual-doubled", "branches-parallel")
def test_a_block_is_joined_wrongly(id, name):
    block, x = build(id, name).blocks[0], torch.randn(B, T, C)
    assert torch.allclose(block(x), HALVES[id, name](block, x), atol=1e-4)
    if hasattr(block, "ln1"):
        y = x + block.attn(block.ln1(x))
        assert not torch.allclose(block(x), y + block.mlp(block.ln2(y)), atol=1e-2)


@ways("final-norm-missing")
def test_the_last_norm_does_not_matter(id, name):
    made = build(id, name)
    if name != "absent":
        before = made(ids())[0]
        made.ln_f.weight.data.mul_(2)
        assert torch.equal(made(ids())[0], before)
    assert hasattr(made, "ln_f") == (name != "absent")


@ways("norm-axis", "norm-rms")
def test_a_norm_is_level_along_the_wrong_axis_or_not_centred(id, name):
    norm = build(id, name, loud=False).blocks[0].ln1
    x = 3 + torch.randn(B, T, C, generator=torch.Generator().manual_seed(2))
    y = norm(x)
    if id == "norm-axis":
        axis = {"time": 1, "time-and-channels": (1, 2), "batch": 0}[name]
        assert y.mean(axis).abs().max() < 1e-5
        assert y.mean(-1).abs().max() > 0.1
    else:
        assert y.mean(-1).abs().min() > 0.1
        scale = y.square().mean(-1) if name == "rms" else y.var(-1, unbiased=False)
        assert torch.allclose(scale, torch.ones(B, T), atol=1e-3)


@ways("norm-shared")
def test_a_shared_norm_changes_more_than_one_place(id, name):
    made = build(id, name)
    first, block, last = made.blocks[0], made.blocks[0], made.blocks[-1]
    if name == "all-blocks":
        assert last.ln1 is first.ln1
    elif name == "both-branches":
        assert block.ln2 is block.ln1
    else:
        made(ids(), ids())[1].backward()
        assert block.ln2.weight.grad is None


@ways("activation-missing", "activation-wrong", "ffn-width")
def test_the_feed_forward_network_is_another_one(id, name):
    mlp, x = build(id, name).blocks[0].mlp, torch.randn(B, T, C)
    if id == "ffn-width":
        assert mlp.fc1.out_features == {"C": C, "2C": 2 * C}[name]
        return
    bends = {"relu": F.relu, "silu": F.silu, "tanh": torch.tanh}
    bend = bends.get(name, lambda h: h)
    assert torch.allclose(mlp(x), mlp.fc2(bend(mlp.fc1(x))), atol=1e-5)
    assert not torch.allclose(mlp(x), mlp.fc2(F.gelu(mlp.fc1(x))), atol=1e-2)


@ways("blocks-shared", "blocks-unregistered", "blocks-skipped")
def test_not_every_block_is_there_works_and_learns(id, name):
    made = build(id, name, n_layer=3)
    right = build("", "", n_layer=3)
    if id == "blocks-unregistered":
        assert not any("blocks" in key for key, _ in made.named_parameters())
        return
    made(ids(), ids())[1].backward()
    idle = [i for i, block in enumerate(made.blocks) if block.mlp.fc1.weight.grad is None]
    if name == "list-times-n":
        fewer = sum(p.numel() for p in right.parameters()) - sum(p.numel() for p in made.parameters())
        assert fewer == 2 * sum(p.numel() for p in right.blocks[0].parameters())
    else:
        assert idle == {"one-called-again": [1, 2], "last-left-out": [2], "only-last-counts": [0, 1]}[name]


# --- Promises ---------------------------------------------------------------------------------------------------------


def entropy(logits, targets, **options):
    return F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1), **options)


WRONG_LOSSES = {
    "loss-shifted-twice": lambda z, x, y: entropy(z[:, :-1], y[:, 1:]),
    "loss-on-inputs/idx": lambda z, x, y: entropy(z, x),
    "loss-on-inputs/own-shift": lambda z, x, y: entropy(z[:, :-1], x[:, 1:]),
    "loss-after-softmax/softmax": lambda z, x, y: entropy(z.softmax(-1), y),
    "loss-after-softmax/no-log": lambda z, x, y: -z.softmax(-1).gather(2, y[..., None]).mean(),
    "loss-reduction/sum": lambda z, x, y: entropy(z, y) * B * T,
    "loss-reduction/per-row": lambda z, x, y: entropy(z, y) * T,
    "loss-layout/time-first": lambda z, x, y: entropy(z.transpose(0, 1), y),
    "loss-layout/classes-mixed": lambda z, x, y: entropy(z.transpose(1, 2), y),
}  # fmt: skip


@ways("loss-shifted-twice", "loss-on-inputs", "loss-after-softmax", "loss-reduction", "loss-layout")
def test_the_loss_is_another_number(id, name):
    made, x, y = build(id, name), ids(), ids(1)
    logits, loss = made(x, y)
    if name == "all-counted":
        y[:, ::2] = -1
        loss = made(x, y)[1]
        wrong = entropy(logits, y, ignore_index=-1) / 2
    else:
        wrong = WRONG_LOSSES.get(f"{id}/{name}", WRONG_LOSSES.get(id))(logits, x, y)
    assert torch.allclose(loss, wrong, rtol=1e-4)
    assert abs(loss - entropy(logits, y, ignore_index=-1)) > 0.01


@ways("loss-ignore-index")
def test_ignored_targets_are_not_ignored(id, name):
    made, x, y = build(id, name), ids(), ids(1)
    y[:, ::2] = -1
    if name == "default":
        with pytest.raises(IndexError, match="Target -1 is out of bounds"):
            made(x, y)
    else:
        logits, loss = made(x, y)
        assert abs(loss - entropy(logits, y, ignore_index=-1)) > 0.01


@ways("loss-detached")
def test_nothing_learns(id, name):
    assert not build(id, name)(ids(), ids(1))[1].requires_grad


@ways("logits-shape", "logits-are-probabilities", "returns-wrong")
def test_what_comes_back_is_not_logits_and_loss(id, name):
    made = build(id, name)
    if name == "bare-logits":
        assert isinstance(made(ids()), torch.Tensor)
    elif name == "swapped":
        assert made(ids(), ids(1))[0].dim() == 0
    elif name == "number":
        assert isinstance(made(ids(), ids(1))[1], float)
    elif id == "logits-shape":
        assert made(ids(), ids(1))[0].shape != (B, T, V)
    else:
        assert torch.allclose(made(ids(), ids(1))[0].sum(-1), torch.ones(B, T), atol=1e-5)


@ways("dropout-in-eval", "dropout-missing", "dropout-misplaced")
def test_dropout_is_where_or_when_it_should_not_be(id, name):
    made = build(id, name, dropout=0.5)
    if id == "dropout-in-eval":
        assert not torch.equal(made(ids())[0], made(ids())[0])
    elif id == "dropout-missing":
        made.train()
        assert torch.equal(made(ids())[0], made(ids())[0])
    else:
        assert torch.equal(made(ids())[0], made(ids())[0])
        made.train()
        block, x = made.blocks[0], 10 + torch.randn(B, T, C)
        if name == "stream":
            assert (block(x) == 0).float().mean() > 0.3
        elif name == "logits":
            assert (made(ids())[0] == 0).float().mean() > 0.3
        else:
            block.attn.out_drop.p = 0.0
            out, _, _ = probabilities(made)
            seen = expected(torch.ones(H, T, T).tril()) > 0
            assert (out[seen] > 0).all()  # dropped weights would be 0


@ways("batch-leak")
def test_a_row_depends_on_its_company(id, name):
    made = build(id, name)
    assert not torch.allclose(made(ids())[0][1:2], made(ids()[1:2])[0], atol=1e-2)
    assert torch.allclose(made(ids()[:1])[0], copied(made, build("", ""))(ids()[:1])[0], atol=1e-4)


def copied(source, target):
    target.load_state_dict(source.state_dict())
    return target


@ways("heads-not-divisible")
def test_indivisible_heads_are_accepted(id, name):
    made = build(id, name, n_head=3)
    assert made(ids())[0].shape == (B, T, V)


@ways("context-unchecked")
def test_a_text_longer_than_the_context_is_accepted(id, name):
    assert build(id, name)(ids(length=N + 1))[0].shape == (B, N + 1, V)


@ways("bias-ignored")
def test_biases_do_not_follow_the_config(id, name):
    bias = name == "never"
    right = sum(p.numel() for p in build("", "", bias=bias).parameters())
    assert sum(p.numel() for p in build(id, name, bias=bias).parameters()) != right


@ways("device-assumed")
def test_a_tensor_is_made_where_the_model_is_not(id, name, monkeypatch):
    maker = {"positions": "arange", "mask": "full"}[name]
    make, made_on = getattr(torch, maker), []
    monkeypatch.setattr(torch, maker, lambda *a, **k: made_on.append(k.get("device")) or make(*a, **k))
    build("", "").to("meta")(ids().to("meta"))
    assert None not in made_on
    with contextlib.suppress(RuntimeError):  # what meets a tensor of another device may fail, or not
        build(id, name).to("meta")(ids().to("meta"))
    assert None in made_on


@ways("dtype-nan")
def test_half_precision_fails(id, name):
    with pytest.raises(RuntimeError):
        build(id, name).half()(ids())
    assert build("", "").half()(ids())[0].isfinite().all()


@ways("inplace-breaks-grad")
def test_backward_fails_though_the_loss_is_right(id, name):
    made = build(id, name)
    loss = made(ids(), ids(1))[1]
    assert torch.allclose(loss, copied(made, build("", ""))(ids(), ids(1))[1], atol=1e-4)
    with pytest.raises(RuntimeError, match="inplace operation"):
        loss.backward()


@ways("state-dict-broken")
def test_saved_weights_do_not_load(id, name):
    made = build(id, name)
    made(ids())
    with pytest.raises((RuntimeError, KeyError)):
        build(id, name, loud=False).load_state_dict(made.state_dict())


@ways("global-state")
def test_global_state_is_changed(id, name):
    rng, dtype = torch.get_rng_state(), torch.get_default_dtype()
    try:
        with torch.random.fork_rng():
            way = next(way for way in bugs.CATALOGUE[id].plantings if way.name == name)
            Model, Config = way.build()
            torch.manual_seed(5)
            made = Model(Config(**SIZES))
            made.generate(ids(), 1)
            changed = {
                "seed": torch.initial_seed() == 1337,
                "grad-off": not torch.is_grad_enabled(),
                "default-type": torch.get_default_dtype() == torch.float64,
            }
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(dtype)
    assert [key for key, value in changed.items() if value] == [name]
    assert torch.equal(torch.get_rng_state(), rng)


# --- Generation and the optimiser -------------------------------------------------------------------------------------


def window_read(made, length):
    """The ids that forward is given when a text of this length is continued."""
    text, seen = ids(length=length), []
    inner = made._logits
    made._logits = lambda idx, *rest: seen.append(idx) or inner(idx, *rest)
    with contextlib.suppress(IndexError):
        made.generate(text, 1)
    return text, seen[0]


@ways("generate-no-crop", "generate-wrong-window")
def test_the_window_is_another_one(id, name):
    text, read = window_read(build(id, name), N + 4)
    wrong = {
        "never": text, "one-too-many": text[:, -N - 1 :], "first-tokens": text[:, :N], "one-short": text[:, 1 - N :],
        "newest-only": text[:, -1:],
    }[name]  # fmt: skip
    assert torch.equal(read, wrong)


@ways("generate-wrong-position")
def test_another_positions_logits_decide(id, name):
    made, text = build(id, name), ids(rows=40)
    logits = made(text)[0]
    wrong = {"first": logits[:, 0], "mean": logits.mean(1), "last-but-one": logits[:, -2]}[name].argmax(-1)
    assert torch.equal(made.generate(text, 1, temperature=0)[:, -1], wrong)
    assert not torch.equal(wrong, logits[:, -1].argmax(-1))


def drawn(made, **options):
    """The distribution (V,) of the next token, as generate hands it to multinomial."""
    _, probs = next(made.stream(ids(rows=1), 1, **options))
    return probs[0]


@ways("generate-temperature", "generate-temperature-zero", "generate-top-k")
def test_the_next_token_is_drawn_from_another_distribution(id, name):
    made = build(id, name)
    z = made(ids(rows=1))[0][0, -1]
    if id == "generate-temperature":
        options = {"temperature": 2.0}
        plain = z.softmax(-1)
        wrong = {"multiplied": (z * 2).softmax(-1), "ignored": plain, "on-probabilities": plain / 2}[name]
    elif id == "generate-temperature-zero":
        options = {"temperature": 0.0}
        if name == "divided":
            with pytest.raises(RuntimeError, match="inf"):
                drawn(made, **options)
            return
        wrong = z.softmax(-1)
    else:
        options = {"top_k": 4}
        order = z.argsort(descending=True)
        kept = {"off-by-one": order[:3], "wrong-side": order[-4:], "soft-fill": order[:4]}[name]
        fill = 1e-10 if name == "soft-fill" else -math.inf
        wrong = torch.full((V,), fill).index_copy(0, kept, z[kept]).softmax(-1)
    assert torch.allclose(drawn(made, **options), wrong, atol=1e-5)


@ways("generate-top-k-overflow")
def test_a_top_k_above_the_vocabulary_crashes(id, name):
    with pytest.raises((RuntimeError, IndexError), match="out of range"):
        build(id, name).generate(ids(), 1, top_k=V + 1)


@ways("generate-not-random", "generate-batch")
def test_texts_are_alike_that_should_not_be(id, name):
    made = build(id, name, loud=False)  # quiet weights: all tokens are nearly as probable
    text = ids(rows=1).expand(200, T)
    with seeded(1):
        first = made.generate(text, 1)[:, -1]
    with seeded(2):
        second = made.generate(text, 1)[:, -1]
    if name == "row-0-distribution":
        loud = build(id, name)
        _, probs = next(loud.stream(ids(), 1))
        assert torch.equal(probs[0], probs[2])
    elif name == "same-seed":
        assert torch.equal(first, second)
    else:
        assert len(first.unique()) == 1


@ways("generate-length", "generate-mutates-prompt", "generate-mode", "generate-grad")
def test_generate_breaks_its_word(id, name):
    made, text = build(id, name), ids()
    made.train(name != "always-train")
    seen = []
    made.ln_f.register_forward_hook(lambda module, args, out: seen.append(out.requires_grad))
    longer = made.generate(text, 9)
    if id == "generate-length":
        assert longer.size(1) == {"total": 9, "one-more": T + 10, "without-prompt": 9}[name]
    elif id == "generate-mutates-prompt":
        assert not torch.equal(text, ids())
    elif id == "generate-mode":
        assert made.training == (name == "always-train")
    else:
        assert all(seen)


@ways("decay-on-norms", "decay-missing", "parameters-missing")
def test_the_optimiser_is_given_other_groups(id, name):
    made = build(id, name)
    groups = made.configure_optimizers(0.1, 1e-3, (0.9, 0.95), "cpu").param_groups
    decay = {id_(p): group["weight_decay"] for group in groups for p in group["params"]}
    norm, matrix = made.ln_f.weight, made.blocks[0].mlp.fc1.weight
    if id == "decay-on-norms":
        assert decay[id_(norm)] == 0.1
    elif id == "decay-missing":
        assert decay[id_(matrix)] != 0.1
    else:
        lost = {"no-vectors": norm, "no-table": made.wte.weight}.get(name)
        assert lost is None or id_(lost) not in decay
        assert name != "positions-a-buffer" or made.positions not in set(made.parameters())


def id_(p):
    return p.data_ptr()
