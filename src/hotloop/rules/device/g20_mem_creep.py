"""Memory grows from step to step, or the code keeps each step's graph alive.

Looks at: the memory held by tensors, and by the process, over time; sums and lists of losses in the
    training loop.
Says so when: a loss that was not detached is added up or kept in a list (a note); or tensors, or
    the process while losses are kept so, took ever more memory, 100 MB (a note) or 1 GB (a warning)
    in all.
Stays silent when: memory stays, and losses are kept with .item() or .detach().
Remedy: total += loss.detach(), or .item() where the device is the CPU.
Numbers: bitwise the same.
Seen: examples/planted/kept_losses.py.
Source: thresholds of TraceML's memory creep; https://docs.pytorch.org/docs/stable/notes/faq.html
    ("My model reports cuda runtime error(2): out of memory")
"""

from __future__ import annotations

import ast
from statistics import median
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.syntax import ProjectCode, calls, dotted, parse, running

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["RULE"]

NOTE, WARN = 100e6, 1e9  # bytes
FEWEST = 3  # readings in each third


def judge(case: Case) -> Finding | None:
    """Look at the code and at the allocated memory."""
    places = keeps(parse(case.sources))
    grown = growth(case.readings.get("allocated_bytes", ()))
    of_process = growth(case.readings.get("rss_bytes", ())) if places else 0.0
    if not places and grown < NOTE:
        return None
    claim = "the loop keeps losses with their graphs"
    if grown >= NOTE:
        claim = f"tensors take ever more memory: {bytes_(grown)} in {case.steps.count:,} steps"
    elif of_process >= NOTE:
        grown = of_process
        claim += f", and the process grows: {bytes_(grown)} in {case.steps.count:,} steps"
    return Finding(
        claim=claim,
        severity="warn" if grown >= WARN else "note",
        known="measured" if grown >= NOTE else "read",
        places=places,
        remedies=[code_edit("add up loss.detach(), and read the sum at the end")],
    )


def growth(readings: Sequence[float]) -> float:
    """Return the bytes of steady growth over thirds of the readings, without the first quarter."""
    used = [reading for reading in readings if reading]
    used = used[len(used) // 4 :]
    third = len(used) // 3
    if third < FEWEST:
        return 0.0
    medians = [median(used[third * number : third * (number + 1)]) for number in range(3)]
    return medians[2] - medians[0] if medians[0] < medians[1] < medians[2] else 0.0


def keeps(code: ProjectCode) -> list[SourceLocation]:
    """Return where a loss that backward was called on is summed or appended without detaching."""
    nodes = list(running(code, evaluation=False))
    losses = {
        dotted(call.func).removesuffix(".backward")
        for call in calls((node for _, node in nodes), "backward")
    } - {""}  # (a + b).backward()
    return [
        module.place(node)
        for module, node in nodes
        if (
            isinstance(node, ast.AugAssign)
            and dotted(node.value) in losses
            and dotted(node.target) not in losses
        )
        or (
            isinstance(node, ast.Call)
            and dotted(node.func).endswith(".append")
            and node.args
            and dotted(node.args[0]) in losses
        )
    ]


RULE = Rule(
    title="Memory grows from step to step",
    judge=judge,
    needs=(Needs.STEPS,),
    weight=3,
    numerics="bitwise",
)
