"""What is trained is another set of parameters than the script says.

Looks at: trainable against all parameters of the model, what the optimizers hold, the adapters in
    it, what the script printed about itself, and the code that freezes.
Says so when: a model with adapters trains more than half of its parameters; the script prints a
    trainable share that is off by 2 or more; the code sets `requires_grad` on a module, or a
    misspelt attribute, and nothing is frozen (a note where that line was not certainly executed);
    trainable parameters are in no optimizer.
Stays silent when: the figures agree, or freezing takes effect in some model.
Remedy: freeze by requires_grad_(False) before the optimizer is built, and print what is trained.
Numbers: the run changes: other parameters are trained.
Seen: examples/planted/head_only.py, examples/planted/adapted.py.
Source: hotloop, from the five projects ("LoRA" that trained all, "92 % reduction" with all frozen);
    the factor 2 is hotloop's own.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from hotloop.rules.base import (
    Case,
    Finding,
    Known,
    Needs,
    Rule,
    Severity,
    SourceLocation,
    code_edit,
)
from hotloop.rules.support.executed import was_executed
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.core.case.objects import Model

__all__ = ["RULE"]

ADAPTED = 0.5  # share of the parameters: adapters are meant to train far fewer
OFF = 2.0  # times
FORGOTTEN = 0.01  # of the trainable parameters
PRINTED = (
    re.compile(r"trainable%[^0-9]*([0-9.]*[0-9])"),  # as peft prints it
    re.compile(r"(?<!non-)(?<!un)trainable[^%]*?([0-9.]*[0-9])\s*%"),
    re.compile(r"([0-9.]*[0-9])\s*%(?: of [a-z ]*)?(?: (?:are|is))? trainable"),
)
MISSPELT = {"require_grad", "requires_gradient", "required_grad", "requires_grads", "require_grads"}

Fault = tuple[Severity, str, SourceLocation | None, Known]


def judge(case: Case) -> Finding | None:
    """Compare the trained parameters with the claims of the script, model by model."""
    for model in case.models:
        if model.role != "train" or not model.parameters:
            continue
        fault = (
            next(_without_effect(case), None)
            or _unfrozen(case, model)
            or _printed(case, model)
            or _forgotten(case, model)
        )
        if fault is not None:
            severity, claim, place, known = fault
            return Finding(
                claim=claim,
                severity=severity,
                known=known,
                places=[place] if place else [],
                evidence={
                    "trained": f"{model.trainable:,} of {model.parameters:,} "
                    f"({model.trainable / model.parameters:.2%})",
                    "in the optimizers": f"{_in_optimizers(case):,}",
                },
                remedies=[
                    code_edit(
                        "parameter.requires_grad_(False) for what is frozen, before the "
                        "optimizer is built; then print what is trained"
                    )
                ],
            )
    return None


def _unfrozen(case: Case, model: Model) -> Fault | None:
    share = model.trainable / model.parameters
    if not model.adapters or share <= ADAPTED:
        return None
    kinds = " and ".join(model.adapters)
    return (
        "critical",
        f"{model.name} has {kinds} adapters and trains {share:.0%} of all",
        None,
        "proved",
    )


def _printed(case: Case, model: Model) -> Fault | None:
    """Compare with the printed share: "trainable params: 300 || all params: 9,000 || ...%: 3.3"."""
    share = model.trainable / model.parameters
    for text in case.process.output:
        plain = text.lower().replace(",", "")
        match = next(filter(None, (pattern.search(plain) for pattern in PRINTED)), None)
        if match and match[1].count(".") < 2:
            printed = float(match[1]) / 100
            if 0 < printed <= 1 and share and not printed / OFF < share < printed * OFF:
                claim = f"the script prints {printed:.2%} trainable, {share:.2%} is"
                return "warn", claim, None, "proved"
    return None


def _without_effect(case: Case) -> Iterator[Fault]:
    """Yield the lines that should freeze parameters, if no model has frozen ones."""
    if any(model.trainable < model.parameters for model in case.models):
        return
    for module, node in parse(case.sources).nodes():
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Attribute):
            continue
        assert isinstance(node, ast.Assign)
        off = isinstance(node.value, ast.Constant) and node.value.value is False
        is_off = target.attr == "requires_grad" and off and _is_module(target.value)
        if target.attr not in MISSPELT and not is_off:
            continue
        known: Known = "proved" if was_executed(case, module, node) else "read"
        assignment = f"'{ast.unparse(node)}' sets an attribute"
        if target.attr in MISSPELT:
            claim = f"{assignment} PyTorch does not know: nothing is frozen"
            yield "critical", claim, module.place(node), known
        else:
            claim = f"{assignment} of a module: its parameters are not frozen"
            yield "critical", claim, module.place(node), known


def _is_module(node: ast.expr) -> bool:
    """Whether an expression names a module: model, model.encoder, self.backbone."""
    words = {"model", "backbone", "encoder", "trunk", "body", "bert", "net", "base_model"}
    return bool(words & {ast.unparse(node).rpartition(".")[2]})


def _in_optimizers(case: Case) -> int:
    return sum(group.parameters - group.frozen for o in case.optimizers for group in o.groups)


def _forgotten(case: Case, model: Model) -> Fault | None:
    missing = model.trainable - _in_optimizers(case)
    known = any(optimizer.groups for optimizer in case.optimizers)
    if case.steps.how != "optimizer" or not known or missing <= FORGOTTEN * model.trainable:
        return None
    place = next((optimizer.place for optimizer in case.optimizers if optimizer.place), None)
    claim = (
        f"{missing:,} of {model.trainable:,} trainable parameters of {model.name} are in no "
        "optimizer: their gradients are computed and never used"
    )
    return "warn", claim, place, "proved"


RULE = Rule(
    title="Another set of parameters is trained",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL),
    numerics="training",
    kind="correctness",
    known="proved",
)
