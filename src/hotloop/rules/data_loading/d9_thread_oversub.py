"""More threads compute than there are cores, and each waits for the others.

Looks at: torch's threads times the processes, against affinity and cgroup quota; throttled periods.
Says so when: there are more than 1.5 threads per core. Critical where the CPU trains: a step waits
    for its slowest thread at each operator.
Stays silent when: the cores are unknown.
Remedy: as many threads as cores, divided by the processes, or the number that was fastest when
    several were tried.
Numbers: rounding: sums are split over the threads in another way.
Seen: examples/slow/overthreaded_cpu.
Source: TECHNIQUES: one spin-waiting thread too many cost 30x on 2 cores (torch 2.13); 1.5 is ours.
"""

import math

from hotloop.core.units import many
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option
from hotloop.rules.tried import of_technique

__all__ = ["RULE"]

TOO_MANY = 1.5  # threads per core


def judge(case: Case) -> Finding | None:
    """Count threads against cores."""
    cores, threads = case.hardware.cores, case.process.threads
    if cores is None or threads is None or threads * case.process.world <= TOO_MANY * cores:
        return None
    best = of_technique(case, "threads")
    fit = max(1, math.floor(cores / case.process.world))
    if best is not None and best.count is not None and best.outcome == "gain":
        fit = best.count
    throttled = case.process.throttled
    return Finding(
        claim=f"{threads * case.process.world} threads compute on {many(cores, 'core')}",
        severity="warn" if case.on_gpu else "critical",
        places=case.process.thread_places[:1],
        evidence={
            "threads": f"{threads} x {case.process.world} processes",
            **({"throttled periods": f"{throttled:.0%}"} if throttled else {}),
        },
        remedies=[
            option("no more threads than there are cores", technique="threads"),
            Remedy(text=f"torch.set_num_threads({fit}), or OMP_NUM_THREADS={fit} before starting"),
        ],
    )


RULE = Rule(
    title="More threads than cores",
    judge=judge,
    needs=(Needs.STEPS,),
    numerics="rounding",
    known="proved",
    experiment="threads",
    by_host=True,
)
