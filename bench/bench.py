"""What is how fast, in pairs; engine.py and pages.py do the page's part: writes results.md. No test asserts a time.

Two things are compared by running them in turn, many times, in one process, and by the median of the ratios: a busy
machine slows both. Sizes are the presets' of tiny_gpt.train.
"""

import math
import os
import platform
import statistics
import time
from pathlib import Path

import engine
import pages
import torch
from torch import nn

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.rng import seeded
from tiny_gpt.train import PRESETS

RESULTS = Path(__file__).with_name("results.md")


def sizes(preset: str) -> GPTConfig:
    return GPTConfig(vocab_size=65, **{**PRESETS[preset].model, "dropout": 0.0})


def timed(f) -> float:
    start = time.perf_counter()
    f()
    return time.perf_counter() - start


def pair(a, b, rounds: int) -> tuple[float, float, float]:
    """Median seconds of a and of b, and the median of a's time over b's in the same round."""
    a(), b()  # what is made once is made now
    times = [(timed(a), timed(b)) for _ in range(rounds)]
    first, second = zip(*times, strict=True)
    return statistics.median(first), statistics.median(second), statistics.median(x / y for x, y in times)


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
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def step(model, x, y):
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def run():
        optimizer.zero_grad()
        model(x, y)[1].backward()
        optimizer.step()

    return run


def training(preset: str, batch: int, rounds: int):
    config = sizes(preset)
    x, y = torch.randint(65, (2, batch, config.block_size), generator=torch.Generator().manual_seed(0))
    with seeded(0):
        ours, manual, theirs = TinyGPT(config), TinyGPT(config), EncoderLayers(config)
    for block in manual.blocks:
        block.attn.fused = False
    name = f"training step, `{preset}` sizes, batch {batch}"
    yield f"{name}: fused attention / the four lines", pair(step(ours, x, y), step(manual, x, y), rounds)
    yield f"{name}: TinyGPT / nn.TransformerEncoderLayer", pair(step(ours, x, y), step(theirs, x, y), rounds)


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
    found = pair(
        lambda: model.generate(start, n, generator=g.manual_seed(0)),
        lambda: uncached(model, start, n, g.manual_seed(0)),
        rounds,
    )
    yield f"{n} new tokens, `{preset}` sizes: with the cache / without", found


def attention(rounds: int):
    with seeded(0):
        block = TinyGPT(GPTConfig(65, 2048, 1, 6, 384)).eval().blocks[0].attn
    for T in (128, 512, 2048):
        x = torch.randn(1, T, 384, generator=torch.Generator().manual_seed(T))

        def run(fused, x=x):
            block.fused = fused
            with torch.no_grad():
                block(x)

        yield f"attention, T = {T}: fused / the four lines", pair(lambda: run(True), lambda: run(False), rounds)


def main():
    rows = [
        *training("cpu", 12, 15),
        *training("gpu", 2, 5),
        *generation("cpu", 63, 5),
        *generation("gpu", 255, 2),
        *attention(9),
    ]
    lines = [
        "# Benchmarks",
        "Written by `make bench`. Two things in turn, in one process; medians; the ratio is the median of the ratios.",
        "",
        f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}, float32",
        "",
        "| what | first, ms | second, ms | ratio |",
        "|:--|--:|--:|--:|",
    ]
    for name, (a, b, ratio) in rows:
        assert math.isfinite(ratio)
        lines.append(f"| {name} | {1e3 * a:.1f} | {1e3 * b:.1f} | {ratio:.2f} |")
    lines += ["", "## Engine", engine.__doc__.split("\n\n", 1)[1].strip(), "", *engine.table()]
    lines += ["", "## Pages", pages.__doc__.split("\n\n", 1)[1].strip(), "", *pages.table()]
    RESULTS.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
