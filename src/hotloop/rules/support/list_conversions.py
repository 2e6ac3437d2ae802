"""Lines of the project that make tensors of lists, with the time that they take."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.case.case import Case

__all__ = ["list_conversions"]

_MAKES = re.compile(r"torch\.(tensor|as_tensor|([A-Z][a-z]*)?Tensor)")
_LITERALS = (ast.Constant, ast.List, ast.Tuple)


def list_conversions(case: Case) -> Mapping[SourceLocation, float]:
    """Return the sampled seconds of each line at which torch makes a tensor of a value.

    Whether that value is a list, only an experiment shows. The line is the innermost of the stack:
    the time is torch's, not that of a function which it calls.
    """
    code = parse(case.sources)
    lines = {
        (module.path, node.lineno)
        for module, node in code.nodes()
        if isinstance(node, ast.Call)
        and node.args
        and not isinstance(node.args[0], _LITERALS)
        and _MAKES.fullmatch(module.name(node))
    }
    seconds: dict[SourceLocation, float] = defaultdict(float)
    for stack in case.stacks:
        first = stack.frames[0] if stack.frames else None
        if first is not None and first.own and (first.file, first.line) in lines:
            seconds[SourceLocation(file=first.file, line=first.line)] += stack.seconds
    return dict(sorted(seconds.items(), key=lambda item: -item[1]))
