"""Compiled code is compiled again in mid-run, or breaks into pieces.

Looks at: Dynamo's graphs, those made after step 20, graph breaks and their reasons, and torch's
    warnings of its limit.
Says so when: a graph was made after step 20 or the limit was hit (a warning), or a graph breaks (a
    note).
Stays silent when: nothing is compiled, or what is compiled stays.
Remedy: torch.compile(dynamic=True) or mark_dynamic, padding to few lengths; take the named call out
    of the compiled part.
Numbers: rounding.
Seen: examples/planted/compiled_lengths.py.
Source: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html; tlparse
"""

from hotloop.core.units import duration
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.idioms import compiling
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]

LIMITS = ("recompile_limit", "cache_size_limit")


def judge(case: Case) -> Finding | None:
    """Read Dynamo's counters."""
    process = case.process
    limit = any(text in warning for warning in process.warnings for text in LIMITS)
    if not process.graphs or not (process.late_graphs or process.graph_breaks or limit):
        return None
    if limit:
        claim = "torch.compile hit its limit of graphs and runs the rest uncompiled"
    elif process.late_graphs:
        claim = f"{process.late_graphs} of {process.graphs} graphs were compiled after step 20"
    else:
        claim = f"{process.graph_breaks} breaks cut compiled code into {process.graphs} graphs"
    seconds = max(process.compile_seconds, case.row("compile"))
    return Finding(
        claim=claim,
        severity="warn" if limit or process.late_graphs else "note",
        places=compiling(parse(case.sources)),
        evidence={
            "compiling": duration(seconds),
            **{f"break {number}": why for number, why in enumerate(process.break_reasons[:3], 1)},
        },
        remedies=[
            Remedy(text="torch.compile(model, dynamic=True) where only lengths differ"),
            code_edit("pad batches to a few lengths"),
        ],
    )


RULE = Rule(
    title="Compiled code is compiled again and again",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=2,
    numerics="rounding",
)
