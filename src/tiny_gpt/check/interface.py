"""The first probes: can the config and the model be made, and what does forward return?"""

from torch import Tensor, nn

from .probes import Probes
from .report import Finding
from .subject import NO_CONFIG, B, Stop, T, Written, crash, located, said, takes_config


def config(probes: Probes) -> None:
    subject = probes.subject
    try:
        subject.config()
    except (Exception, SystemExit) as error:
        if isinstance(error, TypeError) and "unexpected keyword" in str(error):
            raise Stop(Finding("config-wrong", said(error))) from None
        raise Stop(crash(error, "while the config was made")) from None


def first_build(probes: Probes) -> Written:
    if not takes_config(probes.subject.Model):
        raise Stop(Finding("config-wrong", NO_CONFIG))
    try:
        model = probes.subject.build()
    except NotImplementedError:
        raise Stop(None) from None
    except (Exception, SystemExit) as error:
        raise Stop(crash(error, "while the model was built")) from None
    if not isinstance(model, nn.Module):
        raise Stop(Finding("returns-wrong", f"the class gives a {type(model).__name__}, not an nn.Module"))
    if type(model).forward is nn.Module.forward:
        raise Stop(None)
    return model


def first_forward(probes: Probes, model: Written) -> None:
    """Shapes and types of what forward returns, with targets and without."""
    subject, V = probes.subject, probes.subject.sizes["vocab_size"]
    model.eval()
    try:
        result = model(subject.ids, subject.targets)
    except NotImplementedError:
        raise Stop(None) from None
    except (Exception, SystemExit) as error:
        raise Stop(_forward_error(probes, model, error)) from None
    if result is None:
        raise Stop(None)
    if not list(model.parameters()):  # asked only now: what is not written yet has none either
        raise Stop(Finding("blocks-unregistered", "model.parameters() is empty"))
    if not (isinstance(result, tuple | list) and len(result) >= 2):
        raise Stop(Finding("returns-wrong", f"with targets, forward returns {_kind(result)}, not (logits, loss)"))
    logits, loss = result[:2]
    if not isinstance(logits, Tensor):
        raise Stop(Finding("returns-wrong", f"the first thing that forward returns is {_kind(logits)}, not logits"))
    if logits.dim() == 0 or (isinstance(loss, Tensor) and loss.dim() > 1 and logits.dim() <= 1):
        raise Stop(Finding("returns-wrong", "the logits and the loss come back in the wrong order"))
    if loss is None:
        raise Stop(Finding("returns-wrong", "with targets, the loss is None"))
    if not isinstance(loss, Tensor):
        probes.found("returns-wrong", f"the loss is {_kind(loss)}, not a tensor that can go backward")
    if logits.shape[:2] != (B, T) or logits.dim() != 3 or logits.size(-1) < V:
        raise Stop(Finding("logits-shape", f"for ids {(B, T)} the logits are {tuple(logits.shape)}, not {(B, T, V)}"))
    if isinstance(loss, Tensor) and loss.dim() > 0:
        probes.found("loss-reduction", f"the loss has the shape {tuple(loss.shape)}, where one number is asked for")
    try:
        bare = model(subject.ids)
    except (Exception, SystemExit) as error:
        probes.add(crash(error, "without targets"))
        return
    if not (isinstance(bare, tuple | list) and len(bare) >= 2):
        probes.found("returns-wrong", f"without targets, forward returns {_kind(bare)}, not (logits, None)")
        raise Stop(probes.report.findings.pop())
    if bare[1] is not None:
        probes.found("returns-wrong", f"without targets, the loss is {_kind(bare[1])}, not None")
    if bare[0].dim() != 3 or len(bare[0]) != B or bare[0].size(1) not in (1, T) or bare[0].size(-1) < V:
        probes.found("logits-shape", f"without targets the logits are {tuple(bare[0].shape)}, not {(B, T, V)}")


def _forward_error(probes: Probes, model: Written, error: BaseException) -> Finding:
    """forward fails at T below the context. At other lengths too?"""
    for length in (probes.subject.sizes["block_size"], 8, 6, 4, 2):
        ids = probes.subject.tokens(B, length, 3)
        try:
            model(ids, ids)
        except (Exception, SystemExit):
            continue
        seen = f"a text of {length} positions passes, one of {T} does not: {said(error)}"
        return Finding("mask-stale", seen, located(error))
    return crash(error, f"forward on ids of shape {(B, T)}")


def _kind(thing: object) -> str:
    if isinstance(thing, Tensor):
        return f"a tensor of shape {tuple(thing.shape)}"
    return "None" if thing is None else f"a {type(thing).__name__}"
