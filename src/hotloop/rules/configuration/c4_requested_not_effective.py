"""Something that the code or the configuration asks for is not in effect in the process.

Looks at: settings of known names (workers, batch size, accumulation, dtype, compile, fused,
    attention, checkpointing, pinning, packing) against what loaders, models and steps were.
Says so when: the two disagree. Before a run: a technique of the plan is refused, a batch is larger
    than the data, or training.patience is longer than the run.
Stays silent when: what is in effect is unknown, or nobody reads the key (C1).
Remedy: look where the value is lost; or take the setting out.
Numbers: nothing by itself.
Seen: examples/planted/asked_in_vain.py.
Source: four of the five projects (attention, compile, packing or workers asked for in vain).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, code_edit
from hotloop.rules.support.config_files import requested
from hotloop.rules.support.requested_effective import NAMES, in_effect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.planned_run import PlannedData, RunSettings

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare each requested setting with the effective one."""
    mismatches = [
        (setting, effective)
        for topic, names in NAMES.items()
        for setting in requested(case, names)
        if (effective := in_effect(case, topic, setting.value or "")) is not None
    ]
    if not mismatches:
        return None
    setting, effective = mismatches[0]
    return Finding(
        claim=f"{setting.key}={setting.value} is asked for and not in effect: {effective}",
        severity="warn",
        places=[setting.place for setting, _ in mismatches if setting.place],
        evidence={
            setting.key: f"{setting.value} asked; {effective}" for setting, effective in mismatches
        },
        remedies=[
            code_edit(f'follow "{setting.name}" from where it is read to where it should be used')
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Iterator[Finding]:
    run, data, time = planned.settings, planned.data, planned.time
    if run is None:
        return
    if data is not None and run.batch_size > data.samples:
        yield _large_batch(run, data)
    if run.patience is not None and time is not None and time.validations <= run.patience:
        yield Finding(
            claim=f"training.patience={run.patience} is not in effect: the run validates "
            f"{time.validations} times",
            severity="warn",
            remedies=[Remedy(text="validate more often: training.eval_every_steps")],
        )
    if run.refused:
        yield Finding(
            claim=f"asked for and refused here: {', '.join(run.refused)}",
            severity="note",
            evidence=run.refused,
        )


def _large_batch(run: RunSettings, data: PlannedData) -> Finding:
    shorter = "" if data.text is None else "a shorter model.context "
    return Finding(
        claim=f"training.batch_size={run.batch_size} is not in effect: the {data.noun} has "
        f"only {data.samples:,} {data.unit}, and every step has those",
        severity="warn",
        remedies=[Remedy(text=f"use more {data.noun}, {shorter}or a smaller training.batch_size")],
    )


RULE = Rule(
    title="A setting that was asked for is not in effect",
    judge=judge,
    needs=(Needs.STEPS,),
    before_run=_before_run,
    kind="correctness",
    known="proved",
)
