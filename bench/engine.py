"""The page's engine beside onnxruntime-web: tokens a second, in Node.

Both write one whole context, from one token until it is full, in turn, in one process: a step with the KV cache for
every token, and sampling (temperature 1, top 20) by the same function. onnxruntime-web runs its WebAssembly with SIMD
in one thread; onnx_graph.py says what graph. Rates are per second of CPU time of the process, medians of nine rounds;
"by the clock" is ours on this machine, others' work included. A ratio is the median of the rounds' ratios. Plain
JavaScript is the engine's other kernel, over 63 tokens. "Start" is CPU time from the file's bytes to the first
logits, once. Every model has a process of its own, as a page has. Before anything is timed, the logits of both over a
whole context are compared with PyTorch's for the weights in the file; "off by" is the largest difference.
"""

import json
import subprocess
import tempfile
from pathlib import Path

import torch
from onnx_graph import decode_step
from safetensors.torch import load_file

from tiny_gpt import GPTConfig, TinyGPT, weights
from tiny_gpt.data import CharTokenizer
from tiny_gpt.rng import seeded
from tiny_gpt.train import PRESETS
from tiny_gpt.widgets.base import front_end

ROOT = Path(__file__).parent.parent

# How far logits may be from PyTorch's: float32 by rounding alone; in int8 our engine rounds a vector to 16 bits before
# it is multiplied, and ONNX's operator to 8.
BOUNDS = {"float32": {"ours": 1e-4, "theirs": 1e-4}, "int8": {"ours": 2e-3, "theirs": 0.1}}


def version() -> str:
    """The version of onnxruntime-web that is installed."""
    package = Path(__file__).parent / "node_modules" / "onnxruntime-web" / "package.json"
    if not package.exists():
        raise SystemExit("onnxruntime-web is not installed: run `npm ci --prefix bench` first (`make bench` does).")
    return json.loads(package.read_text())["version"]


@torch.no_grad()
def table() -> list[str]:
    """The rows of a table in Markdown."""
    tokenizer = CharTokenizer("".join(map(chr, range(48, 48 + 65))))
    models = [(preset, kind) for preset in ("cpu", "gpu") for kind in BOUNDS]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "engine.mjs"
        module.write_text(front_end("engine"), encoding="utf-8")
        for preset, kind in models:
            with seeded(0):
                model = TinyGPT(GPTConfig(vocab_size=65, **PRESETS[preset].model))
            name = Path(folder) / f"{preset}-{kind}"
            file = name.with_suffix(".safetensors")
            weights.save(file, model, tokenizer, {}, int8=kind == "int8")
            name.with_suffix(".onnx").write_bytes(decode_step(model.config, load_file(file)))
            rounded, _, _ = weights.load(file)
            logits, _ = rounded(torch.arange(model.config.block_size)[None] % 65)  # (1, T, V)
            name.with_suffix(".logits").write_bytes(logits.numpy().tobytes())
            command = ["node", str(Path(__file__).with_suffix(".mjs")), str(module), str(name)]
            found.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
    header = [
        "model", "ours, tokens/s", "by the clock", "onnxruntime-web, tokens/s", "ratio", "plain JavaScript, tokens/s",
        "ratio", "ours off by", "its off by", "our start, ms", "its start, ms",
    ]  # fmt: skip
    lines = [f"| {' | '.join(header)} |", f"|:--|{'--:|' * (len(header) - 1)}"]
    for (preset, kind), row in zip(models, found, strict=True):
        onnx, plain, off = row["onnx"], row["plain"], row["off"]
        for which, bound in BOUNDS[kind].items():
            assert off[which] < bound, f"{preset}, {kind}, {which}: logits are off by {off[which]}"
        cells = [
            f"`{preset}` sizes, {kind}", f"{onnx['first']:.0f}", f"{onnx['clock']:.0f}", f"{onnx['second']:.0f}",
            f"{onnx['ratio']:.2f}", f"{plain['second']:.0f}", f"{plain['ratio']:.1f}", f"{off['ours']:.0e}",
            f"{off['theirs']:.0e}", f"{row['start']:.0f}", f"{row['graphStart']:.0f}",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
