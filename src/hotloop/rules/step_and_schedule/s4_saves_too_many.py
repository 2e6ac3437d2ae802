"""Full checkpoints are written far more often than a failure would need them.

Looks at: each file that torch.save and its like wrote: seconds, bytes, and what guards the line.
Says so when: three or more saves from one line take 5 % of the wall time, above all when they stand
    under "if it improved", where early training saves almost every epoch.
Stays silent when: there are few, or they are quick.
Remedy: save on a margin or after a time; keep the best weights in memory until then. Leave out of
    the file what is never trained.
Numbers: bitwise the same; only the files are fewer.
Seen: examples/slow/save_every_improvement.
Source: hotloop, from the five projects (hundreds of saves on improvements in the fourth digit).
    How many are needed: Young 1974, doi:10.1145/361147.361115, for one failure a day.
"""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.costs import costing
from hotloop.rules.support.syntax import Function, Module, calls, parse

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import Save

__all__ = ["RULE"]

FEWEST = 3
SHARE = 0.05  # of the wall time, as for checkpoints in general
BETWEEN_FAILURES = 86_400.0  # seconds
UNTRAINED = 0.5  # share of a file's bytes from which leaving them out pays


def judge(case: Case) -> Finding | None:
    """Compare the saves of the costliest line with the number that suffices."""
    by_place: dict[SourceLocation | None, list[Save]] = defaultdict(list)
    for save in case.saves:
        by_place[save.place].append(save)
    place, saves = max(by_place.items(), key=lambda item: sum(s.seconds for s in item[1]))
    if len(saves) < FEWEST:
        return None
    spent = sum(save.seconds for save in saves)
    # Young's first-order best interval between checkpoints: sqrt(2 x cost x time to failure).
    interval = math.sqrt(2 * spent / len(saves) * BETWEEN_FAILURES)
    enough = math.ceil(case.seconds / interval)
    when = _improvement(case, place) if place else None
    size = sum(save.bytes or 0 for save in saves)
    frozen = sum(save.frozen_bytes for save in saves)
    return costing(
        case,
        spent * max(0.0, 1 - enough / len(saves)),
        least=SHARE,
        claim=(
            f"{len(saves)} saves take {spent:.1f} s, {case.part(spent):.0%} of the wall time"
            + (", one at each improvement" if when else "")
        ),
        places=[location for location in (place, when) if location],
        evidence={
            "written": f"{size / 1e6:.0f} MB",
            **({"never trained": f"{frozen / 1e6:.0f} MB of them"} if frozen else {}),
            "wanted": f"one each {interval:.0f} s, for one failure a day",
        },
        remedies=_remedies(is_large=frozen > UNTRAINED * size),
    )


def _remedies(*, is_large: bool) -> list[Remedy]:
    less = code_edit(
        "save when it improves by a margin, or once in so many minutes; "
        "keep a copy of the best weights in memory until then"
    )
    smaller = code_edit("save only the parameters that are trained")
    return [smaller, less] if is_large else [less]


def _improvement(case: Case, place: SourceLocation) -> SourceLocation | None:
    """Return the "if it improved" test around the save at `place`, or around a call of it."""
    code = parse(case.sources)
    for module in code.modules:
        if module.path != place.file:
            continue
        call = next((c for c in calls(module.tree, "save") if c.lineno == place.line), None)
        above = idioms.ancestors(module.tree)
        node: ast.AST | None = call
        while node is not None and not isinstance(node, Function):
            if isinstance(node, ast.If) and "best" in ast.unparse(node.test):
                return module.place(node)
            node = above.get(node)
        if node is not None:
            return next(filter(None, (_guarded(m, node.name) for m in code.modules)), None)
    return None


def _guarded(module: Module, name: str) -> SourceLocation | None:
    for node in module.nodes:
        if (
            isinstance(node, ast.If)
            and "best" in ast.unparse(node.test)
            and any(next(calls(part, name), None) for part in node.body)
        ):
            return module.place(node)
    return None


RULE = Rule(
    title="Too many checkpoints",
    judge=judge,
    needs=(Needs.STEPS, Needs.SAVES),
    under="H8",
    weight=3,
    numerics="bitwise",
    experiment="saving",
)
