"""A Python loop over the parameters does in hundreds of small operations what one can do.

Looks at: loops and comprehensions over parameters(), named_parameters() or state_dict() in the code
    of the training loop, and the time the main thread spent in them: moving averages, gradient
    norms, clipping and updates by hand.
Says so when: they take 2 % of the wall time.
Stays silent when: they take less, or stand outside the loop.
Remedy: torch._foreach_ operations, torch.nn.utils.clip_grad_norm_ and get_total_norm,
    torch.optim.swa_utils.AveragedModel, an optimizer of torch.optim.
Numbers: bitwise the same for updates (foreach does the same operations), rounding for norms.
Seen: examples/planted/moving_average.py.
Source: hotloop; https://docs.pytorch.org/docs/stable/optim.html (foreach)
"""

import ast

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.costs import costing, seconds_at, site
from hotloop.rules.support.syntax import calls, parse, running

__all__ = ["RULE"]

ALL = ("parameters", "named_parameters", "state_dict", "named_buffers")
ROWS = frozenset({"after step", "optimizer", "prepare", "host waits", "log", "forward"})
SHOWN = 3


def judge(case: Case) -> Finding | None:
    """Sum the time of such loops."""
    sites = [
        site(module, node)
        for module, node in running(parse(case.sources), classes=case.classes, evaluation=False)
        if any(next(calls(source, *ALL), None) for source in iterated(node))
    ]
    seconds = seconds_at(case, sites, rows=ROWS)
    hot = sorted(sites, key=lambda loop: -seconds_at(case, [loop], rows=ROWS))
    return costing(
        case,
        seconds,
        claim=f"Python loops over the parameters take {case.part(seconds):.0%} of the time",
        places=[loop.place for loop in hot[:SHOWN]],
        evidence={"tensors": str(sum(g.tensors for o in case.optimizers for g in o.groups))},
        remedies=[
            code_edit(
                "collect the tensors in a list and use torch._foreach_lerp_, _foreach_mul_ "
                "or torch.nn.utils.get_total_norm on it"
            ),
            code_edit("do it every N steps, where it is only logged"),
        ],
    )


def iterated(node: ast.AST) -> list[ast.AST]:
    """Return the iterables of a loop or a comprehension."""
    if isinstance(node, ast.For):
        return [node.iter]
    if isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp):
        return [part.iter for part in node.generators]
    return []


RULE = Rule(
    title="A Python loop visits every parameter",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS, Needs.CODE),
    under="H18",
    weight=3,
    numerics="rounding",
    experiment="line",
    only_measured=True,
    by_host=True,
)
