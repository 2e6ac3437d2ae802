"""Runs a script with the changes of `suggest` for some steps and reads their effect back."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import HotloopError, UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.diagnosis.diff import Suggested, suggest
from hotloop.diagnosis.script import judge_again
from hotloop.process import child
from hotloop.tuning.edited_copy import edited_copy
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


def _recomputes(case: Case, choice: _Choice) -> bool:
    recomputes = any(model.checkpointed for model in case.models if model.role == "train")
    return recomputes == (choice.get("mode") != "off")


def _attends(case: Case, choice: _Choice) -> bool:
    del choice
    return any(attention.kind == "sdpa" for model in case.models for attention in model.attention)


def _switch(name: str, value: str) -> Callable[[Case, _Choice], bool]:
    return lambda case, choice: case.process.switches.get(name) == value


# How a case shows that an edit is in effect; for other edits it only shows that the script runs.
_READ: Final[Mapping[str, Callable[[Case, _Choice], bool]]] = {
    "activation-checkpointing": _recomputes,
    "autocast-bf16": _computes,
    "compile": _is_compiled,
    "cudnn-benchmark": _switch("cudnn.benchmark", "True"),
    "fused-adamw": _is_fused,
    "loader-workers": _has_workers,
    "sdpa": _attends,
    "matmul-onednn": _switch("float32_matmul_precision", "medium"),
    "tf32": _switch("float32_matmul_precision", "high"),
    "threads": lambda case, choice: case.process.threads == choice.get("count"),
}


@dataclass(frozen=True, slots=True)
class _Trials:
    """A script with its arguments, a plan, and the cases of runs with parts of it."""

    path: Path
    args: Sequence[str]
    plan: Plan
    edit_defaults: bool
    seen: list[Case] = field(default_factory=list)

    def suggested(self, uses: Sequence[Use]) -> Suggested:
        """Return the changes of some of the plan's techniques."""
        plan = replace(self.plan, techniques=tuple(uses))
        return suggest(self.path, plan, self.args, edit_defaults=self.edit_defaults)

    def faults(self, uses: Sequence[Use]) -> dict[Use, str]:
        """Run the script with the changes of `uses`; return the uses without effect, and why."""
        if not uses:
            return {}
        case = _run(self.path, self.suggested(uses))
        if isinstance(case, str):
            return dict.fromkeys(uses, case)
        self.seen.append(case)
        return {
            use: "it has no effect there"
            for use in uses
            if use.id in _READ and not _READ[use.id](case, dict(use.choice))
        }


def verify_edits(
    path: Path, args: Sequence[str], plan: Plan, *, edit_defaults: bool = False
) -> Suggested:
    """Return the changes of a plan that are in effect in a run; notes name the others.

    All changes are run together and, if that fails, each by itself. A copy of the edited files,
    beside links to the others, is started in the current folder and trains for some steps under the
    doctor. Raises UsageError if the script cannot be read, or fails as it is.
    """
    trials = _Trials(path, args, plan, edit_defaults)
    placed = [use for use in plan.techniques if trials.suggested([use]).changes(args)]
    why = trials.faults(placed)
    if why and len(placed) > 1:
        together = why
        why = {use: fault for use in placed for fault in trials.faults([use]).values()}
        rest = [use for use in placed if use not in why]
        if why:
            why |= trials.faults(rest)
        else:
            why = {use: f"beside the others {fault}" for use, fault in together.items()}
    if placed and not trials.seen and isinstance(plain := _run(path, trials.suggested([])), str):
        raise UsageError(f"{path} fails without any change as well: {plain}; mend that first")
    suggested = trials.suggested([use for use in plan.techniques if use not in why])
    left_out = [f"{use.id}: left out, for {fault}" for use, fault in why.items()]
    unseen = [
        f"{use.id}: the script runs with it; no figure shows its effect"
        for use in placed
        if use not in why and use.id not in _READ
    ]
    return replace(
        suggested,
        notes=(*suggested.notes, *left_out, *unseen),
        least=_least_steps(trials.seen[-1]) if trials.seen else None,
        step=_step_seconds(trials.seen[-1]) if trials.seen else None,
    )


def _least_steps(case: Case) -> int | None:
    """Return how many steps a whole run makes at least: all, or those of the first epoch."""
    if case.total_steps is not None:
        return case.total_steps
    batches = [loader.batches for loader in case.training_loaders]
    known = [number for number in batches if number is not None]
    if not known or len(known) < len(batches):
        return None
    return int(min(known) / max(1.0, case.steps.backwards or 1.0))


def _step_seconds(case: Case) -> float | None:
    return None if case.step_time is None else case.step_time.median


def _run(script: Path, suggested: Suggested) -> Case | str:
    """Return the doctor's case of a script with changes, or why it fails."""
    with (
        tempfile.TemporaryDirectory(prefix="hotloop-seen-") as name,
        edited_copy(script, suggested) as edited,
    ):
        out = Path(name, "run")
        limits = ("--steps", str(_STEPS), "--time", f"{_SECONDS:g}", "--experiments", "0")
        words = (*limits, "--out", str(out))
        outcome = child.run(
            (sys.executable, "-m", "hotloop", "doctor", *words, str(edited), *suggested.args),
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
