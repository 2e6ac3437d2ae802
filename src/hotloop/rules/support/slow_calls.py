"""Lines of the project that call a library in a slow form, with the time that they take.

The line is the innermost of the stack: the time is that of the library's own code, which has no
frame, and not that of a function of the project below the line.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.syntax import is_constant, keyword, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.case.case import Case
    from hotloop.rules.support.syntax import Module

__all__ = ["distribution_checks", "list_conversions", "permuted_draws"]

_MAKES = re.compile(r"torch\.(tensor|as_tensor|([A-Z][a-z]*)?Tensor)")
_LITERALS = (ast.Constant, ast.List, ast.Tuple)


def list_conversions(case: Case) -> Mapping[SourceLocation, float]:
    """Return the sampled seconds of each line at which torch makes a tensor of a value.

    Whether that value is a list, only an experiment shows.
    """

    def is_one(module: Module, call: ast.Call) -> bool:
        has_value = bool(call.args) and not isinstance(call.args[0], _LITERALS)
        return has_value and _MAKES.fullmatch(module.name(call)) is not None

    return _seconds(case, is_one)


def permuted_draws(case: Case) -> Mapping[SourceLocation, float]:
    """Return the sampled seconds of each line that draws rows with numpy.random.choice.

    Without replacement, it permutes all rows for the few that are drawn.
    """

    def is_one(module: Module, call: ast.Call) -> bool:
        is_choice = module.name(call) == "numpy.random.choice" and not keyword(call, "p")
        return is_choice and is_constant(keyword(call, "replace"), False)

    return _seconds(case, is_one)


def distribution_checks(case: Case) -> float:
    """Return the sampled seconds in the code that makes torch's distributions and checks values."""
    return sum(
        stack.seconds
        for stack in case.stacks
        if stack.passes(
            "torch/distributions/constraints.py:",
            "torch/distributions/distribution.py:Distribution.__init__",
            "torch/distributions/distribution.py:Distribution._validate_sample",
        )
    )


def _seconds(
    case: Case, is_one: Callable[[Module, ast.Call], bool]
) -> Mapping[SourceLocation, float]:
    """Return the seconds of the lines with such a call, the largest first."""
    lines = {
        (module.path, node.lineno)
        for module, node in parse(case.sources).nodes()
        if isinstance(node, ast.Call) and is_one(module, node)
    }
    seconds: dict[SourceLocation, float] = defaultdict(float)
    for stack in case.stacks:
        first = stack.frames[0] if stack.frames else None
        if first is not None and first.own and (first.file, first.line) in lines:
            seconds[SourceLocation(file=first.file, line=first.line)] += stack.seconds
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
