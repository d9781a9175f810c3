"""What is how fast: writes results.md. No test asserts a time.

measure.py says how, growth.py, engine.py, pages.py and book_build.py do their parts. Sizes are the presets' of
tiny_gpt.train, without dropout.
"""

import datetime
import os
import platform
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import book_build
import engine
import growth
import measure
import pages
import torch
import transformers
from growth import step
from measure import pair
from playwright.sync_api import sync_playwright
from torch import nn
from torch.nn import functional as F
from transformers import GPT2Config, GPT2LMHeadModel

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.model import state_dict_from_gpt2
from tiny_gpt.rng import seeded
from tiny_gpt.train import PRESETS

RESULTS = Path(__file__).with_name("results.md")


def sizes(preset: str) -> GPTConfig:
    return GPTConfig(vocab_size=65, **{**PRESETS[preset].model, "dropout": 0.0})


class EncoderLayers(nn.Module):
    """The same model from PyTorch's own encoder layers, as a stranger would build it."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        C = config.n_embd
        self.wte, self.wpe = nn.Embedding(config.vocab_size, C), nn.Embedding(config.block_size, C)
        options = dict(dropout=0.0, activation="gelu", batch_first=True, norm_first=True, bias=config.bias)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(C, config.n_head, 4 * C, **options) for _ in range(config.n_layer)
        )
        self.ln_f = nn.LayerNorm(C, bias=config.bias)
        self.lm_head = nn.Linear(C, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, idx, targets):
        T = idx.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(T)
        x = self.wte(idx) + self.wpe(torch.arange(T))
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class HuggingFace(nn.Module):
    """GPT-2 as transformers has it, in eager mode; with the exact GELU, so that TinyGPT can be the same function."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        same = {name: getattr(config, name) for name in ("vocab_size", "n_layer", "n_head", "n_embd")}
        no_dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        ends = dict.fromkeys(("bos_token_id", "eos_token_id"))
        others = dict(n_positions=config.block_size, activation_function="gelu", attn_implementation="eager")
        self.gpt2 = GPT2LMHeadModel(GPT2Config(**same, **no_dropout, **ends, **others))

    def forward(self, idx, targets):
        logits = self.gpt2(idx, use_cache=False).logits
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def generate(self, idx, n, **sampling):
        everything = torch.ones_like(idx)
        return self.gpt2.generate(idx, attention_mask=everything, max_new_tokens=n, use_cache=True, **sampling)


def hugging_face(preset: str) -> tuple[TinyGPT, HuggingFace]:
    """A TinyGPT with biases, which GPT-2 always has, and GPT-2 with the same weights: logits equal within 1e-4."""
    config = replace(sizes(preset), bias=True)
    with seeded(0):
        ours, theirs = TinyGPT(config), HuggingFace(config).eval()
    ours.load_state_dict(state_dict_from_gpt2(theirs.gpt2.state_dict(), transposed=True))
    x = torch.arange(config.block_size)[None] % 65
    with torch.no_grad():
        assert torch.allclose(ours(x)[0], theirs(x, x)[0], atol=1e-4)
    return ours.eval(), theirs


def training(preset: str, batch: int, rounds: int):
    config = sizes(preset)
    x, y = torch.randint(65, (2, batch, config.block_size), generator=torch.Generator().manual_seed(0))
    with seeded(0):
        ours, manual, layers = TinyGPT(config), TinyGPT(config), EncoderLayers(config)
    for block in manual.blocks:
        block.attn.fused = False
    biased, gpt2 = hugging_face(preset)
    name = f"training step, `{preset}` sizes, batch {batch}"
    yield f"{name}: fused attention / the four lines", pair(step(ours, x, y), step(manual, x, y), rounds)
    yield f"{name}: TinyGPT / nn.TransformerEncoderLayer", pair(step(ours, x, y), step(layers, x, y), rounds)
    yield f"{name}: TinyGPT / Hugging Face's GPT-2", pair(step(biased, x, y), step(gpt2, x, y), rounds)


@torch.no_grad()
def uncached(model, idx, n, generator):
    """Lesson two's loop: the whole context at every step."""
    for _ in range(n):
        logits, _ = model(idx[:, -model.config.block_size :])
        probs = logits[:, -1].softmax(-1)
        idx = torch.cat([idx, torch.multinomial(probs, 1, generator=generator)], dim=1)
    return idx


def generation(preset: str, n: int, rounds: int):
    with seeded(0):
        model = TinyGPT(sizes(preset)).eval()
    start = torch.zeros(1, 1, dtype=torch.long)
    g = torch.Generator()

    def ours():
        return model.generate(start, n, generator=g.manual_seed(0))

    def loop():
        return uncached(model, start, n, g.manual_seed(0))

    assert torch.equal(ours(), loop())
    name = f"{n} new tokens, `{preset}` sizes"
    yield f"{name}: with the cache / the uncached loop", pair(ours, loop, rounds)

    biased, gpt2 = hugging_face(preset)
    assert torch.equal(biased.generate(start, n, temperature=0), gpt2.generate(start, n, do_sample=False))
    sampling = dict(do_sample=True, top_k=0)
    found = pair(lambda: biased.generate(start, n), lambda: gpt2.generate(start, n, **sampling), rounds)
    yield f"{name}, both with a cache: TinyGPT / Hugging Face's GPT-2", found


def machine() -> str:
    """What this was measured on: the day, the processor, the load, and the versions of what is compared."""
    cpuinfo = Path("/proc/cpuinfo")
    name = re.search(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else None
    processor = name[1] if name else platform.processor() or platform.machine()
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=pages.find_chromium(playwright), args=pages.ARGS)
        chromium = browser.version
        browser.close()
    versions = {
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "Node": node.removeprefix("v"),
        "onnxruntime-web": engine.version(),
        "Chromium": chromium,
    }
    where = f"{processor} ({platform.machine()}), {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    return "; ".join([str(datetime.date.today()), where, ", ".join(map(" ".join, versions.items()))])


def prose(module) -> str:
    """A module's docstring without its first line."""
    return module.__doc__.split("\n\n", 1)[1].strip()


def lines():
    """The lines of results.md, each as soon as it is measured."""
    where, page_lines = machine(), pages.table()  # first: they say at once what is not there
    yield from ["# Benchmarks", "", "Written by `make bench`; `make bench BOOK=1` also builds the book anew.", ""]
    yield from [where, "", "In float32 and in one thread. " + prose(measure), "", "## Side by side", ""]
    yield (
        "The first in the row over the second: below 1, the first takes less time. Before the clock starts, the same "
        "seed gave the same text with the cache and without, and Hugging Face's GPT-2 (`attn_implementation="
        '"eager"`, its own `generate` with its cache) the same logits and the same greedy text from the same weights. '
        "nn.TransformerEncoderLayer with a causal mask is the same model in PyTorch's own layers. The four lines are "
        "`causal_attention` in model.py."
    )
    yield from ["", "| what | first, ms | second, ms | ratio |", "|:--|--:|--:|--:|"]
    for rows in (training("cpu", 12, 15), training("gpu", 2, 5), generation("cpu", 63, 7), generation("gpu", 255, 3)):
        for name, (a, b, ratio) in rows:
            yield f"| {name} | {1e3 * a:.1f} | {1e3 * b:.1f} | {ratio:.2f} |"
    yield from ["", "## Growth", "", prose(growth), "", growth.attention.__doc__, "", *growth.attention()]
    yield from ["", growth.training.__doc__, "", *growth.training()]
    yield from ["", "## Engine", "", prose(engine), "", *engine.table()]
    yield from ["", "## Pages", "", prose(pages), "", *page_lines]
    yield from ["", "## Building the book", "", prose(book_build), "", *book_build.table()]


def main():
    torch.set_num_threads(1)
    written = []
    for line in lines():
        print(line, flush=True)
        written.append(line)
    RESULTS.write_text("\n".join(written) + "\n")


if __name__ == "__main__":
    main()
