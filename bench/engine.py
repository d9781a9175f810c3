"""The model in the page: tokens a second of its engine, in Node.

One context of tokens with the SIMD kernel, everything included: the median of seven runs. The ratio is that to plain
JavaScript over 63 tokens, run in turn. "Of CPU time" counts only what the process itself took, on a machine that
others may load. "First" is from the file's bytes to the first logits. onnxruntime-web is not measured here.
"""

import json
import subprocess
import tempfile
from pathlib import Path

from tiny_gpt import GPTConfig, TinyGPT, weights
from tiny_gpt.data import CharTokenizer
from tiny_gpt.rng import seeded
from tiny_gpt.train import PRESETS
from tiny_gpt.widgets.base import front_end


def table() -> list[str]:
    """The rows of a table in Markdown."""
    tokenizer = CharTokenizer("".join(map(chr, range(48, 48 + 65))))
    names, files = [], []
    with tempfile.TemporaryDirectory() as folder:
        for preset in ("cpu", "gpu"):
            with seeded(0):
                model = TinyGPT(GPTConfig(vocab_size=65, **PRESETS[preset].model))
            for int8 in (False, True):
                files.append(Path(folder) / f"{preset}{int8}.safetensors")
                names.append(f"`{preset}` sizes, {'int8' if int8 else 'float32'}")
                weights.save(files[-1], model, tokenizer, {}, int8=int8)
        module = Path(folder) / "engine.mjs"
        module.write_text(front_end("engine"), encoding="utf-8")
        command = ["node", str(Path(__file__).with_name("engine.mjs")), str(module), *map(str, files)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    lines = ["| model | SIMD, tokens/s | of CPU time | plain JavaScript, tokens/s | ratio | first, ms |"]
    lines.append("|:--|--:|--:|--:|--:|--:|")
    for name, row in zip(names, found, strict=True):
        rates = [f"{row[key]:.0f}" for key in ("fast", "fastCpu", "plain")]
        lines.append("| " + " | ".join([name, *rates, f"{row['ratio']:.1f}", f"{row['first']:.0f}"]) + " |")
    return lines


if __name__ == "__main__":
    print("\n".join(table()))
