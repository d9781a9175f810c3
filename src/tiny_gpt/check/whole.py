"""The whole model: every probe, in order."""

from collections.abc import Callable

from . import contract, end_to_end, generation, independence, initial, inside, interface, losses
from .probes import Probes
from .ranking import ranked
from .report import Report
from .settings import Settings
from .subject import Stop, Subject, TookTooLong, crash

# What is checked, in this order, once a model has been built and has given logits. Later probes use what the earlier
# ones found out about the inside.
PROBES: tuple[tuple[str, Callable[[Probes], None]], ...] = (
    ("inner steps", inside.probe),
    ("future, batch, lengths", independence.probe),
    ("loss", losses.probe),
    ("gradients", contract.gradients),
    ("initial weights", initial.probe),
    ("dropout", contract.dropout),
    ("limits of the config", contract.limits),
    ("device and precision", contract.device_and_dtype),
    ("saving and loading", contract.state_dict),
    ("generation", generation.probe),
    ("optimiser", contract.optimizer),
    ("whole model", end_to_end.probe),
)


def check_whole(subject: Subject) -> Report:
    """Run every probe. What the reader's code raises becomes a finding; nothing is raised."""
    report = Report(getattr(subject.Model, "__name__", "the model"))
    settings = Settings()
    probes = Probes(subject, report)
    try:
        _run(probes)
    except Stop as stop:
        if stop.finding is None:
            report.unwritten.append("the model")
        else:
            probes.add(stop.finding)
    except TookTooLong as late:
        probes.add(crash(late, f"while its {probes.doing} was checked" if probes.doing else "the check was not over"))
    finally:
        settings.restore()
    report.findings = ranked(report.findings)
    return report


def _run(probes: Probes) -> None:
    Model, settings = probes.subject.Model, Settings()
    interface.config(probes)
    model = interface.first_build(probes)
    probes.unchanged(settings, "while the model was built")
    if probes.has("global-state"):
        return  # every number below would be in doubt
    interface.first_forward(probes, model)
    for name, probe in PROBES:
        if name == "generation" and not generation.written(Model):
            probes.report.unwritten.append("generate")
        elif name != "optimiser" or hasattr(Model, "configure_optimizers"):
            probes.guarded(name, probe)
