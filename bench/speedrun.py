"""How much sooner a better recipe arrives: trains the `cpu` model by several recipes, three seeds each.

Writes book/assets/runs/speedrun.json after every run and leaves out the runs that are there already, so it may be
stopped and started again: OMP_NUM_THREADS=1 python bench/speedrun.py. Delete the file to measure anew. Losses are on
the whole validation split, cut into windows. Times: each recipe runs in turn with nanoGPT's, a hundredth of the one
and then a hundredth of the other, whole runs, in one process; the ratio is that of their sums, so that other programs
on the machine slow both. Evaluations are not counted.
"""

import json
import os
import platform
import time
from dataclasses import replace
from pathlib import Path

import torch

from tiny_gpt import GPTConfig, TinyGPT
from tiny_gpt.data import CharTokenizer, load_shakespeare, split
from tiny_gpt.train import PRESETS, Trainer, whole_loss

RECORD = Path(__file__).parents[1] / "book" / "assets" / "runs" / "speedrun.json"
SEEDS = (1337, 1338, 1339)
GOAL = 1.88  # nats, what nanoGPT's README gives for this model
TURNS = 100

FAST = PRESETS["cpu-fast"].train
SLOW = PRESETS["cpu"].train
RECIPES = {
    "cpu-fast": FAST,
    "AdamW in place of Muon, learning rate 4e-3": replace(FAST, optimizer="adamw", learning_rate=4e-3),
    "AdamW in place of Muon, learning rate 1e-3": replace(FAST, optimizer="adamw", learning_rate=1e-3),
    "learning rate 4e-3": replace(FAST, learning_rate=4e-3),
    "cosine down to a tenth": replace(FAST, schedule="cosine", min_lr=FAST.learning_rate / 10),
    "warm-up of 100 steps": replace(FAST, warmup_steps=100),
}


def race(sizes: GPTConfig, ids: torch.Tensor, *plans) -> tuple[list[TinyGPT], list[float]]:
    """The models that each plan trains, in eval mode, and the seconds that their updates took, run in turn."""
    runs = [Trainer(sizes, ids, ids, replace(plan, device="cpu"), None, None) for plan in plans]
    seconds = [0.0 for _ in runs]
    for turn in range(1, TURNS + 1):
        for i, run in enumerate(runs):
            start = time.perf_counter()
            while run.step < turn * run.config.max_steps // TURNS:
                run.update()
                run.pending.clear()
            seconds[i] += time.perf_counter() - start
    return [run.model.eval() for run in runs], seconds


def main():
    torch.set_num_threads(1)
    text = load_shakespeare()
    tokenizer = CharTokenizer(text)
    train_ids, valid_ids = split(tokenizer.encode(text))
    sizes = GPTConfig(vocab_size=tokenizer.vocab_size, **PRESETS["cpu"].model)
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {"goal": GOAL, "recipes": {}}
    record["versions"] = {"torch": str(torch.__version__), "python": platform.python_version()}
    record["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, 1 thread, float32"
    base = record["recipes"].setdefault("nanoGPT's", {"steps": SLOW.max_steps, "loss": {}})
    for name, config in RECIPES.items():
        for seed in map(str, SEEDS):
            entry = record["recipes"].setdefault(name, {"steps": config.max_steps, "loss": {}, "time": {}})
            if entry["steps"] != config.max_steps:
                raise ValueError(
                    f"{RECORD} has {name!r} with {entry['steps']} steps, not {config.max_steps}: delete it"
                )
            if seed not in entry["loss"]:
                fast, slow = (replace(plan, seed=int(seed)) for plan in (config, SLOW))
                # The base need not be trained again for the other recipes: a tenth of its run tells how long it takes.
                short = replace(slow, max_steps=SLOW.max_steps if name == "cpu-fast" else SLOW.max_steps // 10)
                models, (seconds, of_base) = race(sizes, train_ids, fast, short)
                entry["loss"][seed] = whole_loss(models[0], valid_ids)
                entry["time"][seed] = seconds / (of_base * SLOW.max_steps / short.max_steps)
                if name == "cpu-fast":
                    entry["seconds"] = {**entry.get("seconds", {}), seed: [seconds, of_base]}
                    base["loss"][seed] = whole_loss(models[1], valid_ids)
            print(
                f"{name}, seed {seed}: {entry['loss'][seed]:.4f} in {entry['time'][seed]:.2f} of the time", flush=True
            )
            RECORD.parent.mkdir(parents=True, exist_ok=True)
            RECORD.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
