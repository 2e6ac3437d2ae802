"""The best weights are kept by reference, so training goes on writing into them.

Looks at: assignments of model.state_dict() under a condition in a training loop, or anywhere if
    updates wrote into what was kept, and what becomes of the variable or of the attribute.
Says so when: the same model loads it after the loop, and nothing copied the tensors. A note where
    the kept tensors were not seen to lie in the memory of the live parameters after an update.
Stays silent when: deepcopy or clone makes a copy, the variable is another function's or is given
    something else before it is loaded, or another model loads it.
Remedy: copy.deepcopy(model.state_dict()).
Numbers: training: the weights that are restored are others.
Seen: written after examples/blind/credit_mlp, which no rule named.
Source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html ("must serialize
    best_model_state or use best_model_state = deepcopy(model.state_dict())")
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from hotloop.rules.base import (
    Case,
    Finding,
    Known,
    Needs,
    Rule,
    code_edit,
)
from hotloop.rules.support import idioms
from hotloop.rules.support.costs import site
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.rules.support.syntax import Module, ProjectCode

__all__ = ["RULE"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def judge(case: Case) -> Finding | None:
    """Follow a saved state dict to where it is loaded."""
    code = parse(case.sources)
    for module, saved, after in [*_in_loops(code), *_written_into(case, code)]:
        if (restored := _restored(module, after, saved)) is not None:
            name = ast.unparse(saved.targets[0])
            return Finding(
                claim=f'"{name}" is no copy: each later step writes into it, so the weights '
                "that are restored are the last ones",
                severity="critical",
                known=_known(case, module, saved),
                places=[module.place(saved), module.place(restored)],
                remedies=[code_edit(f"{name} = copy.deepcopy({ast.unparse(saved.value)})")],
            )
    return None


def _known(case: Case, module: Module, saved: ast.Assign) -> Known:
    """Return "proved" if the kept tensors were seen to lie in the memory of live parameters."""
    lines = site(module, saved)
    aliased = any(lines.holds(at.file, at.line) for at in case.process.states_aliased)
    return "proved" if aliased else "read"


def _in_loops(code: ProjectCode) -> Iterator[tuple[Module, ast.Assign, int]]:
    """Yield what a training loop keeps under a condition, and the last line of the loop."""
    for loop in code.loops:
        for saved in _saved_weights(loop.nodes()):
            yield loop.module, saved, loop.node.end_lineno or 0


def _written_into(case: Case, code: ProjectCode) -> Iterator[tuple[Module, ast.Assign, int]]:
    """Yield what any function keeps under a condition and updates were seen to write into."""
    for module in code.modules:
        for saved in _saved_weights(iter(module.nodes)):
            if _known(case, module, saved) == "proved":
                yield module, saved, saved.end_lineno or 0


def _saved_weights(nodes: Iterator[ast.AST]) -> Iterator[ast.Assign]:
    """Yield assignments of a plain state dict to a name or an attribute, under a condition."""
    for branch in nodes:
        for node in ast.walk(branch) if isinstance(branch, ast.If) else ():
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and idioms.last_name(node.value) == "state_dict"
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name | ast.Attribute)
            ):
                yield node


def _restored(module: Module, after: int, saved: ast.Assign) -> ast.Call | None:
    """Return the call after a line that loads the saved weights into the same model."""
    target = saved.targets[0]
    kinds = _FUNCTIONS if isinstance(target, ast.Name) else ast.ClassDef
    scope = _around(module.tree, saved, kinds)
    for call in calls(scope, "load_state_dict"):
        # A variable is local to its function; an attribute may be read by any method, at any line.
        own = isinstance(target, ast.Attribute) or (
            call.lineno > after and _around(module.tree, call, kinds) is scope
        )
        if (
            own
            and call.args
            and ast.unparse(call.args[0]) == ast.unparse(target)
            and _model(call) == _model(saved.value)
            and not _is_reassigned(scope, saved, before=call.lineno)
        ):
            return call
    return None


def _around(tree: ast.Module, node: ast.AST, kinds: Any) -> ast.AST:
    """Return the innermost function or class around a node, else the module."""
    scopes = [
        scope for scope in ast.walk(tree) if isinstance(scope, kinds) and node in ast.walk(scope)
    ]
    return scopes[-1] if scopes else tree  # ast.walk goes from the outside in


def _model(call: ast.AST) -> str | None:
    """Return the object whose method is called, as source text."""
    function = getattr(call, "func", None)
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else None


def _is_reassigned(scope: ast.AST, saved: ast.Assign, *, before: int) -> bool:
    """Whether the saved name is assigned again later: a copy, or the content of a file."""
    name = ast.unparse(saved.targets[0])
    return any(
        isinstance(node, ast.Assign)
        and node is not saved
        and any(ast.unparse(target) == name for target in node.targets)
        and (isinstance(saved.targets[0], ast.Attribute) or saved.lineno < node.lineno < before)
        and not isinstance(node.value, ast.Constant)
        for node in ast.walk(scope)
    )


RULE = Rule(
    title="The best weights are no copy",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    numerics="training",
    kind="correctness",
    known="read",
)
