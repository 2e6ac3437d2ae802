"""The best weights are kept by reference, so training goes on writing into them.

Looks at: assignments of model.state_dict() in a training loop, and what becomes of the name.
Says so when: the name is given to load_state_dict after the loop, and nothing copied the tensors.
Stays silent when: deepcopy, clone or a save stands between, or the name is read in the same turn.
Remedy: copy.deepcopy(model.state_dict()).
Numbers: training: the weights that are restored are others.
Seen: written after examples/blind/credit_mlp, which no rule named.
Source: https://docs.pytorch.org/tutorials/beginner/saving_loading_models.html ("must serialize
    best_model_state or use best_model_state = deepcopy(model.state_dict())")
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.judging import idioms
from hotloop.judging.syntax import calls, parse
from hotloop.rules.base import Needs, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case import Case
    from hotloop.judging.syntax import Loop

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Follow names that hold a state dict from the loop to after it."""
    code = parse(case.sources)
    for loop in code.loops:
        for kept, name in _kept(loop):
            restored = [
                call
                for call in calls(loop.module.tree, "load_state_dict")
                if call.args and ast.unparse(call.args[0]) == name
                if call.lineno > (loop.node.end_lineno or 0)
            ]
            if restored:
                return Finding(
                    rule=RULE.label,
                    claim=f'"{name}" is no copy: each later step writes into it, so the weights '
                    "that are restored are the last ones",
                    severity="critical",
                    places=[loop.module.place(kept), loop.module.place(restored[0])],
                    remedies=[
                        Remedy(
                            text=f"{name} = copy.deepcopy({ast.unparse(kept.value)})",
                            effort="code edit",
                        )
                    ],
                )
    return None


def _kept(loop: Loop) -> Iterator[tuple[ast.Assign, str]]:
    """Yield assignments of a plain state dict to a name or an attribute."""
    for node in loop.nodes():
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and idioms.last_name(node.value) == "state_dict"
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name | ast.Attribute)
        ):
            yield node, ast.unparse(node.targets[0])


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
