"""How time and memory grow: attention with T, a training step with the parameters.

An exponent is the slope of the straight line through the logarithms of a column, over the rows of the table and no
further: small sizes still pay for what does not grow. Below it stands the slope between the last two rows. In time it
can exceed the 2 of T² for the four lines, probably because tables of T × T numbers outgrow the caches. Memory is the
most that PyTorch held for tensors at once (torch.profiler), beyond what is there before the call; for a step that
begins with no model, so weights, gradients and AdamW's two averages are in it.
"""

import statistics

import torch
from measure import exponent, pair, peak_bytes, timed
from torch.nn import functional as F

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.model import causal_attention
from tiny_gpt.rng import seeded

LENGTHS = (128, 256, 512, 1024, 2048)
WIDTHS = (64, 128, 256, 512)


def table(header: list[str], rows: list[list[float]], formats: list[str], fitted: list[int]) -> list[str]:
    """A table in Markdown; the columns ``fitted`` have their exponents against the first one below them."""
    columns = list(zip(*rows, strict=True))

    def line(cells):
        return f"| {' | '.join(cells)} |"

    def exponents(name, of):
        cells = [f"{exponent(columns[0][of], c[of]):.2f}" if i in fitted else "" for i, c in enumerate(columns)]
        return line([name, *cells[1:]])

    return [
        line(header),
        line(["--:"] * len(header)),
        *(line(format.format(value) for format, value in zip(formats, row, strict=True)) for row in rows),
        exponents("exponent", slice(None)),
        exponents("of the last two", slice(-2, None)),
    ]


@torch.no_grad()
def attention(rounds: int = 9) -> list[str]:
    """Attention alone, forward, 6 heads of 64: PyTorch's fused kernel and the lesson's four lines, in turn."""
    rows = []
    for T in LENGTHS:
        q, k, v = torch.randn(3, 1, 6, T, 64, generator=torch.Generator().manual_seed(T))

        def fused(q=q, k=k, v=v):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        def lines(q=q, k=k, v=v):
            return causal_attention(q, k, v)[0]

        assert torch.allclose(fused(), lines(), atol=1e-5)
        a, b, ratio = pair(fused, lines, rounds)
        rows.append([T, 1e3 * a, 1e3 * b, ratio, peak_bytes(fused) / 1e6, peak_bytes(lines) / 1e6])
    header = ["T", "fused, ms", "four lines, ms", "ratio", "fused, MB", "four lines, MB"]
    return table(header, rows, ["{}", "{:.2f}", "{:.2f}", "{:.2f}", "{:.1f}", "{:.1f}"], [1, 2, 4, 5])


def step(model, x, y):
    """A function that updates the model once, on ids x and targets y (B, T)."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)

    def run():
        optimizer.zero_grad()
        model(x, y)[1].backward()
        optimizer.step()

    return run


def training(rounds: int = 5, batch: int = 12) -> list[str]:
    """A training step of 4 layers with the `cpu` preset's context and batch, AdamW, at growing width; sizes in turn."""
    configs = [GPTConfig(65, 64, 4, 4, width, bias=False) for width in WIDTHS]
    x, y = torch.randint(65, (2, batch, 64), generator=torch.Generator().manual_seed(0))

    def from_nothing(config):
        run = step(TinyGPT(config), x, y)
        run(), run()  # the averages are made in the first

    with seeded(0):
        memory = [peak_bytes(lambda config=config: from_nothing(config)) for config in configs]
        models = [TinyGPT(config) for config in configs]
    steps = [step(model, x, y) for model in models]
    times = [[timed(run) for run in steps] for _ in range(rounds + 1)][1:]  # the first round makes what is made once
    medians = map(statistics.median, zip(*times, strict=True))
    rows = [
        [model.get_num_params() / 1e6, model.config.n_embd, 1e3 * seconds, peak / 1e6]
        for model, seconds, peak in zip(models, medians, memory, strict=True)
    ]
    header = ["parameters, millions", "width", "step, ms", "peak, MB"]
    return table(header, rows, ["{:.2f}", "{}", "{:.1f}", "{:.1f}"], [2, 3])
