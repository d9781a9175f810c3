"""How much sooner a better recipe arrives: trains the `cpu` model by several recipes, three seeds each.

Writes book/assets/runs/speedrun.json after every run and leaves out the runs that are there already, so it may be
stopped and started again: OMP_NUM_THREADS=1 python bench/speedrun.py. Delete the file to measure anew. Losses are on
the whole validation split, cut into windows. Times: a step of each recipe in turn with one of nanoGPT's, in one
process, CPU seconds, and the median of the ratios: other programs on the machine slow both.
"""

import json
import os
import platform
import statistics
import time
from dataclasses import replace
from pathlib import Path

import torch

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.data import CharTokenizer, load_shakespeare, split
from tiny_gpt.train import PRESETS, Trainer, train

RECORD = Path(__file__).parents[1] / "book" / "assets" / "runs" / "speedrun.json"
SEEDS = (1337, 1338, 1339)
GOAL = 1.88  # nats, what nanoGPT's README gives for this model
PAIRS = 30  # pairs of steps that are timed

FAST = PRESETS["cpu-fast"].train
RECIPES = {
    "cpu-fast": FAST,
    "AdamW in place of Muon, learning rate 4e-3": replace(FAST, optimizer="adamw", learning_rate=4e-3),
    "AdamW in place of Muon, learning rate 1e-3": replace(FAST, optimizer="adamw", learning_rate=1e-3),
    "learning rate 4e-3": replace(FAST, learning_rate=4e-3),
    "cosine down to a tenth": replace(FAST, schedule="cosine", min_lr=FAST.learning_rate / 10),
    "warm-up of 100 steps": replace(FAST, warmup_steps=100),
    "nanoGPT's recipe": PRESETS["cpu"].train,
}


@torch.no_grad()
def whole_loss(model: TinyGPT, ids: torch.Tensor) -> float:
    """The mean loss, nats, over all windows of ids (N,) that do not overlap."""
    T = model.config.block_size
    n = (len(ids) - 1) // T
    x, y = ids[: n * T].view(n, T), ids[1 : n * T + 1].view(n, T)  # (n, T) each
    parts = [(len(a), model(a, b)[1].item()) for a, b in zip(x.split(128), y.split(128), strict=True)]
    return sum(size * loss for size, loss in parts) / n


def step_ratio(sizes: GPTConfig, ids: torch.Tensor, config, other) -> tuple[float, float]:
    """CPU milliseconds of a step of ``config``, and the median of its ratio to one of ``other``."""
    both = [Trainer(sizes, ids, ids, replace(c, device="cpu"), None, None) for c in (config, other)]
    times = []
    for _ in range(PAIRS + 3):  # the first ones make what is made once
        pair = []
        for run in both:
            start = time.process_time()
            run.update()
            run.pending.clear()
            pair.append(time.process_time() - start)
        times.append(pair)
    times = times[3:]
    return 1e3 * statistics.median(a for a, _ in times), statistics.median(a / b for a, b in times)


def main():
    torch.set_num_threads(1)
    text = load_shakespeare()
    tokenizer = CharTokenizer(text)
    train_ids, valid_ids = split(tokenizer.encode(text))
    sizes = GPTConfig(vocab_size=tokenizer.vocab_size, **PRESETS["cpu"].model)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"goal": GOAL, "recipes": {}}
    record["versions"] = {"torch": str(torch.__version__), "python": platform.python_version()}
    record["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, 1 thread, float32"

    def keep():
        RECORD.parent.mkdir(parents=True, exist_ok=True)
        RECORD.write_text(json.dumps(record, indent=1) + "\n")

    for seed in SEEDS:
        for name, config in RECIPES.items():
            entry = record["recipes"].setdefault(name, {"steps": config.max_steps, "loss": {}})
            if entry["steps"] != config.max_steps:
                raise ValueError(
                    f"{RECORD} has {name!r} with {entry['steps']} steps, not {config.max_steps}: delete it"
                )
            if "step_ratio" not in entry:
                entry["ms"], entry["step_ratio"] = step_ratio(sizes, train_ids, config, PRESETS["cpu"].train)
            if str(seed) not in entry["loss"]:
                # Only the end counts: the evaluations on the way are left out.
                run = replace(config, seed=seed, device="cpu", eval_every=config.max_steps, eval_batches=1)
                model = train(sizes, train_ids, valid_ids, run, progress=False).model
                entry["loss"][str(seed)] = whole_loss(model.eval(), valid_ids)
            print(f"{name}, seed {seed}: {entry['loss'][str(seed)]:.4f}", flush=True)
            keep()


if __name__ == "__main__":
    main()
