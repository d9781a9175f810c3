"""What the checker is tried on: right models and wrong ones, as cases that can be judged in a process of their own.

``make mutation`` judges every case, prints the table of id × planting × verdict and writes ``bugs/verdicts.json``.
What was judged once is judged again only when the checker, the model or torch has changed.
"""

import hashlib
import json
import os
import shutil
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import torch
from variants.mutants import DESIGNS, MUTANTS, VARIANTS, text

from tiny_gpt import bugs, check, files
from tiny_gpt.bugs import planting

VERDICTS = Path(__file__).parent.parent / "_build" / "verdicts"
SMALL = {"vocab_size": 37, "block_size": 16, "n_layer": 2, "n_head": 4, "n_embd": 24, "dropout": 0.0, "bias": True}
OTHER = {"vocab_size": 53, "block_size": 20, "n_layer": 3, "n_head": 3, "n_embd": 30, "dropout": 0.0, "bias": True}


@dataclass(frozen=True)
class Source:
    """The source of a model to judge, as data that travels to another process: plantings, a variant, or a mutant."""

    planted: tuple[tuple[str, int], ...] = ()  # the catalogue's (id, way) pairs
    variant: str = ""
    mutant: int = -1

    def text(self) -> str:
        if self.mutant >= 0:
            return MUTANTS[self.mutant].text()
        if self.variant:
            return text(self.variant)
        return planting.combined(*(bugs.CATALOGUE[id].plantings[way] for id, way in self.planted))


@dataclass(frozen=True)
class Case:
    """A model to judge: its source, and the ids that the checker should report first."""

    name: str
    source: Source
    wanted: tuple[str, ...] = ()
    seed: int = 0
    sizes: tuple[tuple[str, object], ...] = tuple(SMALL.items())

    def __str__(self) -> str:
        return self.name

    def at(self, seed: int, sizes: dict) -> "Case":
        """The same model at other sizes, with other random numbers."""
        name = f"{self.name}-C{sizes['n_embd']}-seed{seed}"
        return Case(name, self.source, self.wanted, seed, tuple(sizes.items()))


RIGHT = (Case("model", Source()), *(Case(name, Source(variant=name)) for name in (*VARIANTS, *DESIGNS)))
PLANTED = tuple(
    Case(f"{bug.id}-{way.name}", Source(planted=((bug.id, i),)), (bug.id,))
    for bug in bugs.CATALOGUE.values()
    for i, way in enumerate(bug.plantings)
)
IN_VARIANTS = tuple(Case(f"{m.id}-{m.variant}-{m.name}", Source(mutant=i), (m.id,)) for i, m in enumerate(MUTANTS))

# Two mistakes at once. Neither hides the other: what one breaks is not where the other one shows.
PAIRED = """
    mask-missing/0+untied/0 scale-missing/0+norm-post/0 heads-merge-mixed/0+final-norm-missing/0
    activation-missing/0+head-bias/0 init-wrong-std/0+head-bias/1 generate-temperature/0+untied/1
    mask-sees-next/0+generate-mode/0 loss-shifted-twice/0+untied/0 scale-by-width/0+ffn-width/0
    scale-missing/0+dropout-in-eval/1 norm-shared/1+generate-length/1 position-missing/0+init-bias/1
    blocks-shared/1+loss-reduction/0 qkv-shared/0+bias-ignored/1 out-projection-missing/0+activation-wrong/0
    embedding-scaled/0+generate-no-crop/0 untied/0+decay-on-norms/0 generate-grad/0+generate-length/0
    norm-missing/0+context-unchecked/0 tied-by-copy/1+residual-missing/0 mask-soft/0+generate-not-random/0
    softmax-axis/0+loss-ignore-index/0 heads-ignored/0+generate-batch/1 position-constant/0+global-state/0
    norm-rms/0+device-assumed/0 generate-mutates-prompt/0+ffn-width/1 mask-after-softmax/0+residual-doubled/0
    heads-split-mixed/0+generate-top-k-overflow/0 blocks-skipped/0+loss-detached/0
    branches-parallel/0+returns-wrong/2 norm-on-stream/0+loss-reduction/1 ffn-width/0+decay-missing/0
    loss-on-inputs/0+generate-wrong-window/1 norm-post/0+untied/0 activation-wrong/1+generate-temperature-zero/0
    residual-doubled/0+loss-after-softmax/0 scale-wrong/0+generate-top-k/0 norm-on-stream/1+scale-missing/0
"""


def pair(words: str) -> Case:
    """A case with two bugs, from "id/way+id/way"."""
    planted = tuple((id, int(way)) for id, way in (one.split("/") for one in words.split("+")))
    return Case(words, Source(planted=planted), tuple(id for id, _ in planted))


PAIRS = tuple(pair(words) for words in PAIRED.split())

# The same at other sizes and with other random numbers: half of the right models, and a sample of the wrong ones.
ELSEWHERE = (
    *(case.at(seed=1 + i % 3, sizes=OTHER) for i, case in enumerate(RIGHT[::2])),
    *(case.at(seed=1 + i % 3, sizes=OTHER) for i, case in enumerate(PLANTED[::14])),
)


def judge(case: Case) -> list[str]:
    """The ids that the checker reports, in its order."""
    from tiny_gpt.check import _check_here

    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():  # as a reader has them
            warnings.resetwarnings()
            Model, Config = planting.run(case.source.text(), case.name)
            report = _check_here(Model, Config, seed=case.seed, sizes=dict(case.sizes))
    finally:  # some models under test change global state on purpose
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(True)
    return [finding.id for finding in report.findings]


@cache
def checker() -> str:
    """A hash of all that a verdict depends on, save the case: the checker's own files, and torch."""
    found = hashlib.sha256(f"{torch.__version__} {sys.version}".encode())
    for path in sorted([Path(__file__), Path(planting.__file__), *Path(check.__file__).parent.rglob("*")]):
        if path.suffix in (".py", ".toml"):
            found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def verdict(case: Case) -> list[str]:
    """What ``judge`` says, remembered in ``_build/verdicts``."""
    key = hashlib.sha256(repr((case.source.text(), case.seed, case.sizes)).encode()).hexdigest()
    kept = VERDICTS / checker() / key
    if kept.exists():
        return kept.read_text().split()
    found = judge(case)
    kept.parent.mkdir(parents=True, exist_ok=True)
    for old in VERDICTS.iterdir():
        if old != kept.parent:  # the verdicts of another checker
            shutil.rmtree(old, ignore_errors=True)
    files.write_beside(kept, lambda file: file.write(" ".join(found).encode()))
    return found


def right(case: Case, found: list[str]) -> bool:
    """Whether this is the verdict that the case should get: nothing, its id first, or both ids of a pair."""
    if len(case.wanted) == 2:
        return set(case.wanted) <= set(found)
    return found[:1] == list(case.wanted)


ALL = (*RIGHT, *PLANTED, *IN_VARIANTS, *PAIRS, *ELSEWHERE)


def main() -> None:
    """Judge every case, print the table, and keep what was found for the book's catalogue."""
    record = {"torch": torch.__version__, "found": {}}
    print("| case | wanted | found | |\n|:--|:--|:--|:--|")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for case, found in zip(ALL, pool.map(verdict, ALL), strict=True):
            record["found"][case.name] = found[:6]
            mark = "" if right(case, found) else "✗"
            print(f"| {case} | {', '.join(case.wanted)} | {', '.join(found[:6])} | {mark} |", flush=True)
    good = sum(right(case, record["found"][case.name]) for case in ALL)
    print(f"\n{good} of {len(ALL)} as wanted")
    bugs.VERDICTS.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
