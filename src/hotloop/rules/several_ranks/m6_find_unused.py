"""DistributedDataParallel walks the graph at each step to find unused parameters: there are none.

Looks at: find_unused_parameters=True in the code, torch's own warning, and parameters that never
    got a gradient.
Says so when: it is on and every parameter gets its gradient.
Stays silent when: some do not, or it is off.
Remedy: find_unused_parameters=False, the default.
Numbers: bitwise the same.
Seen: examples/planted/parallel_defaults.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule
from hotloop.rules.support.syntax import parse

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Look for the argument, and for parameters that need it."""
    if any(model.dead or model.unused for model in case.models):
        return None
    warned = any("find_unused_parameters=True was" in text for text in case.process.warnings)
    places = [
        module.place(call)
        for module, call in parse(case.sources).calls("DistributedDataParallel", "DDP")
        if any(is_on(keyword) for keyword in call.keywords)
    ]
    if not warned and not places:
        return None
    return Finding(
        claim="DistributedDataParallel searches for unused parameters at each step, and finds none",
        severity="warn" if warned else "note",
        known="proved" if warned else "read",
        places=places,
        remedies=[Remedy(text="find_unused_parameters=False, the default")],
    )


def is_on(keyword: ast.keyword) -> bool:
    """Whether a keyword is find_unused_parameters=True."""
    value = keyword.value
    return (
        keyword.arg == "find_unused_parameters"
        and isinstance(value, ast.Constant)
        and value.value is True
    )


RULE = Rule(
    title="DDP searches for unused parameters, and there are none",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.RANKS),
    weight=2,
    numerics="bitwise",
    known="proved",
)
