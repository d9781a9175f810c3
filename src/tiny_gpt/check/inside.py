"""The model's inside: one forward pass is recorded and followed step by step."""

import torch

from .anatomy import dissect
from .probes import Probes
from .subject import B, T
from .trace import recorded


def probe(probes: Probes) -> None:
    """Follow what the amplified model computes, step by step."""
    subject = probes.subject
    anatomy = None
    for dtype in (torch.float64, torch.float32):
        model = subject.amplified().to(dtype)
        weights = list(model.parameters())
        try:
            with recorded(B, T, [subject.ids, subject.targets], weights) as trace:
                logits = model(subject.ids, subject.targets)[0]
        except Exception:
            if dtype is torch.float32:
                raise
            continue
        break
    with torch.no_grad():
        every = [*(w.detach() for w in weights), *(w.detach() for w in trace.strays)]
        anatomy = dissect(trace, logits.detach(), subject.ids, subject.sizes, every, len(weights))
    probes.anatomy, probes.trace = anatomy, trace
    for finding in anatomy.judged.findings:
        probes.add(finding)
    for note in anatomy.judged.notes:
        probes.note(note)
