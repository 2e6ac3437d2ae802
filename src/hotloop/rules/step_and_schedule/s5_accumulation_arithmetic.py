"""Gradient accumulation whose arithmetic is not that of the larger batch.

Looks at: the loop over batches: where gradients are set to zero, clipped and applied, whether the
    loss is divided; and how many backward calls a step really had.
Says so when: gradients are set to zero at every micro batch (only the last one counts); the loss is
    not divided by the number of micro batches; gradients are clipped at every micro batch; the last
    batches of an epoch do not fill a window and make no step of their own. A note but for the
    first, where zero_grad was called as often as backward, and for the second, where all backward
    passes that were looked at began at a mean.
Stays silent when: one backward call makes a step, a framework accumulates, the loss is a sum, or
    gradients or the learning rate are divided instead.
Remedy: divide the loss, and do all of clip, step and zero_grad under one "every N" test.
Numbers: the run changes: this is a fault in the training itself.
Seen: examples/planted/wiped_gradients.py.
Source: hotloop, from the five projects; "Working with scaled gradients" in PyTorch's AMP examples,
    https://docs.pytorch.org/docs/stable/notes/amp_examples.html (2026-11).
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, SourceLocation, code_edit
from hotloop.rules.support import idioms
from hotloop.rules.support.syntax import ProjectCode, TrainingLoop, calls, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["RULE"]

ACCUMULATION = re.compile(r"accum|micro", re.IGNORECASE)
ALL = 0.9  # of the backward passes: a stopped run may end between two calls
FEWEST = 1.5  # backward calls per step: with fewer, nothing is accumulated
MEANS = (
    "Mean",
    "NllLoss",
    "NllLoss2D",
    "MseLoss",
    "SmoothL1Loss",
    "HuberLoss",
    "BinaryCrossEntropy",
)
# Optimizers whose update is independent of the gradient's scale; clipping and logs are not.
SCALE_FREE = ("Adam", "NAdam", "RAdam", "Adafactor", "Lion", "RMSprop", "Muon")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulationLoop:
    """A loop over micro batches, several of which make a step."""

    loop: TrainingLoop
    nodes: list[ast.AST]  # of the loop and the functions it calls
    above: Mapping[ast.AST, ast.AST]
    guard: ast.If | None  # the "every N" test; None for a loop over the micro batches of a step
    number: str  # N, as source text

    def unguarded(self, *names: str) -> Iterator[ast.Call]:
        """Yield the calls that are made for every micro batch."""
        for call in calls(iter(self.nodes), *names):
            node: ast.AST | None = call
            while node is not None and node is not self.loop.node and not idioms.is_every_n(node):
                node = self.above.get(node)
            if node is None or node is self.loop.node:
                yield call


def judge(case: Case) -> Finding | None:
    """Report the gravest fault of the first loop that accumulates."""
    backwards = case.steps.backwards
    if case.framework not in ("plain", "fabric") or (backwards or FEWEST) < FEWEST:
        return None
    code = parse(case.sources)
    for window in _windows(code):
        faults = [*_wiped(case, window), *_undivided(case, window), *_clipped(window)]
        faults += _dropped(case, window)
        if faults:
            severity, claim, node, is_proved = faults[0]
            module = code.module_of(node)
            return Finding(
                claim=claim,
                severity=severity,
                known="proved" if is_proved else "read",
                places=[SourceLocation(file=module.path, line=idioms.line(node))],
                evidence={
                    "backward calls per step": "unknown" if backwards is None else f"{backwards:g}",
                    **{f"also {n}": other for n, (_, other, _, _) in enumerate(faults[1:], 1)},
                },
                remedies=[
                    code_edit(
                        f"(loss / {window.number}).backward(), and clip, step and zero_grad "
                        "together, once in a window"
                    )
                ],
            )
    return None


Fault = tuple[Severity, str, ast.AST, bool]  # the last: the run has shown it


def _windows(code: ProjectCode) -> Iterator[AccumulationLoop]:
    above = {k: v for module in code.modules for k, v in idioms.ancestors(module.tree).items()}
    for loop in code.inner_loops:
        if "accelerat" in loop.module.text:  # accelerate divides the loss and skips steps itself
            continue
        nodes = list(loop.nodes())
        steps, guards = idioms.optimizer_steps(nodes), idioms.guards(nodes, above)
        # If another optimizer steps at every batch, the every-N one belongs to a second network.
        if len(guards) == 1 and all(idioms.guards([step], above) for step in steps):
            number = idioms.modulus(guards[0].test)
            yield AccumulationLoop(
                loop=loop, nodes=nodes, above=above, guard=guards[0], number=number
            )
        elif not steps and isinstance(loop.node, ast.For):
            following = idioms.unnested(idioms.following(loop.module.tree, loop.node))
            iterated = ast.unparse(loop.node.iter)
            if iterated.startswith("range(") and idioms.optimizer_steps(following):
                header = f"{iterated} {ast.unparse(loop.node.target)}"
                if ACCUMULATION.search(header):
                    number = iterated[len("range(") : -1]
                    yield AccumulationLoop(
                        loop=loop, nodes=nodes, above=above, guard=None, number=number
                    )


def _wiped(case: Case, window: AccumulationLoop) -> Iterator[Fault]:
    for call in window.unguarded("zero_grad"):
        yield (
            "critical",
            "gradients are set to zero at every micro batch: only the last one of each step counts",
            call,
            _wiped_each_time(case),
        )


def _wiped_each_time(case: Case) -> bool:
    """Whether gradients were set to zero as often as a backward pass was made."""
    passes = case.steps.count * (case.steps.backwards or 0.0)
    return (
        max((optimizer.zero_grad for optimizer in case.optimizers), default=0) >= ALL * passes > 0
    )


def _are_means(case: Case) -> bool:
    """Whether all backward passes that were looked at began at a mean, which nothing divides."""
    roots = [root.rstrip("0123456789").removesuffix("Backward") for root in case.steps.loss_roots]
    return bool(roots) and all(root in MEANS for root in roots) and (case.steps.backwards or 0) > 1


def _undivided(case: Case, window: AccumulationLoop) -> Iterator[Fault]:
    backward = next(calls(iter(window.nodes), "backward"), None)
    if backward is None or _is_divided(window, backward):
        return
    clips = any(calls(iter(window.nodes), "clip_grad_norm_", "clip_grad_value_"))
    free = all(optimizer.name.startswith(SCALE_FREE) for optimizer in case.optimizers)
    times = f"{case.steps.backwards:g}" if case.steps.backwards else window.number
    effect = (
        "the optimizer's update does not depend on it, logged losses do"
        if free and not clips
        else f"gradients are {times} times those of the mean"
    )
    yield (
        "note" if free and not clips else "warn",
        f"the accumulated loss is not divided by {window.number}: {effect}",
        backward,
        _are_means(case),
    )


def _is_divided(window: AccumulationLoop, backward: ast.Call) -> bool:
    """Return whether the loss, the gradients or the learning rate are divided somewhere."""
    if "reduction='sum'" in window.loop.module.text.replace('"', "'"):
        return True
    if any(calls(iter(window.nodes), "div", "div_", "mul_", "_foreach_div_", "_foreach_mul_")):
        return True
    loss = idioms.names(backward.func)
    loss_nodes: list[ast.AST] = [backward]  # the expressions that compute the loss
    for node in window.nodes:
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div | ast.Mult):
            if idioms.names(node.target) & loss or "grad" in ast.unparse(node.target):
                return True
        elif isinstance(node, ast.Assign) and idioms.assigned([node]) & loss:
            loss_nodes.append(node)
    if any(_scales(node) for part in loss_nodes for node in ast.walk(part)):
        return True
    elsewhere = [*ast.walk(window.loop.module.tree), *window.nodes]
    scaled = {ast.unparse(node) for node in elsewhere if _scales(node)}
    return any(ACCUMULATION.search(x) and ".item()" not in x and "len(" not in x for x in scaled)


def _scales(node: ast.AST) -> bool:
    if not isinstance(node, ast.BinOp):
        return False
    if isinstance(node.op, ast.Div):
        return True
    return isinstance(node.op, ast.Mult) and bool(ACCUMULATION.search(ast.unparse(node)))


def _clipped(window: AccumulationLoop) -> Iterator[Fault]:
    for call in window.unguarded("clip_grad_norm_", "clip_grad_value_"):
        claim = "gradients are clipped at every micro batch, before they are whole"
        yield "warn", claim, call, False


def _dropped(case: Case, window: AccumulationLoop) -> Iterator[Fault]:
    batches = next((loader.batches for loader in case.training_loaders), None)
    size = round(case.steps.backwards or 0)
    left = batches % size if batches and size else case.steps.left
    if window.guard is None or size < 2 or not left:
        return
    following = idioms.unnested(idioms.following(window.loop.module.tree, window.loop.node))
    if idioms.optimizer_steps(following) or isinstance(window.guard.test, ast.BoolOp):
        return
    of_epoch = f"the last {left} of {batches} batches of an epoch"
    of_run = f"{left} micro batches at the end of an epoch or of the run"
    claim = f"{of_epoch if batches else of_run} make no step of their own"
    yield "note", claim, window.guard, False


RULE = Rule(
    title="Wrong arithmetic of accumulation",
    judge=judge,
    needs=(Needs.CODE, Needs.STEPS),
    weight=3,
    numerics="training",
    kind="correctness",
    known="read",
)
