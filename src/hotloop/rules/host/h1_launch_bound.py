"""The GPU has finished each step before the host has prepared the next: launching is the limit.

Looks at: whether the event at the end of a step had passed when the host came back to the loop, how
    busy the main thread was, and how busy the GPU.
Says so when: the GPU was done first in 80 % of the sampled steps while the main thread computed
    for 80 % of the time. The cost is the GPU's idle share of the steps: from 3 % a note, from
    15 % critical; without readings of the GPU it is a warning without a figure.
Stays silent when: the loop waits for data (D1), or the GPU is behind.
Remedy: fewer and larger kernels: compilation, CUDA graphs, a fused optimizer, larger micro batches.
Numbers: rounding; a larger batch is another training run.
Seen: examples/gpu/many_small_kernels.py on an H200.
Source: thresholds 3 and 15 % of kernel launch time from XProf; the run-ahead probe is hotloop's.
"""

from typing import Any

from hotloop.core.case.case import IN_STEP
from hotloop.rules.base import WARN, Case, Finding, Needs, Remedy, Rule, by_share, option
from hotloop.rules.gpu_idle import idle_seconds
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

STARVED, BUSY = 0.80, 0.80
NOTE, CRITICAL = 0.03, 0.15  # XProf's kernel launch time: moderate and high
REMEDIES = (
    option("compilation puts many small kernels into few", technique="compile"),
    option("a fused optimizer updates all weights in one kernel", technique="fused-adamw"),
    Remedy(text="a larger micro batch makes larger kernels"),
)


def judge(case: Case) -> Finding | None:
    """Compare the waits of the GPU with those of the host."""
    starved, busy = case.steps.starved, case.steps.main_cpu
    if starved is None or starved < STARVED or busy is None or busy < BUSY:
        return None
    if case.share("data wait") >= WARN:
        return None
    fields: dict[str, Any] = {
        "claim": f"in {starved:.0%} of the steps the GPU was done before the host: kernels are "
        "launched more slowly than they run",
        "evidence": {"main thread": f"computing {busy:.0%} of the step time"},
        "remedies": [remedy for remedy in REMEDIES if remedy.technique not in _used(case)],
    }
    if (idle := idle_seconds(case, *IN_STEP)) is None:
        return Finding(**fields, severity="warn")
    severity = by_share(case.part(idle), warn=NOTE, critical=CRITICAL)
    return costing(case, idle, least=NOTE, severity=severity, **fields)


def _used(case: Case) -> set[str]:
    """Return the techniques that the script uses already."""
    is_used = {
        "fused-adamw": all(group.fused for one in case.optimizers for group in one.groups),
        "compile": any(model.compiled for model in case.models),
    }
    return {technique for technique, used in is_used.items() if used}


RULE = Rule(
    title="The GPU waits for the host to launch its kernels",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    numerics="rounding",
)
