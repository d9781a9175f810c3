"""The whole model: every probe in order, and which findings are causes and which only follow."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from . import contract, generation, initial, losses
from .anatomy import Anatomy, dissect
from .report import Finding, Report
from .settings import Settings
from .subject import B, Stop, Subject, T, TookTooLong, Written, crash, outputs, said
from .trace import Trace, recorded


def check_whole(subject: Subject) -> Report:
    """Run every probe. What the reader's code raises becomes a finding; nothing is raised."""
    report = Report(getattr(subject.Model, "__name__", "the model"))
    settings = Settings()
    probes = Probes(subject, report)
    try:
        probes.run()
    except Stop as stop:
        if stop.finding is None:
            report.unwritten.append("the model")
        else:
            probes.add(stop.finding)
    except TookTooLong as late:
        probes.add(crash(late, f"while its {probes.doing} was checked" if probes.doing else "the check was not over"))
    finally:
        settings.restore()
    report.findings = sort_out(report.findings)
    return report


class Probes:
    """The probes in their order, each guarded."""

    def __init__(self, subject: Subject, report: Report):
        self.subject, self.report = subject, report
        self.anatomy: Anatomy | None = None
        self.trace: Trace | None = None
        self.doing = ""

    def add(self, finding: Finding) -> None:
        if not any(known.id == finding.id for known in self.report.findings):
            self.report.findings.append(finding)

    def found(self, id: str, evidence: str, where: str = "") -> None:
        self.add(Finding(id, evidence, where))

    def note(self, words: str) -> None:
        if words not in self.report.notes:
            self.report.notes.append(words)

    def has(self, *ids: str) -> bool:
        return any(finding.id in ids for finding in self.report.findings)

    def guarded(self, name: str, probe: Callable[..., None], *args: object) -> None:
        """Run one probe; an error in the reader's code is a finding, one part not written a remark."""
        settings = Settings()
        self.doing = name
        try:
            probe(*args)
            self.report.checked.append(name)
        except NotImplementedError:
            self.report.unwritten.append(name)
        except Stop:
            raise
        except (Exception, SystemExit) as error:
            found = crash(error, f"while its {name} was checked")
            if found.where or isinstance(error, SystemExit):
                self.add(found)
            else:  # none of the reader's lines is to blame
                self.note(f"{name} could not be checked: {said(error)}")
        finally:
            self.unchanged(settings, f"when {name} was checked")

    def unchanged(self, settings: Settings, when: str) -> None:
        for change in settings.changes():
            self.found("global-state", f"{when}, the code changed the {change}")
        settings.restore()

    def run(self) -> None:
        subject = self.subject
        settings = Settings()
        self.config()
        model = self.first_build()
        self.unchanged(settings, "while the model was built")
        if self.has("global-state"):
            return  # all numbers below would be in doubt
        self.first_forward(model)
        self.guarded("inner steps", self.dissected)
        self.guarded("future, batch, lengths", self.strangers)
        self.guarded("loss", losses.probe, self)
        self.guarded("gradients", contract.gradients, self)
        self.guarded("initial weights", initial.probe, self)
        self.guarded("dropout", contract.dropout, self)
        self.guarded("limits of the config", contract.limits, self)
        self.guarded("device and precision", contract.device_and_dtype, self)
        self.guarded("saving and loading", contract.state_dict, self)
        if generation.written(subject.Model):
            self.guarded("generation", generation.probe, self)
        else:
            self.report.unwritten.append("generate")
        if hasattr(subject.Model, "configure_optimizers"):
            self.guarded("optimiser", contract.optimizer, self)

    # --- Beginning ------------------------------------------------------------------------------------------

    def config(self) -> None:
        subject = self.subject
        try:
            subject.config()
        except (Exception, SystemExit) as error:
            if isinstance(error, TypeError) and "unexpected keyword" in str(error):
                raise Stop(Finding("config-wrong", said(error))) from None
            raise Stop(crash(error, "while the config was made")) from None

    def first_build(self) -> Written:
        try:
            model = self.subject.build()
        except NotImplementedError:
            raise Stop(None) from None
        except (Exception, SystemExit) as error:
            raise Stop(crash(error, "while the model was built")) from None
        if not isinstance(model, nn.Module):
            raise Stop(Finding("returns-wrong", f"the class gives a {type(model).__name__}, not an nn.Module"))
        if type(model).forward is nn.Module.forward:
            raise Stop(None)
        return model

    def first_forward(self, model: Written) -> None:
        """Shapes and types of what forward returns, with targets and without."""
        subject, V = self.subject, self.subject.sizes["vocab_size"]
        model.eval()
        try:
            result = model(subject.ids, subject.targets)
        except NotImplementedError:
            raise Stop(None) from None
        except (Exception, SystemExit) as error:
            raise Stop(self._failed(model, error)) from None
        if result is None:
            raise Stop(None)
        if not list(model.parameters()):  # asked only now: what is not written yet has none either
            raise Stop(Finding("blocks-unregistered", "model.parameters() is empty"))
        self.returned = result
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
            self.found("returns-wrong", f"the loss is {_kind(loss)}, not a tensor that can go backward")
        if logits.shape[:2] != (B, T) or logits.dim() != 3 or logits.size(-1) < V:
            raise Stop(
                Finding("logits-shape", f"for ids {(B, T)} the logits are {tuple(logits.shape)}, not {(B, T, V)}")
            )
        if isinstance(loss, Tensor) and loss.dim() > 0:
            self.found("loss-reduction", f"the loss has the shape {tuple(loss.shape)}, where one number is asked for")
        try:
            bare = model(subject.ids)
        except (Exception, SystemExit) as error:
            self.add(crash(error, "without targets"))
            return
        if not (isinstance(bare, tuple | list) and len(bare) >= 2):
            self.found("returns-wrong", f"without targets, forward returns {_kind(bare)}, not (logits, None)")
            raise Stop(self.report.findings.pop())
        if bare[1] is not None:
            self.found("returns-wrong", f"without targets, the loss is {_kind(bare[1])}, not None")
        if bare[0].dim() != 3 or len(bare[0]) != B or bare[0].size(1) not in (1, T) or bare[0].size(-1) < V:
            self.found("logits-shape", f"without targets the logits are {tuple(bare[0].shape)}, not {(B, T, V)}")

    def _failed(self, model: Written, error: BaseException) -> Finding:
        """forward fails at T below the context. At other lengths too?"""
        for length in (self.subject.sizes["block_size"], 8, 6, 4, 2):
            ids = self.subject.tokens(B, length, 3)
            try:
                model(ids, ids)
            except (Exception, SystemExit):
                continue
            seen = f"a text of {length} positions passes, one of {T} does not: {said(error)}"
            return Finding("mask-stale", seen, _line(error))
        return crash(error, f"forward on ids of shape {(B, T)}")

    # --- Inside -------------------------------------------------------------------------------------------------

    def dissected(self) -> None:
        """Follow what the loud model computes, step by step."""
        subject = self.subject
        anatomy = None
        for dtype in (torch.float64, torch.float32):
            model = subject.loud().to(dtype)
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
        self.anatomy, self.trace = anatomy, trace
        for finding in anatomy.judged.findings:
            self.add(finding)
        for note in anatomy.judged.notes:
            self.note(note)

    # --- Outside ------------------------------------------------------------------------------------------------

    def strangers(self) -> None:
        """Later tokens, other rows, other lengths and earlier calls must leave the logits alone."""
        subject, V = self.subject, self.subject.sizes["vocab_size"]
        model, ids = subject.loud(), subject.ids
        before = outputs(model, ids, ids)
        if not before.isfinite().all():
            self.found(
                "not-finite", f"{int((~before.isfinite()).sum())} of {before.numel()} logits are NaN or infinite"
            )
            return
        scale = float(before.abs().max())
        again = outputs(model, ids, ids)
        if not _close(before, again, scale):
            self.found("state-kept", f"the same ids twice give logits that differ by {_gap(before, again):.2g}")
            return
        self._future(model, ids, before, scale, V)
        alone = torch.cat([outputs(model, row[None], row[None]) for row in ids])
        if not _close(before, alone, scale):
            self.found(
                "batch-leak",
                f"a text alone and in a batch of {B} gives logits that differ by {_gap(before, alone):.2g}",
            )
        self._lengths(model, scale)

    def _future(self, model: Written, ids: Tensor, before: Tensor, scale: float, V: int) -> None:
        reach, worst = 0, (0.0, 0, 0)
        for t in range(1, T):
            other = ids.clone()
            other[:, t] = (other[:, t] + 1) % V
            moved = (outputs(model, other, other) - before)[:, :t].abs().amax((0, 2))  # (t,)
            if not (moved <= 1e-4 * scale).all():
                first = int((~(moved <= 1e-4 * scale)).nonzero()[0])
                reach = max(reach, t - first)
                worst = max(worst, (float(moved.nan_to_num(nan=float("inf")).max()), t, int(moved.argmax())))
        if reach:
            by, t, position = worst
            self.found("future-leak", f"changing token {t} changed the logits at position {position} by {by:.2g}")
            if self.anatomy is None or not self.anatomy.layers:
                near = reach <= self.subject.sizes["n_layer"]  # one too many in each of the layers
                self.found("mask-sees-next" if near else "mask-missing", f"positions see up to {reach} ahead")

    def _lengths(self, model: Written, scale: float) -> None:
        """Prefixes agree with the whole, in any order of calls, up to the full context."""
        subject, N = self.subject, self.subject.sizes["block_size"]
        long = subject.tokens(2, N, 4)
        fresh = subject.loud()
        try:
            whole = outputs(fresh, long, long)
        except Exception as error:
            self.found(
                "mask-stale", f"{T} positions pass, {N} do not, though the context is {N}: {said(error)}", _line(error)
            )
            return
        for length in (N, 5, N - 1, 1, N):
            part = long[:, :length]
            try:
                logits = outputs(model, part, part)
            except Exception as error:
                self.found("mask-stale", f"after other lengths, {length} positions fail: {said(error)}", _line(error))
                return
            if logits.shape != whole[:, :length].shape or not _close(logits, whole[:, :length], scale):
                gap = _gap(logits, whole[:, :length]) if logits.shape == whole[:, :length].shape else float("nan")
                if self.has("future-leak"):
                    return
                self.found(
                    "prefix-differs", f"the first {length} of {N} tokens alone give logits that differ by {gap:.2g}"
                )
                return


def _line(error: BaseException) -> str:
    return crash(error, "").where


def _kind(thing: object) -> str:
    if isinstance(thing, Tensor):
        return f"a tensor of shape {tuple(thing.shape)}"
    return "None" if thing is None else f"a {type(thing).__name__}"


def _gap(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max())


def _close(a: Tensor, b: Tensor, scale: float) -> bool:
    return bool((a - b).abs().max() <= 1e-4 * scale)


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


def sort_out(findings: list[Finding]) -> list[Finding]:
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
