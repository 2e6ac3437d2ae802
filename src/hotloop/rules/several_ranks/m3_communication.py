"""Exchanging gradients takes a noticeable part of each step.

Looks at: the time of communication that no computation hides, per process.
Says so when: in the process that waits least it is 10 % of the step time (critical from 20 %). What
    the others wait for that one is M4's.
Stays silent when: it is less, there is one process, or a process left nothing: the others may
    have waited for that one; and of hotloop train on GPUs, where only the host's clock was read.
Remedy: no_sync under accumulation, larger micro batches, gradients in bfloat16, fewer processes; of
    hotloop train a larger batch.
Numbers: rounding; a larger batch is another training run.
Seen: examples/planted/parallel_defaults.py.
Source: 10 % of the TensorBoard profiler plugin, 20 % of gpuprof.
"""

from statistics import median

from hotloop.rules.base import WARN, Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.costs import costing, in_steps

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Compare communication with the step."""
    ranks = case.process.ranks
    exchange, step = ranks.get("communication"), ranks.get("step")
    if not exchange or not step or case.process.ranked:
        return None
    share = min(exchange) / median(step)
    if share < WARN:
        return None
    return costing(
        case,
        in_steps(case, min(1.0, share)),
        claim=f"exchanging gradients takes {share:.0%} of a step, in which nothing is computed",
        evidence={"processes": str(case.process.world)},
        remedies=[
            Remedy(text="a larger training.batch_size: more is computed for each exchange"),
            Remedy(text="fewer processes, or a faster connection between them"),
        ]
        if case.by_hotloop
        else [
            Remedy(text="accumulate under model.no_sync(), so that gradients travel less often"),
            Remedy(text="a larger micro batch"),
        ],
    )


RULE = Rule(
    title="Steps wait for gradients from other processes",
    judge=judge,
    needs=(Needs.STEPS, Needs.RANKS),
    numerics="rounding",
)
