"""The best weights are kept by reference, so training goes on writing into them.

Looks at: assignments of model.state_dict() under a condition in a training loop, and what becomes
    of the variable, or of the attribute in its class.
Says so when: the same model loads it after the loop, and nothing copied the tensors.
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

from hotloop.core.finding import Finding, Remedy
from hotloop.rules.base import Needs, Rule
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.case import Case
    from hotloop.rules.support.syntax import TrainingLoop

__all__ = ["RULE"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def judge(case: Case) -> Finding | None:
    """Follow what holds a state dict from the loop to after it."""
    code = parse(case.sources)
    for loop in code.loops:
        for kept in _kept(loop):
            if (restored := _restored(loop, kept)) is not None:
                name = ast.unparse(kept.targets[0])
                return Finding(
                    rule=RULE.label,
                    claim=f'"{name}" is no copy: each later step writes into it, so the weights '
                    "that are restored are the last ones",
                    severity="critical",
                    places=[loop.module.place(kept), loop.module.place(restored)],
                    remedies=[
                        Remedy(
                            text=f"{name} = copy.deepcopy({ast.unparse(kept.value)})",
                            effort="code edit",
                        )
                    ],
                )
    return None


def _kept(loop: TrainingLoop) -> Iterator[ast.Assign]:
    """Yield assignments of a plain state dict to a name or an attribute, under a condition."""
    for branch in loop.nodes():
        for node in ast.walk(branch) if isinstance(branch, ast.If) else ():
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Call)
                and idioms.last_name(node.value) == "state_dict"
                and len(node.targets) == 1
                and isinstance(node.targets[0], ast.Name | ast.Attribute)
            ):
                yield node


def _restored(loop: TrainingLoop, kept: ast.Assign) -> ast.Call | None:
    """Return the call after the loop with which the same model loads what was kept."""
    target = kept.targets[0]
    kinds = _FUNCTIONS if isinstance(target, ast.Name) else ast.ClassDef
    scope = _around(loop.module.tree, kept, kinds)
    after = loop.node.end_lineno or 0
    for call in calls(scope, "load_state_dict"):
        # A variable is another one in each function; what another method does comes at any line.
        own = isinstance(target, ast.Attribute) or (
            call.lineno > after and _around(loop.module.tree, call, kinds) is scope
        )
        if (
            own
            and call.args
            and ast.unparse(call.args[0]) == ast.unparse(target)
            and _model(call) == _model(kept.value)
            and not _given_else(scope, kept, before=call.lineno)
        ):
            return call
    return None


def _around(tree: ast.Module, node: ast.AST, kinds: Any) -> ast.AST:
    """Return the innermost function or class around a node; the module where there is none."""
    inside = [each for each in ast.walk(tree) if isinstance(each, kinds) and node in ast.walk(each)]
    return inside[-1] if inside else tree  # ast.walk goes from the outside in


def _model(call: ast.AST) -> str | None:
    """Return whose method is called."""
    function = getattr(call, "func", None)
    return ast.unparse(function.value) if isinstance(function, ast.Attribute) else None


def _given_else(scope: ast.AST, kept: ast.Assign, *, before: int) -> bool:
    """Whether what was kept is given something else after that: a file's content, a copy."""
    name = ast.unparse(kept.targets[0])
    return any(
        isinstance(node, ast.Assign)
        and node is not kept
        and any(ast.unparse(target) == name for target in node.targets)
        and (isinstance(kept.targets[0], ast.Attribute) or kept.lineno < node.lineno < before)
        and not isinstance(node.value, ast.Constant)
        for node in ast.walk(scope)
    )


RULE = Rule(
    id="P7",
    name="weights_alias",
    title="The best weights are no copy",
    page=__doc__ or "",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    numerics="training",
    kind="correctness",
)
