"""Validation or saving that should run every epoch stands after the loop, by its indentation.

Looks at: the syntax tree: what stands after a training loop and uses what only the loop changes.
Says so when: after the loop, code that evaluates or saves stands under an "every N" test of the
    loop's variable or counter; or compares with a best value that is set before the loop and never
    in it; or appends to a list of validation values that starts empty before the loop; or prints
    the loop's variable beside a validation value. The last three only where the loop itself does
    not evaluate. A note where the run did not show it: no second epoch began, or something of the
    kind was done before the last step.
Stays silent when: the code after the loop evaluates or saves once without such a sign, as a final
    test does, or flushes the last accumulation window.
Remedy: indent the block into the loop.
Numbers: nothing changes in what is trained; which checkpoint is called the best does. An evaluation
    that runs more often draws from the random stream more often.
Seen: examples/slow/validation_outside_loop.
Source: hotloop, from the five projects (two had it; one had trained for hours without validation).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import Function, TrainingLoop, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["RULE"]

BEST = re.compile(r"best|lowest|highest")
VALIDATION = re.compile(r"(^|[^a-z])(val|valid|validation|dev|eval)([^a-z]|$)", re.IGNORECASE)
# Words of a summary, which belongs after the loop.
SUMMARY = re.compile(r"final|test|finish|done|best|total|after|trained|complete", re.IGNORECASE)


def judge(case: Case) -> Finding | None:
    """Look for code after a training loop that was meant to be inside it."""
    code = parse(case.sources)
    for loop in code.loops:
        for node, why in _misplaced(loop):
            target = ast.unparse(loop.node.target) if isinstance(loop.node, ast.For) else "while"
            return Finding(
                claim=(
                    f"{why} stands after the loop over {target} "
                    f"(line {loop.node.lineno}), so it runs once when that loop has ended"
                ),
                severity="critical",
                known="proved" if _was_left_out(case, node) else "read",
                places=[loop.module.place(node)],
                evidence={
                    "the loop": f"lines {loop.node.lineno} to {loop.node.end_lineno}",
                    "seen": f"{case.epochs} epochs, {len(case.evaluations)} evaluations, "
                    f"{len(case.saves)} saves",
                },
                remedies=[code_edit("indent the block into the loop")],
            )
    return None


def _was_left_out(case: Case, node: ast.AST) -> bool:
    """Whether an epoch has ended, and nothing of the kind was done before the last step."""
    saves_alone = idioms.is_every_n(node) and not idioms.evaluations(ast.walk(node))
    done = case.saves if saves_alone else case.evaluations
    return case.epochs > 1 and not any(0 < each.step < case.steps.count for each in done)


def _misplaced(loop: TrainingLoop) -> Iterator[tuple[ast.AST, str]]:
    tree = loop.module.tree
    following = list(idioms.unnested(idioms.following(tree, loop.node)))
    yield from _every_n(loop, following)
    if isinstance(loop.node, ast.For) and not _is_nested(loop):
        misplaced = [*_printed(loop, following)]
        if idioms.evaluations(following):
            misplaced = [*_best(loop, following), *_appended(loop, following), *misplaced]
        if misplaced and not idioms.evaluations(loop.nodes()):
            yield from misplaced


def _every_n(loop: TrainingLoop, following: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the "every N" tests of variables that only the loop changes."""
    body = idioms.own(loop)
    changed = idioms.names(loop.node.target) if isinstance(loop.node, ast.For) else set()
    changed |= idioms.assigned(n for n in body if isinstance(n, ast.AugAssign))
    changed -= idioms.assigned(n for n in following if isinstance(n, ast.stmt))
    for node in following:
        if not isinstance(node, ast.If) or not idioms.counted(node.test) & changed:
            continue
        inside = [below for part in node.body for below in ast.walk(part)]
        if not idioms.optimizer_steps(inside) and (
            idioms.evaluations(inside) or idioms.saves(inside)
        ):
            yield node, f"the test '{ast.unparse(node.test)}'"


def _best(loop: TrainingLoop, following: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the comparisons with a best value that the loop never updates."""
    assigned = idioms.assigned(loop.node.body)
    for node in following:
        if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
            continue
        updated = idioms.names(node.test) & idioms.assigned(node.body)
        for name in sorted(name for name in updated if BEST.search(name) and name not in assigned):
            if name in _before(loop):
                yield node, f"the update of {name}"


def _appended(loop: TrainingLoop, following: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the calls that append to a list of validation values, once."""
    for node in following:
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        listed = node.func.value
        if node.func.attr == "append" and VALIDATION.search(ast.unparse(listed).replace("_", " ")):
            name = next(iter(idioms.names(listed)), "")
            if name in _before(loop):
                yield node, f"'{ast.unparse(node.func)}'"


def _printed(loop: TrainingLoop, following: Sequence[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """Yield the f-strings that print the loop variable with a validation value."""
    assert isinstance(loop.node, ast.For)
    target = idioms.names(loop.node.target)
    for node in following:
        if isinstance(node, ast.JoinedStr) and idioms.names(node) & target:
            text = ast.unparse(node).replace("_", " ")
            if VALIDATION.search(text) and not SUMMARY.search(text):
                yield node, "the line that prints a validation value for each epoch"


def _before(loop: TrainingLoop) -> set[str]:
    """Return the names assigned before the loop, in the same function or module."""
    earlier = (n for n in idioms.unnested(_home(loop).body) if isinstance(n, ast.stmt))
    return idioms.assigned(
        n
        for n in earlier
        if isinstance(n, ast.Assign | ast.AnnAssign) and n.lineno < loop.node.lineno
    )


def _home(loop: TrainingLoop) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Module:
    """Return the function that contains the loop, else the module."""
    above = idioms.ancestors(loop.module.tree)
    node = above[loop.node]
    while not isinstance(node, Function | ast.Module):
        node = above[node]
    return node


def _is_nested(loop: TrainingLoop) -> bool:
    """Whether a loop of the same function repeats this loop and the code after it."""
    around = (n for n in ast.walk(_home(loop)) if isinstance(n, ast.For | ast.While))
    return any(loop.node in set(ast.walk(n)) for n in around if n is not loop.node)


RULE = Rule(
    title="Validation or saving outside the loop",
    judge=judge,
    needs=(Needs.CODE,),
    weight=3,
    kind="correctness",
    known="read",
)
