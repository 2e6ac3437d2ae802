"""Hugging Face's Trainer keeps all outputs of an evaluation and joins them batch by batch.

Looks at: the stacks of evaluation, and the `compute_metrics` that a Trainer is built with.
Says so when: keeping the outputs takes 10 % of the wall time or more.
Stays silent when: another trainer evaluates, or the outputs are small.
Remedy: preprocess_logits_for_metrics reduces each batch to what the metric needs (the argmax);
    eval_accumulation_steps moves them to the host now and then, which saves memory of a GPU.
Numbers: the metrics stay; nothing of the training changes.
Seen: written after examples/blind2/wiki_gpt.
Source: https://huggingface.co/docs/transformers/main_classes/trainer (eval_accumulation_steps: "the
    whole predictions are accumulated"); EvalLoopContainer.add joins each batch to all before it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

LEAST = 0.10
KEEPS = "trainer_pt_utils.py"  # of transformers: EvalLoopContainer, and concatenation


def judge(case: Case) -> Finding | None:
    """Sum the time in the code that keeps the outputs."""
    seconds = sum(
        stack.seconds
        for stack in case.stacks
        if stack.row == "evaluate" and any(frame.file.endswith(KEEPS) for frame in stack.frames)
    )
    return costing(
        case,
        seconds,
        least=LEAST,
        claim=f"{case.part(seconds):.0%} of the time all outputs of an evaluation are kept and "
        "joined, batch by batch, for compute_metrics",
        places=list(_metrics(case)),
        remedies=[
            code_edit(
                "Trainer(..., preprocess_logits_for_metrics=lambda logits, labels: "
                "logits.argmax(-1)), and let compute_metrics take those"
            )
        ],
    )


def _metrics(case: Case) -> Iterator[SourceLocation]:
    """Yield where compute_metrics is passed to a Trainer, and where it is defined."""
    for module in parse(case.sources).modules:
        defined = {node.name: node for node in module.nodes if isinstance(node, ast.FunctionDef)}
        for node in module.nodes:
            words = node.keywords if isinstance(node, ast.Call) else ()
            for word in words:
                if word.arg == "compute_metrics":
                    yield module.place(word.value)
                    if isinstance(word.value, ast.Name) and word.value.id in defined:
                        yield module.place(defined[word.value.id])


RULE = Rule(
    title="An evaluation keeps all its outputs",
    judge=judge,
    needs=(Needs.STEPS, Needs.STACKS),
    under="H9",
    weight=3,
    numerics="bitwise",
    experiment="evaluating",
)
