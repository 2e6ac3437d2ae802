"""The loop calls gc.collect, torch.cuda.empty_cache or torch.cuda.synchronize again and again.

Looks at: these calls in the code of the training and the evaluation loops, and their time.
Says so when: together they take 2 % of the wall time.
Stays silent when: they are rare enough to cost nothing, or there is no GPU for the CUDA ones: they
    return at once then.
Remedy: leave them out. empty_cache gives memory back that the next step asks for again, slowly.
Numbers: bitwise the same.
Seen: examples/planted/left_over.py.
Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-memory-management; one of the five
    projects recommends empty_cache in the loop.
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, seconds_at, site
from hotloop.rules.support.syntax import parse, running

__all__ = ["RULE"]

EXPLICIT = frozenset(
    {
        "gc.collect",
        "torch.cuda.empty_cache",
        "torch.cuda.synchronize",
        "torch.cuda.ipc_collect",
    }
)
METHODS = EXPLICIT | {name.rpartition(".")[2] for name in EXPLICIT}


def judge(case: Case) -> Finding | None:
    """Sum the time of such calls."""
    sites = [
        site(module, node)
        for module, node in running(parse(case.sources), classes=case.classes)
        if isinstance(node, ast.Call) and module.name(node) in EXPLICIT
    ]
    seconds = seconds_at(case, sites)
    names = ", ".join(dict.fromkeys(sync.method for sync in case.syncs if sync.method in METHODS))
    return costing(
        case,
        seconds,
        claim=f"{names or 'cleaning up in the loop'} takes {case.part(seconds):.0%} of the time",
        places=[call_site.place for call_site in sites if seconds_at(case, [call_site])],
        remedies=[
            code_edit("take the calls out of the loop: torch reuses memory"),
            code_edit("or make them once per epoch"),
        ],
    )


RULE = Rule(
    title="The loop empties caches or waits on purpose at every step",
    judge=judge,
    needs=(Needs.STEPS, Needs.CODE),
    under="H18",
    weight=3,
    numerics="bitwise",
    by_host=True,
)
