"""The clinic's patients: who is trained with which bug, on what, and what settles the diagnosis."""

from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]  # what is known of a patient, of JSON's types only

HEALTHY = "healthy"


@dataclass(frozen=True)
class Patient:
    """Who is to be trained: with which bug (or ``healthy``), in which way, on what; and what the doctor should know."""

    bug: str
    source: str  # "shakespeare", or a toy source with a known floor: "markov" or "copy"
    seed: int
    settles: str  # the test that would have settled it, or "" if what is seen for nothing does
    why: str  # one sentence: how the evidence leads to the cause
    planting: int = 0
    confusable: tuple[str, ...] = ()  # other diagnoses that the reader may take it for


PATIENTS = (
    Patient(
        HEALTHY,
        "shakespeare",
        1,
        "",
        "Both curves fall together, every test is clean: nothing is wrong, and saying so is a diagnosis too.",
        confusable=("scale-missing", "norm-post", "mask-soft"),
    ),
    Patient(
        "mask-missing",
        "shakespeare",
        2,
        "perturb",
        "The loss falls below anything that text allows, and a changed token moves the logits before it.",
        confusable=("loss-on-inputs", "mask-sees-next", "loss-shifted-twice"),
    ),
    Patient(
        "scale-missing",
        "shakespeare",
        3,
        "scale",
        "No loss curve shows this. The scores that enter the softmax are the bare dot products.",
        confusable=("scale-by-width", HEALTHY, "norm-post"),
    ),
    Patient(
        "mask-sees-next",
        "markov",
        4,
        "perturb",
        "The loss is below the source's entropy, which no honest model's is; one position before the change moves.",
        confusable=("mask-missing", "loss-on-inputs", "softmax-axis"),
    ),
    Patient(
        "untied",
        "shakespeare",
        5,
        "",
        "The parameter count is too large by exactly vocabulary times width: the head has a matrix of its own.",
        confusable=("ffn-width", "head-bias", HEALTHY),
    ),
    Patient(
        "residual-missing",
        "shakespeare",
        6,
        "silence",
        "With its branches silenced, a block must hand on what it got. This model hands on nothing of it.",
        confusable=("norm-post", "position-missing", "blocks-shared"),
    ),
    Patient(
        "heads-merge-mixed",
        "copy",
        7,
        "perturb",
        "It looks like a missing mask, but positions notice in steps: rows of the result are runs of positions.",
        confusable=("mask-missing", "mask-sees-next", "batch-leak"),
    ),
    Patient(
        "loss-after-softmax",
        "shakespeare",
        8,
        "",
        "The first loss is ln V to three digits and the curve hardly moves: the logits were squashed before.",
        confusable=("init-default", "loss-detached", "blocks-unregistered"),
    ),
    Patient(
        HEALTHY,
        "copy",
        9,
        "",
        "Half of the targets can only be guessed; the model reaches the floor and does not go below it.",
        confusable=("mask-missing", "position-missing", "loss-on-inputs"),
    ),
    Patient(
        "position-missing",
        "copy",
        10,
        "gradients",
        "The position table gets no gradient at all: nothing in the loss depends on it.",
        confusable=("blocks-shared", "residual-missing", HEALTHY),
    ),
    Patient(
        "norm-post",
        "shakespeare",
        11,
        "silence",
        "Silenced branches leave the stream changed: something normalises it on its way, which pre-norm never does.",
        confusable=("residual-missing", "final-norm-missing", HEALTHY),
    ),
    Patient(
        "blocks-shared",
        "shakespeare",
        12,
        "",
        "The parameter count is that of a one-layer model: all layers are the same block.",
        confusable=("blocks-unregistered", "ffn-width", "blocks-skipped"),
    ),
    Patient(
        "loss-shifted-twice",
        "shakespeare",
        13,
        "",
        "The loss stays near that of predicting two characters ahead, while mask, scale and gradients are all right.",
        confusable=("position-missing", "residual-missing", "loss-on-inputs"),
    ),
    Patient(
        "mask-after-softmax",
        "shakespeare",
        14,
        "perturb",
        "Every earlier position moves a little: the future is in the denominators. No row of P sums to one.",
        confusable=("mask-missing", "mask-soft", "softmax-axis"),
    ),
    Patient(
        "init-default",
        "shakespeare",
        15,
        "",
        "The first loss is far above ln V: PyTorch's own initialisation leaves embedding and logits too loud.",
        confusable=("loss-after-softmax", "loss-reduction", "blocks-unregistered"),
    ),
    Patient(
        "batch-leak",
        "shakespeare",
        16,
        "batch",
        "A row's logits change when another row of the batch does. Nothing else shows it.",
        confusable=(HEALTHY, "heads-split-mixed", "norm-axis"),
    ),
    Patient(
        "loss-on-inputs",
        "shakespeare",
        17,
        "",
        "The loss goes to nought while perturbation finds no leak: it is asked for a character that it can see.",
        confusable=("mask-missing", "mask-sees-next", "loss-shifted-twice"),
    ),
    Patient(
        "activation-missing",
        "shakespeare",
        18,
        "bend",
        "Double what goes into the feed-forward network, and exactly double comes out: there is no bend in it.",
        confusable=("activation-wrong", HEALTHY, "ffn-width"),
    ),
    Patient(
        "scale-by-width",
        "shakespeare",
        19,
        "scale",
        "The scores were divided by the root of the model's width, not of the head's: half as large as they should be.",
        confusable=("scale-missing", "scale-wrong", HEALTHY),
    ),
    Patient(
        "heads-split-mixed",
        "shakespeare",
        20,
        "perturb",
        "A leak in steps, not in a triangle: the heads were cut by view alone, so that their rows are not positions.",
        confusable=("mask-missing", "heads-merge-mixed", "batch-leak"),
    ),
    Patient(
        "blocks-unregistered",
        "shakespeare",
        21,
        "",
        "The parameter count is that of the embeddings alone: the blocks are in a plain list, and nothing trains them.",
        confusable=("blocks-shared", "blocks-skipped", "parameters-missing"),
    ),
    Patient(
        "softmax-axis",
        "shakespeare",
        22,
        "perturb",
        "In the heat map the columns sum to one, not the rows; and so the past depends on the future.",
        confusable=("mask-after-softmax", "mask-missing", "norm-axis"),
    ),
    Patient(
        HEALTHY,
        "markov",
        23,
        "",
        "It comes down to the source's entropy and stays there: nothing more can be learned from this source.",
        confusable=("mask-sees-next", "position-missing", "activation-missing"),
    ),
    Patient(
        "final-norm-missing",
        "shakespeare",
        24,
        "",
        "The count is short by one vector of the model's width, and the first loss sits nearer to ln V than it should.",
        planting=2,
        confusable=("norm-missing", "norm-post", HEALTHY),
    ),
    Patient(
        "residual-doubled",
        "shakespeare",
        25,
        "silence",
        "With its branches silenced the stream comes out larger than it went in, by a power of two.",
        confusable=("residual-missing", "norm-on-stream", HEALTHY),
    ),
)
