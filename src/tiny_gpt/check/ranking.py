"""The order of findings: causes before symptoms, and what merely follows folded under its cause."""

from .report import Finding

# What else each cause shows. A finding whose cause is there too is folded under it.
MIXING = {  # what may follow when numbers come from the wrong places
    "future-leak", "batch-leak", "prefix-differs", "not-finite", "state-kept", "mask-stale", "mask-missing",
    "dtype-nan", "generate-wrong-window", "generate-batch", "generate-wrong-position", "generate-not-random", "crashes",
    "mask-sees-next",
}  # fmt: skip

FOLLOWS = {
    **{id: {"future-leak", "prefix-differs"} for id in ("mask-missing", "mask-sees-next", "mask-reversed", "mask-soft",
        "mask-after-softmax", "mask-hides-past", "softmax-missing", "attention-differs")},
    "mask-excludes-self": {"not-finite", "dtype-nan", "generate-not-random", "crashes", "future-leak",
                           "prefix-differs"},
    "mask-reversed": {"crashes", "future-leak", "prefix-differs", "not-finite", "dtype-nan"},
    "heads-split-mixed": MIXING, "heads-merge-mixed": MIXING, "softmax-axis": MIXING, "norm-axis": MIXING,
    "batch-leak": {"attention-differs", "future-leak", "prefix-differs", "not-finite", "generate-batch",
                   "generate-not-random", "generate-wrong-window", "generate-wrong-position", "crashes", "mask-stale"},
    "position-wrong-axis": {"batch-leak", "prefix-differs", "position-misplaced", "crashes", "mask-stale",
                            "generate-batch", "generate-not-random", "generate-wrong-window", "gradient-missing"},
    "untied": {"init-default", "state-dict-broken"}, "tied-by-copy": {"untied", "state-dict-broken"},
    "norm-shared": {"gradient-missing"}, "qkv-shared": {"gradient-missing"},
    "heads-ignored": {"heads-not-divisible", "gradient-missing"}, "heads-share-weights": {"gradient-missing"},
    "blocks-shared": {"gradient-missing", "state-dict-broken"},
    "generate-mutates-prompt": {"generate-length", "generate-temperature-zero"},
    "blocks-unregistered": {"gradient-missing", "dropout-in-eval", "state-dict-broken", "device-assumed",
                            "dtype-nan", "init-default", "parameters-missing", "bias-ignored"},
    "blocks-skipped": {"gradient-missing"}, "branch-unused": {"gradient-missing"},
    "final-norm-missing": {"gradient-missing"}, "norm-missing": {"gradient-missing"},
    "position-missing": {"gradient-missing"}, "position-constant": {"gradient-missing"},
    "out-projection-missing": {"gradient-missing"},
    "logits-are-probabilities": {"loss-after-softmax", "loss-wrong", "generate-not-random", "generate-temperature",
                                 "generate-top-k"},
    "generate-wrong-window": {"generate-not-random", "generate-temperature", "generate-temperature-zero",
                              "generate-top-k"},
    "position-misplaced": {"position-missing", "prefix-differs", "generate-wrong-window"},
    "parameters-missing": {"position-missing"},
    "dropout-in-eval": {"state-kept", "future-leak", "batch-leak", "prefix-differs", "generate-wrong-window"},
    "loss-detached": {"gradient-missing", "inplace-breaks-grad"},
    "returns-wrong": {"loss-detached"},
    "device-assumed": set(), "mask-stale": {"prefix-differs", "future-leak", "generate-no-crop", "crashes"},
    "generate-length": {"generate-wrong-window"},
}  # fmt: skip
SYMPTOMS = ("future-leak", "prefix-differs", "batch-leak", "not-finite", "state-kept", "gradient-missing", "crashes")


def ranked(findings: list[Finding]) -> list[Finding]:
    """Causes first, in the order of their weight; what merely follows folded under the first that explains it."""
    ids = {finding.id for finding in findings}
    causes = []
    for finding in findings:
        owner = next((f for f in findings if f is not finding and finding.id in FOLLOWS.get(f.id, ()) and
                      not (f.id in SYMPTOMS and f.id not in ids)), None)  # fmt: skip
        if (
            owner is not None
            and finding.id not in FOLLOWS.get(finding.id, ())
            and owner.id not in FOLLOWS.get(finding.id, ())
        ):
            owner.follows.append(f"{finding.id}: {finding.evidence}")
        else:
            causes.append(finding)
    return sorted(causes, key=lambda finding: finding.id in SYMPTOMS)
