"""The GPU's memory is almost full: a longer batch ends the run.

Looks at: the peak of memory held by tensors, against the GPU's.
Says so when: it is 92 % (a warning) or 97 % (critical). Before a run: the forecast of the memory is
    too much for the device, or a first step ran out of memory.
Stays silent when: it is less, or unknown.
Remedy: a smaller micro batch with more accumulation, bfloat16, activation checkpointing.
Numbers: bitwise with activation checkpointing; rounding with the others.
Seen: golden cases only; not yet seen on a GPU.
Source: TraceML's and the TensorBoard profiler plugin's thresholds.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, PlannedRun, Remedy, Rule, option

__all__ = ["RULE"]

FULL, FULLER = 0.92, 0.97  # of the GPU memory


def judge(case: Case) -> Finding | None:
    """Compare the peak with the memory of the GPU."""
    peak, memory = case.process.allocator.get("peak"), case.hardware.memory_bytes
    if not peak or not memory or peak < FULL * memory:
        return None
    share = peak / memory
    return Finding(
        claim=f"tensors take {bytes_(peak)} of {bytes_(memory)}, {share:.0%} of the GPU",
        severity="critical" if share >= FULLER else "warn",
        remedies=[
            Remedy(
                text="half the micro batch and twice the accumulation "
                "(hotloop explain out-of-memory)"
            ),
            option(
                "compute activations again in the backward pass",
                technique="activation-checkpointing",
            ),
        ],
    )


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    memory, run = planned.memory, planned.settings
    if memory is None or run is None or (memory.halved is None and memory.advice is None):
        return None
    have = case.hardware.memory_bytes
    critical = memory.halved is not None or (have is not None and memory.peak_bytes > have)
    return Finding(
        claim=memory.halved or f"memory: {memory.sentence}",
        severity="critical" if critical else "warn",
        evidence={"advice": memory.advice} if memory.advice else {},
        remedies=[
            Remedy(
                text=f"training.accumulation={run.accumulation * 2} halves the micro batch, not "
                "the batch (hotloop explain out-of-memory)"
            ),
            option(
                "--with activation-checkpointing:mode=selective computes again what it frees",
                technique="activation-checkpointing",
            ),
        ],
    )


RULE = Rule(
    title="The GPU's memory is almost full",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    before_run=_before_run,
    weight=2,
    numerics="rounding",
)
