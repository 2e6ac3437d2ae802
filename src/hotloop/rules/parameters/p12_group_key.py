"""A parameter group has a key that its optimizer does not read, spelt almost like one it reads.

Looks at: the numbers in parameter groups, the optimizer's own options, and the project's code.
Says so when: the spelling of such a key matches an option's by 0.8 (difflib), the project writes it
    into a group and names it nowhere else, the optimizer is one of torch's, and the option has
    another value in the group.
Stays silent when: a library made the groups, or the key is named elsewhere or is a factor for a
    schedule (weight_decay_mult, lr_scale).
Remedy: spell it as the optimizer does.
Numbers: training: the value is in effect from then on.
Seen: examples/planted/decay_rate.py; benchmarks/field/truth/uer_chnsenti.json.
Source: torch.optim.Optimizer.add_param_group keeps any key; the cutoff is ours.
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
FACTORS = frozenset({"mult", "multiplier", "scale", "factor", "init", "initial"})  # of a schedule


def judge(case: Case) -> Finding | None:
    """Report the first such key."""
    for optimizer in case.optimizers:
        for group in optimizer.groups:
            for key, value in group.unknown.items():
                if FACTORS.intersection(key.split("_")):
                    continue
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
    """Return where the project writes a key into a parameter group; nowhere if it may read it."""
    places = []
    for module in parse(case.sources).modules:
        uses = 0
        for node in module.nodes:
            if isinstance(node, ast.Dict):
                keys = {one.value: one for one in node.keys if isinstance(one, ast.Constant)}
                if key in keys and PARAMETERS in keys:
                    places.append(module.place(keys[key]))
                    uses -= 1
            elif isinstance(node, ast.Constant):
                uses += isinstance(node.value, str) and key in node.value
            elif isinstance(node, ast.arg | ast.keyword):
                uses += node.arg == key
        if uses:
            return []
    return places


RULE = Rule(
    title="A parameter group's key is read by nobody",
    judge=judge,
    needs=(Needs.OPTIMIZER, Needs.CODE),
    kind="correctness",
    known="proved",
    weight=2,
    numerics="training",
)
