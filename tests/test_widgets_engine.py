"""engine.mjs: what PyTorch's model computes, from the same file, with either kernel; and what it refuses."""

import base64
import json
import math
import re
import struct
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save, save_file

from tiny_gpt import GPTConfig, weights
from tiny_gpt.data import CharTokenizer
from tiny_gpt.widgets.base import front_end, read

SHIPPED = weights.FOLDER / "shakespeare-cpu.safetensors"
TOKENIZER = CharTokenizer("abc\n é")
TINY = GPTConfig(TOKENIZER.vocab_size, 8, 2, 2, 8, bias=True)
KERNELS = ["plainKernel", "simdKernel"]


@pytest.fixture
def drawn(make, generator):
    """A model all of whose parameters are far from their initial values, so that each of them counts."""

    def build(config):
        model = make(config).eval()
        with torch.no_grad():
            for p in model.parameters():
                p += 0.3 * torch.randn(p.shape, generator=generator)
        return model

    return build


def vocabulary(size: int) -> CharTokenizer:
    return CharTokenizer("".join(map(chr, range(48, 48 + size))))


def written(path: Path, model, tokenizer=None, **how) -> Path:
    weights.save(path, model, tokenizer or vocabulary(model.config.vocab_size), {"by": "é"}, **how)
    return path


def in_single_precision(path: Path, model) -> Path:
    """The file of ``model`` with its numbers as they are, not rounded to half precision."""
    with safe_open(written(path, model), "pt") as file:
        header = file.metadata()
    save_file({name: p.detach() for name, p in model.named_parameters()}, path, metadata=header)
    return path


@torch.no_grad()
def case(name: str, path: Path, model, ids, bound: float = 1e-4) -> dict:
    """What PyTorch says of ids (T,): logits (T, V), attention (L, H, T, T), and the stream read after each layer."""
    x = model.wte(ids[None]) + model.wpe(torch.arange(len(ids)))  # (1, T, C)
    lens = [model.lm_head(model.ln_f(x))]
    for block in model.blocks:
        x = block(x)
        lens.append(model.lm_head(model.ln_f(x)))  # (1, T, V)
    return {
        "name": name,
        "path": str(path),
        "ids": ids.tolist(),
        "logits": model(ids[None])[0][0].tolist(),
        "attention": model.attention_weights(ids[None]).flatten().tolist(),
        "readings": torch.stack(lens).flatten().tolist(),
        "bound": bound,
    }


SIZES = [
    TINY,
    GPTConfig(7, 5, 1, 1, 3, bias=False),  # nothing is a multiple of anything
    GPTConfig(11, 19, 3, 3, 36, bias=True),
    GPTConfig(65, 40, 2, 2, 80, bias=False),
]


def test_logits_attention_and_readings_are_pytorchs(drawn, tmp_path, generator, node_test):
    cases = []
    for i, config in enumerate(SIZES):
        model = drawn(config)
        ids = torch.randint(config.vocab_size, (config.block_size,), generator=generator)
        path = in_single_precision(tmp_path / f"{i}.safetensors", model)
        cases.append(case(str(config), path, model, ids))
    model, tokenizer, _ = weights.load(SHIPPED)
    cases.append(case("shipped, in half precision", SHIPPED, model, tokenizer.encode("ROMEO:\nBut soft, what light")))
    node_test("engine", "engine", {"models": cases})


def test_greedy_continuations_are_the_models_beyond_its_context(shakespeare, generator, node_test):
    model, tokenizer, _ = weights.load(SHIPPED)
    longest = model.config.block_size
    texts = []
    for i in range(20):
        start = int(torch.randint(len(shakespeare) - longest, (1,), generator=generator))
        prompt = shakespeare[start : start + 1 + (longest + 2) * i // 19]  # of 1 to longer than the context
        idx = model.generate(tokenizer.encode(prompt)[None], max(1, longest + 5 - len(prompt)), temperature=0)
        texts.append({"prompt": prompt, "whole": tokenizer.decode(idx[0])})
    jobs = [(KERNELS[1], texts), (KERNELS[0], texts[::7])]
    node_test("engine", "engine", {"greedy": [dict(path=str(SHIPPED), kernel=k, texts=t) for k, t in jobs]})


def test_int8_is_the_model_that_load_gives(drawn, tmp_path, generator, node_test):
    """Weights that were rounded are the same numbers in both; here x has 16 bits, and 2^-16 of it is lost at most."""
    cases = []
    for i, config in enumerate(SIZES):
        path = written(tmp_path / f"{i}.safetensors", drawn(config), int8=True)
        ids = torch.randint(config.vocab_size, (config.block_size,), generator=generator)
        model, _, _ = weights.load(path)
        size = float(model(ids[None])[0].detach().abs().max())
        cases.append(case(f"int8 {config}", path, model, ids, bound=2**-10 * max(1, size)))
    node_test("engine", "engine", {"models": cases})


def test_laws(drawn, tmp_path, node_test):
    phi = [(x / 7, 0.5 * math.erfc(-x / 7 / math.sqrt(2))) for x in range(-70, 71)]
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int16)
    halves = bits.view(torch.float16)
    halves = halves[halves.isfinite()]
    metadata = {"format": json.dumps(weights.FORMAT), "config": "{}", "vocab": '""', "provenance": "null"}
    save_file({"all": halves}, tmp_path / "halves.safetensors", metadata=metadata)
    (tmp_path / "floats").write_bytes(halves.float().numpy().tobytes())
    files = {"path": str(tmp_path / "halves.safetensors"), "floats": str(tmp_path / "floats")}
    path = written(tmp_path / "m.safetensors", drawn(TINY), TOKENIZER)
    node_test("engine", "engine", {"laws": {"path": str(path), "phi": phi, "halves": files}})


def test_what_is_no_model_is_refused_in_a_sentence(drawn, tmp_path, node_test):
    with safe_open(written(tmp_path / "m.safetensors", drawn(TINY), TOKENIZER, int8=True), "pt") as file:
        header, good = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    data = (tmp_path / "m.safetensors").read_bytes()

    def changed(tensors=None, **more) -> bytes:
        tensors = {key: value for key, value in {**good, **(tensors or {})}.items() if value is not None}
        return save(tensors, {key: value for key, value in {**header, **more}.items() if value is not None})

    def with_header(text: bytes) -> bytes:
        return struct.pack("<Q", len(text)) + text

    def config(**sizes) -> str:
        return json.dumps({**json.loads(header["config"]), **sizes})

    bad = good["ln_f.weight"].clone()
    bad[3] = math.nan
    files = {
        "empty": (b"", "not a safetensors file, or only a part .* 0 bytes"),
        "text": (b"To be, or not to be", "not a safetensors file"),
        "header cut": (data[:100], "not a safetensors file, or only a part"),
        "data cut": (data[:-9], "damaged or cut short"),
        "no JSON": (with_header(b"{never"), "header should be JSON"),
        "null": (with_header(b"null"), "no model of Tiny GPT"),
        "foreign": (save({"a": torch.ones(2)}, {"format": "pt"}), 'should be "tiny-gpt weights 1" and is pt'),
        "no metadata": (save({"a": torch.ones(2)}), "no model of Tiny GPT.* is not given"),
        "too large": (bytes(64 * 2**20 + 1), "64.0 MB and this page reads at most 64.0 MB.*--int8"),
        "config no JSON": (changed(config="{"), "config should be JSON"),
        "vocab missing": (changed(vocab=None), "vocab should be JSON"),
        "no heads": (changed(config=config(n_head=0)), "n_head must be a positive integer, got 0"),
        "odd heads": (changed(config=config(n_head=3)), "n_embd=8 is not divisible by n_head=3"),
        "bias unknown": (changed(config=config(bias=None)), "bias must be true or false, got null"),
        "tensor missing": (changed({"wpe.weight": None}), "lacks wpe.weight, which"),
        "scale missing": (changed({"blocks.1.mlp.fc1.weight.scale": None}), "lacks blocks.1.mlp.fc1.weight.scale"),
        "a layer missing": (changed(config=config(n_layer=3)), "lacks .* and [0-9]+ more tensors"),
        "a layer too many": (changed(config=config(n_layer=1)), r"holds blocks\.1\..*has not"),
        "other shapes": (changed(config=config(block_size=9)), r"shape \(9, 8\), .* and has \(8, 8\)"),
        "NaN": (changed({"ln_f.weight": bad}), "ln_f.weight holds NaN at place 3: every weight must be a"),
        "infinity": (changed({"ln_f.weight": bad.nan_to_num(math.inf)}), "ln_f.weight holds Infinity"),
        "other vocabulary": (changed(vocab='"abc"'), "6 different characters, .* and has 3"),
        "vocabulary twice": (changed(vocab='"aabcde"'), "6 different characters, .* and has 5"),
        "vocabulary a list": (changed(vocab='["a"]'), "6 different characters"),
        "other type": (changed({"ln_f.weight": bad.double()}), "ln_f.weight has the type F64.*F32, F16 and I8"),
        "int8 elsewhere": (changed({"ln_f.bias": torch.ones(8, dtype=torch.int8), "ln_f.bias.scale": torch.ones(8)}),
                           "ln_f.bias is I8, which only the matrices"),
    }  # fmt: skip
    cases = [{"name": name, "base64": base64.b64encode(b).decode(), "says": s} for name, (b, s) in files.items()]
    node_test("engine", "engine", {"refused": cases})


def test_the_worker_answers(drawn, tmp_path, node_test):
    (tmp_path / "broken").write_text("no model")
    data = {
        "path": str(written(tmp_path / "m.safetensors", drawn(TINY), TOKENIZER)),
        "broken": str(tmp_path / "broken"),
    }
    node_test("engine_worker", "engine_worker", data, before=read("engine.mjs"))


def test_the_kernel_is_its_source_compiled():
    from wasmtime import wat2wasm

    compiled = base64.b64encode(wat2wasm(read("matvec.wat"))).decode()
    parts = re.search(r"const MATVEC = \[(.*?)\]", front_end("engine"), re.S)[1]
    assert "".join(re.findall('"(.*?)"', parts)) == compiled, "replace MATVEC in engine.mjs by this text"
