"""Convolutions add a bias that the batch norm behind them takes out again.

Looks at: the model's modules, and the code for their place.
Says so when: there is at least one. It is a note: a little memory and time.
Stays silent when: such convolutions have bias=False.
Remedy: bias=False.
Numbers: training; the function is the same, but initial values are drawn in another order.
Seen: examples/planted/conv_habits.py.
Source: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html ("Disable bias for
    convolutions directly followed by a batch norm")
"""

import ast
from itertools import pairwise

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.syntax import dotted, is_constant, keyword, parse

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Read the count, and look for the lines."""
    count = sum(model.bias_before_norm for model in case.models)
    if not count:
        return None
    return Finding(
        claim=f"{count} convolution{'s add a bias' if count > 1 else ' adds a bias'} that batch "
        "norm takes out again",
        severity="note",
        places=[
            module.place(conv)
            for module in parse(case.sources).modules
            for conv in before_norm(module.tree)
        ],
        remedies=[code_edit("nn.Conv2d(..., bias=False)")],
    )


def before_norm(tree: ast.AST) -> list[ast.Call]:
    """Return the constructor calls of convolutions with a bias that batch norm follows."""
    convolutions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call | ast.List | ast.Tuple):
            elements: list[ast.AST] = list(node.args if isinstance(node, ast.Call) else node.elts)
        else:
            body = getattr(node, "body", [])
            body = body if isinstance(body, list) else []  # the body of a lambda is one expression
            elements = [statement.value for statement in body if isinstance(statement, ast.Assign)]
        for first, second in pairwise(elements):
            if constructs(first, "Conv") and constructs(second, "BatchNorm"):
                assert isinstance(first, ast.Call)
                if not is_constant(keyword(first, "bias"), False):
                    convolutions.append(first)
    return convolutions


def constructs(node: ast.AST, prefix: str) -> bool:
    """Whether a node constructs a module whose class begins with `prefix`."""
    name = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return name.startswith(prefix)


RULE = Rule(
    title="A bias that batch norm takes out again",
    judge=judge,
    needs=(Needs.MODEL,),
    numerics="training",
    known="proved",
)
