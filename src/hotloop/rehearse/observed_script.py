"""Lets the doctor observe a script on a simulated card whose work takes time.

The times of the card are those of the model behind its rates (rehearse/kernel_model.py), from the
first optimizer step on: an evaluation before it is not waited for. What the rules on the GPU and
the host say is kept; no value, and so no fault in the training, can be seen here. The arguments of
the process are those of rehearse/process.py.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.core import codec
from hotloop.core.case.rehearsal import CardDiagnosis, CardFinding
from hotloop.core.storage import files
from hotloop.diagnosis.script import observe
from hotloop.nullcard.counts import take_time
from hotloop.observe.experiments import shielded_script
from hotloop.observe.when_to_stop import StopLimits
from hotloop.process import run_script
from hotloop.process.import_hooks import ImportHooks
from hotloop.rehearse import simulated_nvml
from hotloop.rehearse.prepared_torch import prepare

if TYPE_CHECKING:
    from hotloop.diagnosis.script import Observed

__all__ = ["ObservedRequest", "command", "main"]

# By their first letters: the GPU, the host, and copies to the GPU; but not the start, evaluations,
# saves and logs, of which a rehearsal shows nothing, and matrices of zeros (G41): all are here.
_RULES: Final = ("G", "H", "D15 ", "D16 ", "D17 ")
_LEFT_OUT: Final = ("H7 ", "H8 ", "H9 ", "H10 ", "H13 ", "H20 ", "H22 ", "G41 ")
_FOLDER: Final = "observed"  # below the scratch folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRequest:
    """What to observe, and for how long."""

    result: str  # path for the CardDiagnosis
    seconds: float  # of training, at most
    shielded: bool  # the script changes no file and reaches no other machine


def command(
    python: str, scratch: str, request: ObservedRequest, script: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that starts the process; `script` is what follows `python`."""
    argument = json.dumps(codec.to_json(request))
    return (python, "-c", run_script.starter(__name__), scratch, argument, *script)


def _prepare() -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    prepare()
    take_time(False)
    register_optimizer_step_post_hook(lambda *_: take_time(True))


def main(argv: list[str]) -> None:
    """Observe the script; does not return."""
    scratch, request = Path(argv[0]), codec.from_json(ObservedRequest, json.loads(argv[1]))
    if request.shielded:
        shielded_script.begin(scratch, argv[2:])
    ImportHooks().when("torch", _prepare)
    simulated_nvml.install()

    def keep(observed: Observed) -> None:
        found = [
            CardFinding(
                rule=one.rule,
                severity=one.severity,
                claim=one.claim,
                places=tuple(one.places),
                remedies=tuple(remedy.text for remedy in one.remedies),
            )
            for one in observed.diagnosis.findings
            if one.rule.startswith(_RULES) and not one.rule.startswith(_LEFT_OUT)
        ]
        raised = observed.case.raised
        judged = CardDiagnosis(
            findings=tuple(found),
            steps=observed.diagnosis.steps,
            raised=None if raised is None else raised.said,
        )
        files.write_json(Path(request.result), codec.to_json(judged))

    limits = StopLimits(seconds=request.seconds, patience=0.0)
    target = run_script.ScriptTarget.of(argv[2:])
    observe(target, limits, folder=scratch / _FOLDER, notify=keep)
