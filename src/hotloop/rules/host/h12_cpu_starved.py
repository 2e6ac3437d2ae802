"""The processor is taken away: by other processes, or by the container's quota.

Looks at: cores that other processes keep busy, and how often the cgroup's quota stopped this one.
Says so when: others keep half a core busy, or 5 % of the quota's periods were throttled. Before
    a run: others keep half a core busy now.
Stays silent when: neither is so. More threads than cores are another cause, and D9's.
Remedy: measure again when nothing else runs, ask for more cores, or, where torch computes with more
    threads than there are cores, set fewer of them.
Numbers: none; but times measured meanwhile hold only while it lasts.
Seen: examples/slow/accelerate/evaluation_bound.py, examples/slow/accelerate/pad_to_max.py.
Source: hotloop; https://docs.kernel.org/admin-guide/cgroup-v2.html (cpu.stat, nr_throttled)
"""

from hotloop.rules.base import Case, Finding, Remedy, Rule, option
from hotloop.rules.support.costs import CROWDED

__all__ = ["RULE"]

THROTTLED = 0.05  # of the periods


def judge(case: Case) -> Finding | None:
    """Look at the other processes and at the CPU quota."""
    busy, throttled = case.process.other_cores or 0.0, case.process.throttled or 0.0
    cores = "unknown" if case.hardware.cores is None else f"{case.hardware.cores:g}"
    because = []
    remedies = []
    if busy >= CROWDED:
        remedies.append(option("measure again when the other processes are done"))
        because.append(
            f"other processes keep {busy:.1f} cores busy (this one may use {cores}): times "
            "measured now hold only while they do"
        )
    if throttled >= THROTTLED:
        remedies.append(option("ask for more cores"))
        because.append(f"the quota of {cores} cores stopped it in {throttled:.0%} of all periods")
    if not because:
        return None
    switches = case.process.involuntary_switches
    evidence = {"involuntary switches": f"{switches:.0f}/s"} if switches else {}
    return Finding(
        claim="; ".join(because),
        severity="warn" if case.hardware.device == "cpu" else "note",
        evidence=evidence,
        remedies=[*remedies, *_fewer_threads(case)],
    )


def _fewer_threads(case: Case) -> list[Remedy]:
    """Return the technique if it has an effect: if there are more threads than cores."""
    threads, cores = case.process.threads, case.hardware.cores
    if threads is None or cores is None or threads <= max(1, int(cores)):
        return []
    text = "no more threads than there are cores"
    return [option(text, technique="threads")]


RULE = Rule(
    title="The processor is taken away from the training",
    judge=judge,
    before_run=lambda case, _: judge(case),
    kind="machine",
    by_host=True,
)
