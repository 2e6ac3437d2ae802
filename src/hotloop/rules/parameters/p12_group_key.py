"""A parameter group has a key that its optimizer does not read, spelt almost like one it reads.

Looks at: the numbers in parameter groups, the optimizer's own options, and the project's code.
Says so when: four fifths of the letters of such a key and of an option agree, in order, the project
    writes the key into a group and reads it nowhere, and the option has another value in the group.
Stays silent when: a library made the groups, or the code reads the key, as a schedule of its own
    does.
Remedy: spell it as the optimizer does.
Numbers: training: the value is in effect from then on.
Seen: examples/planted/decay_rate.py; benchmarks/field/truth/uer_chnsenti.json.
Source: torch.optim.Optimizer.add_param_group keeps any key; difflib's ratio, cutoff 0.8 ours.
"""

from __future__ import annotations

import ast
import difflib
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from hotloop.core.finding import SourceLocation

__all__ = ["RULE"]

LIKE = 0.8
PARAMETERS = "params"


def judge(case: Case) -> Finding | None:
    """Report the first such key."""
    for optimizer in case.optimizers:
        for group in optimizer.groups:
            for key, value in group.unknown.items():
                near = difflib.get_close_matches(key, group.options, n=1, cutoff=LIKE)
                places = _written(case, key) if near and group.options[near[0]] != value else []
                if not places:
                    continue
                meant, now = near[0], group.options[near[0]]
                return Finding(
                    claim=f"{key}={value:g} in a parameter group has no effect: {optimizer.name} "
                    f"reads {meant}, which is {now:g} there",
                    severity="warn",
                    places=places,
                    evidence={meant: f"{now:g}", key: f"{value:g}"},
                    remedies=[code_edit(f'call the key "{meant}"')],
                )
    return None


def _written(case: Case, key: str) -> list[SourceLocation]:
    """Return where the project writes a key into a parameter group; nowhere if it reads it."""
    places = []
    for module in parse(case.sources).modules:
        for node in module.nodes:
            if isinstance(node, ast.Dict):
                keys = {one.value: one for one in node.keys if isinstance(one, ast.Constant)}
                if key in keys and PARAMETERS in keys:
                    places.append(module.place(keys[key]))
            elif isinstance(node, ast.Subscript) and _is(node.slice, key):
                return []
            elif isinstance(node, ast.Call) and any(_is(one, key) for one in node.args[:1]):
                return []  # group.get(key), group.setdefault(key, …)
    return places


def _is(node: ast.expr, key: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == key


RULE = Rule(
    title="A parameter group's key is read by nobody",
    judge=judge,
    needs=(Needs.OPTIMIZER, Needs.CODE),
    kind="correctness",
    known="proved",
    weight=2,
    numerics="training",
)
