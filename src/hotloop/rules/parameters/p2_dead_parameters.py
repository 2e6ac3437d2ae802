"""Trainable parameters that never get a gradient, as of adapters that are never called.

Looks at: the trainable parameters without a gradient after ten steps, and the modules that no
    forward pass called.
Says so when: adapters are among them, or 1 % of the trainable parameters; fewer are a note.
Stays silent when: all got a gradient, or what runs has an output that nobody reads (P3). A module
    that is not called and whose weights are used (tied weights, the output projection of
    nn.MultiheadAttention) is no such case. A note where they run under no_grad, as a frozen trunk.
Remedy: call them in forward, let the loss depend on them, or do not build them.
Numbers: the run changes when they are called; leaving them out is bitwise the same for what is
    trained, but for weight decay and the initial random numbers.
Seen: examples/slow/adapters_never_called.
Source: hotloop, from the five projects (adapters built, counted, printed, and never called).
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, Severity, SourceLocation, code_edit
from hotloop.rules.support.syntax import calls, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.case.objects import Model

__all__ = ["RULE"]

STEPS = 10  # in which a randomly dropped layer, or an expert, should take part at least once
MANY = 0.01  # of the trainable parameters
ADAPTER = re.compile(r"lora|adapter|prompt|prefix|ia3|dora", re.IGNORECASE)
NAMED = 3
_PLURAL = {
    "runs with autograd off": "run with autograd off",
    "never gets a gradient": "never get a gradient",
    "is never called": "are never called",
}


def judge(case: Case) -> Finding | None:
    """Name the modules that hold the dead parameters."""
    if case.steps.count < STEPS:
        return None
    for model in case.models:
        dead, numbers = _own(model)
        if model.role != "train" or not dead:
            continue
        uncalled = [m for m in model.unused if any(_within(name, m) for name in dead)]
        if uncalled and model.uncalled_parameters:  # the other dead parameters have another cause
            dead = [name for name in dead if any(_within(name, m) for m in uncalled)]
            numbers = model.uncalled_parameters
        modules = _outermost(uncalled or [name.rpartition(".")[0] or name for name in dead])
        share = numbers / model.trainable if model.trainable else 1.0
        place = (model.unused_place if uncalled else None) or model.place
        off = [repeat.module for repeat in model.repeats if repeat.frozen]
        is_off = all(any(_within(name, part) for part in off) for name in dead) and not uncalled
        if is_off:
            modules = [part for part in _outermost(off) if any(_within(n, part) for n in dead)]
        more = f" and {len(modules) - NAMED} more" if len(modules) > NAMED else ""
        why = "runs with autograd off" if is_off else "never gets a gradient"
        why = "is never called" if uncalled else why
        if len(modules) > 1:
            why = _PLURAL[why]
        remedy = "let the loss depend on them, or do not build them"
        if uncalled:
            remedy = "call them in forward, or do not build them"
        elif is_off:
            remedy = "requires_grad_(False), or call them without no_grad if they are to be trained"
        return Finding(
            claim=(
                f"{', '.join(modules[:NAMED])}{more} {why}: "
                f"{numbers:,} of {model.trainable:,} trainable parameters "
                f"({share:.1%}) are not trained"
            ),
            severity=_severity(dead, 0.0 if is_off else share),
            places=[*_constructions(case, place), place] if place else [],
            evidence={
                "parameters without a gradient": ", ".join(dead[:NAMED]),
                "steps": f"{case.steps.count}",
            },
            remedies=[code_edit(remedy)],
        )
    return None


def _constructions(case: Case, place: SourceLocation) -> list[SourceLocation]:
    """Return the lines that build the class whose definition begins at a place."""
    code = parse(case.sources)
    names = {
        node.name
        for module in code.modules
        for node in module.nodes
        if isinstance(node, ast.ClassDef)
        and place == SourceLocation(file=module.path, line=node.lineno)
    }
    return [module.place(call) for module in code.modules for call in calls(module.tree, *names)]


def _outermost(names: Sequence[str]) -> list[str]:
    """Return the distinct names that lie below no other name."""
    unique = dict.fromkeys(names)
    return [name for name in unique if not any(name.startswith(f"{other}.") for other in unique)]


def _own(model: Model) -> tuple[list[str], int]:
    """Return the names of dead parameters, and the count of their elements.

    Parameters of modules with unused output are left out, because rule P3 reports them.
    """
    others = [part for part in model.discarded if not part.returned]
    dead = [name for name in model.dead if not any(_within(name, part.module) for part in others)]
    return dead, model.dead_parameters - sum(part.parameters for part in others)


def _within(name: str, module: str) -> bool:
    return name.startswith(f"{module}.")


def _severity(dead: Sequence[str], share: float) -> Severity:
    if any(map(ADAPTER.search, dead)):
        return "critical"
    return "warn" if share >= MANY else "note"


RULE = Rule(
    title="Parameters that are never trained",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    under="P1",
    weight=2,
    numerics="training",
    kind="correctness",
    known="proved",
)
