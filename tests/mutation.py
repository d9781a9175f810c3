"""What the checker is tried on: right models and wrong ones, as cases that can be judged in a process of their own.

``make mutation`` judges every case, prints the table of id × planting × verdict and writes ``bugs/verdicts.json``.
"""

import json
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import torch
from variants.mutants import DESIGNS, MUTANTS, VARIANTS, text

from tiny_gpt import bugs
from tiny_gpt.bugs import planting

SMALL = {"vocab_size": 37, "block_size": 16, "n_layer": 2, "n_head": 4, "n_embd": 24, "dropout": 0.0, "bias": True}
OTHER = {"vocab_size": 53, "block_size": 20, "n_layer": 3, "n_head": 3, "n_embd": 30, "dropout": 0.0, "bias": True}


@dataclass(frozen=True)
class Case:
    """A model to judge: what it is, how it is built, and the ids that the checker should report first."""

    name: str
    build: Callable[[], tuple[type, type]]
    wanted: tuple[str, ...] = ()
    seed: int = 0
    sizes: tuple[tuple[str, object], ...] = tuple(SMALL.items())

    def __str__(self) -> str:
        return self.name

    def at(self, seed: int, sizes: dict) -> "Case":
        """The same model at other sizes, with other random numbers."""
        name = f"{self.name}-C{sizes['n_embd']}-seed{seed}"
        return Case(name, self.build, self.wanted, seed, tuple(sizes.items()))


@dataclass(frozen=True)
class Build:
    """How a case is built, as data that travels to another process: the catalogue's (id, way) pairs, or a variant."""

    planted: tuple[tuple[str, int], ...] = ()
    variant: str = ""
    mutant: int = -1

    def __call__(self):
        if self.mutant >= 0:
            return MUTANTS[self.mutant].build()
        if self.variant:
            return planting.run(text(self.variant), self.variant)
        return planting.build(*(bugs.CATALOGUE[id].plantings[way] for id, way in self.planted))


RIGHT = (Case("model", Build()), *(Case(name, Build(variant=name)) for name in (*VARIANTS, *DESIGNS)))
PLANTED = tuple(
    Case(f"{bug.id}-{way.name}", Build(planted=((bug.id, i),)), (bug.id,))
    for bug in bugs.CATALOGUE.values()
    for i, way in enumerate(bug.plantings)
)
IN_VARIANTS = tuple(Case(f"{m.id}-{m.variant}-{m.name}", Build(mutant=i), (m.id,)) for i, m in enumerate(MUTANTS))

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
    return Case(words, Build(planted=planted), tuple(id for id, _ in planted))


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
        report = _check_here(*case.build(), seed=case.seed, sizes=dict(case.sizes))
    finally:  # some models under test change global state on purpose
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_grad_enabled(True)
    return [finding.id for finding in report.findings]


def processes() -> ProcessPoolExecutor:
    """A worker a core."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))


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
    with processes() as pool:
        for case, found in zip(ALL, pool.map(judge, ALL), strict=True):
            record["found"][case.name] = found[:6]
            mark = "" if right(case, found) else "✗"
            print(f"| {case} | {', '.join(case.wanted)} | {', '.join(found[:6])} | {mark} |", flush=True)
    good = sum(right(case, record["found"][case.name]) for case in ALL)
    print(f"\n{good} of {len(ALL)} as wanted")
    bugs.VERDICTS.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
