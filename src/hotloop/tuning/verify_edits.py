"""Runs a script with the edits of `suggest` for some steps and reads their effect back."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import HotloopError
from hotloop.core.storage.files import make_folder, write_file
from hotloop.core.storage.rundir import RunDir
from hotloop.diagnosis.diff import Suggested, suggest
from hotloop.diagnosis.script import judge_again
from hotloop.process import child
from hotloop.tuning.script_target import environment, last_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.plan import Plan, Use

__all__ = ["verify_edits"]

_STEPS: Final = 8  # enough for an effect, not for a time
_SECONDS: Final = 30.0  # of training, at most

_Choice = dict[str, Any]


def _computes(case: Case, choice: _Choice) -> bool:
    del choice
    return any(model.compute == "bfloat16" for model in case.models if model.role == "train")


def _is_fused(case: Case, choice: _Choice) -> bool:
    del choice
    return any(group.fused for optimizer in case.optimizers for group in optimizer.groups)


def _has_workers(case: Case, choice: _Choice) -> bool:
    return any(loader.workers == choice.get("count", 2) for loader in case.training_loaders)


def _is_compiled(case: Case, choice: _Choice) -> bool:
    del choice
    return bool(case.process.graphs) or any(model.compiled for model in case.models)


def _switch(name: str, value: str) -> Callable[[Case, _Choice], bool]:
    return lambda case, choice: case.process.switches.get(name) == value


# How a case shows that an edit is in effect; for other edits it only shows that the script runs.
_READ: Final[Mapping[str, Callable[[Case, _Choice], bool]]] = {
    "autocast-bf16": _computes,
    "compile": _is_compiled,
    "cudnn-benchmark": _switch("cudnn.benchmark", "True"),
    "fused-adamw": _is_fused,
    "loader-workers": _has_workers,
    "matmul-onednn": _switch("float32_matmul_precision", "medium"),
    "tf32": _switch("float32_matmul_precision", "high"),
    "threads": lambda case, choice: case.process.threads == choice.get("count"),
}


@dataclass(frozen=True, slots=True)
class _Script:
    """A script and its arguments."""

    path: Path
    args: Sequence[str]


def verify_edits(path: Path, args: Sequence[str], plan: Plan) -> Suggested:
    """Return the edits of a plan that are in effect in a run; notes name the others.

    All edits are run together and, if that fails, each by itself. A copy of the script, beside
    links to the files of its folder, is started in the current folder and trains for some steps
    under the doctor. Raises UsageError if the script cannot be read.
    """
    script = _Script(path, args)
    placed = [use for use in plan.techniques if suggest(path, _only(plan, [use])).diff]
    why = _faults(script, plan, placed)
    if why and len(placed) > 1:
        why = {use: fault for use in placed for fault in _faults(script, plan, [use]).values()}
        rest = [use for use in placed if use not in why]
        why |= (
            _faults(script, plan, rest)
            if why
            else dict.fromkeys(placed, "it fails beside the others")
        )
    suggested = suggest(path, _only(plan, [use for use in plan.techniques if use not in why]))
    left_out = [f"{use.id}: left out, for {fault}" for use, fault in why.items()]
    unseen = [
        f"{use.id}: the script runs with it; no figure shows its effect"
        for use in placed
        if use not in why and use.id not in _READ
    ]
    return replace(suggested, notes=(*suggested.notes, *left_out, *unseen))


def _only(plan: Plan, uses: Sequence[Use]) -> Plan:
    return replace(plan, techniques=tuple(uses))


def _faults(script: _Script, plan: Plan, uses: Sequence[Use]) -> dict[Use, str]:
    """Run the script with the edits of `uses`; return the uses without effect, and why."""
    if not uses:
        return {}
    case = _run(script, suggest(script.path, _only(plan, uses)).source)
    if isinstance(case, str):
        return dict.fromkeys(uses, case)
    return {
        use: "it has no effect there"
        for use in uses
        if use.id in _READ and not _READ[use.id](case, dict(use.choice))
    }


def _run(script: _Script, source: bytes) -> Case | str:
    """Return the doctor's case of an edited script, or why it fails."""
    with tempfile.TemporaryDirectory(prefix="hotloop-suggest-") as name:
        beside, out = Path(name, "script"), Path(name, "run")
        make_folder(beside)
        for neighbour in script.path.resolve().parent.iterdir():
            if neighbour.name != script.path.name:
                os.symlink(neighbour, beside / neighbour.name)
        edited = beside / script.path.name
        write_file(edited, source)
        words = ("--steps", str(_STEPS), "--time", f"{_SECONDS:g}", "--out", str(out))
        outcome = child.run(
            (sys.executable, "-m", "hotloop", "doctor", *words, str(edited), *script.args),
            limits=child.ProcessLimits(seconds=2 * _SECONDS + 120),
            environment=environment(),
        )
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
        if not RunDir(out).case.exists():
            return f"the script could not be run: {outcome.reason or last_words(outcome)}"
        try:
            case, _ = judge_again(out)
        except HotloopError as error:
            return f"what was seen of it cannot be read: {error}"
    if case.raised is not None:
        return f"the script fails with it: {case.raised.said}"
    return case if case.steps.count else "the script made no step"
