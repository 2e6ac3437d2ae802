"""Python's garbage collector stops the training, again and again or for long.

Looks at: the time of its collections, and the longest; gc.collect() in the loop is H5's.
Says so when: it takes 1 % of the wall time, or one collection of the oldest generation took as long
    as ten steps.
Stays silent when: it takes less.
Remedy: gc.freeze() before the first step, which takes what exists out of its view.
Numbers: bitwise the same.
Seen: examples/slow/accelerate/evaluation_bound.py, examples/blind/credit_mlp.
Source: https://docs.python.org/3/library/gc.html#gc.freeze; threshold as gpuprof's; measured here:
    a full collection with torch loaded takes 0.29 s, 10 us after a freeze (page of gc-freeze).
"""

import ast

from hotloop.core.units import moment
from hotloop.rules.base import Case, Finding, Needs, Rule, option
from hotloop.rules.support.costs import costing, seconds_at, site
from hotloop.rules.support.syntax import parse, running

__all__ = ["RULE"]

LEAST = 0.01  # of the wall time
LONG = 10  # steps that one collection takes
SHORTEST = 0.002  # of the wall time: below it, even long stalls are not reported


def judge(case: Case) -> Finding | None:
    """Compare the collector's time with the wall time and with a step."""
    process, step = case.process, case.step_time
    collections = [
        site(module, node)
        for module, node in running(parse(case.sources), classes=case.classes)
        if isinstance(node, ast.Call) and module.name(node) == "gc.collect"
    ]
    seconds = max(0.0, process.gc_seconds - seconds_at(case, collections))
    share = case.part(seconds)
    long = step is not None and process.gc_full and process.gc_longest >= LONG * step.median
    return costing(
        case,
        seconds,
        least=SHORTEST if long else LEAST,
        claim=f"the garbage collector takes {share:.1%} of the time, at most "
        f"{moment(process.gc_longest)} at once",
        evidence={"full collections": str(process.gc_full)},
        remedies=[
            option(
                "gc.collect(); gc.freeze() before the loop",
                technique="gc-freeze",
            )
        ],
    )


RULE = Rule(
    title="Python's garbage collector stops the training",
    judge=judge,
    needs=(Needs.STEPS,),
    numerics="bitwise",
    only_measured=True,
    by_host=True,
)
