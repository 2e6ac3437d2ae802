"""The loop reads values from the GPU at every step, and the host waits until the GPU gets there.

Looks at: waits of .item(), .tolist(), .cpu(), .numpy(), print and comparisons on tensors of the
    GPU, timed, in the training loop and in evaluation.
Says so when: such places wait once per step or more, or in evaluation, and together for 2 % of the
    wall time. They cost no more than the GPU is idle, where that was read.
Stays silent when: the run is on the CPU, where reading a value costs nothing; or values are read
    every N steps.
Remedy: keep sums on the GPU and read them every N steps; .detach() what is kept.
Numbers: bitwise the same.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html ("Avoid unnecessary
    CPU-GPU synchronization"); 40-50 ms a step were lost so in one of the five projects.
"""

from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing

__all__ = ["RULE"]

READS = frozenset(
    {"item", "tolist", "cpu", "numpy", "array", "print", "format", "contains"}
    | {"bool", "int", "float", "index", "complex"}
)
SHOWN = 5


def judge(case: Case) -> Finding | None:
    """Sum the waits that recur at every step."""
    each = max(1, case.steps.count - 1)  # the last step may have been cut short
    waits = [
        sync
        for sync in case.syncs
        if sync.method in READS and (sync.calls >= each or sync.row == "evaluate")
    ]
    whole = sum(sync.seconds for sync in waits)
    # A place below that costs next to nothing, such as one of a compiler's first steps.
    waits = [sync for sync in waits if sync.seconds >= ABSTAIN * whole]
    waits.sort(key=lambda sync: -sync.seconds)
    waited = sum(sync.seconds for sync in waits)
    calls = sum(sync.per_step for sync in waits if sync.row != "evaluate")
    where = [f"{calls:.3g} times a step"] * bool(calls)
    where += ["in evaluation"] * any(sync.row == "evaluate" for sync in waits)
    return costing(
        case,
        waited,
        claim=f"the host waits for the GPU {' and '.join(where)}, {case.part(waited):.0%} of the "
        "time",
        places=list(dict.fromkeys(sync.place for sync in waits if sync.place))[:SHOWN],
        evidence={
            f".{sync.method}() {number}": f"{sync.calls:,} calls, {sync.seconds:.2f} s"
            for number, sync in enumerate(waits[:SHOWN], 1)
        },
        remedies=[code_edit("add losses and metrics up as tensors, and read them every 50 steps")],
    )


RULE = Rule(
    title="The host waits for the GPU at every step",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    under="H18",
    weight=3,
    numerics="bitwise",
    by_host=True,
)
