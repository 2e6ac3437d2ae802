"""Each step gets its memory from the system anew.

Looks at: the page faults of a step that read nothing from a disk, and what one costs on this
    machine.
Says so when: an experiment measured a gain of 3 % or more with freed memory kept by the process.
    Without an experiment, as a note, when they cost 10 % of the time.
Stays silent when: the C library is not glibc, or the technique is in effect.
Remedy: let malloc keep what is freed. The process holds the memory of its largest step until it
    ends, as it does on a GPU.
Numbers: bitwise the same.
Seen: examples/planted/returned_memory.py.
Source: hotloop; https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from hotloop.core.finding import ABSTAIN, WARN
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option
from hotloop.rules.support.costs import costing, in_steps
from hotloop.rules.support.page_faults import returned_memory

__all__ = ["ENVIRONMENT", "RULE"]

ENVIRONMENT = "MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1"  # the same as the technique


def judge(case: Case) -> Finding | None:
    """Take what the page faults of a step cost."""
    part = returned_memory(case)
    gains = [one.gain for one in case.experiments if one.name == "kept memory" and one.gain]
    if not part or case.process.page_faults is None or "kept-memory" in case.techniques:
        return None
    part = max((1 - 1 / gain for gain in gains), default=part)
    what = "each step gets its memory from the system anew," if gains else "page faults take"
    faults, seconds = case.process.page_faults, in_steps(case, part)
    return costing(
        case,
        seconds,
        least=ABSTAIN if gains else WARN,
        claim=f"{what} {case.part(seconds):.0%} of the time",
        evidence={"page faults": f"{faults:,.0f} a step"},
        remedies=[
            option("keep freed memory", technique="kept-memory"),
            Remedy(text=f"{ENVIRONMENT} before python, in the environment"),
        ],
    )


RULE = Rule(
    title="Freed memory goes back to the system",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="bitwise",
    experiment="kept memory",
    only_measured=True,
    by_host=True,
)
