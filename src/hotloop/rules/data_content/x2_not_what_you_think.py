"""The labels of sampled batches carry nothing to learn, or padding or prompts are learnt.

Looks at: shape and ignored share of the labels, and the padding and the prompts beside them.
Says so when: 99 % of the label positions are ignored, or rows are padded by 10 % and more and the
    loss takes the padding in, or a field of the batch says how long each prompt is, no code reads
    it, and the labels hold the prompts. Both are notes unless recorded steps show that these
    positions get a gradient: a mask may leave them out. Before a run:
    1 % of the training rows have a label that most rows of the same text have not (a warning from
    5 % on).
Stays silent when: the loss is told to ignore an index of its own, or no label was recognised. That
    all labels are one value is said by S13.
Remedy: look at the decoded sample in the report, then at the line that makes the label.
Numbers: training: the objective is another one.
Seen: examples/planted/padded_labels.py.
Source: two of the five projects; the thresholds are ours.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from hotloop.rules.base import (
    Case,
    Finding,
    Known,
    Needs,
    PlannedRun,
    Remedy,
    Rule,
    SourceLocation,
    code_edit,
)
from hotloop.rules.support.padding_lines import padding_lines
from hotloop.rules.support.syntax import Function, parse

if TYPE_CHECKING:
    from hotloop.core.case.steps_and_loaders import BatchFacts

__all__ = ["RULE"]

NOTHING, PADDED = 0.99, 0.10
IGNORED = -100  # the label that torch's losses ignore unless told another
CONTRADICTING_NOTE, CONTRADICTING_WARN = 0.01, 0.05  # of the training rows of a planned run


def judge(case: Case) -> Finding | None:
    """Look at the labels of the training batches."""
    for batch in case.batches:
        fault = _wrong(case, batch) if batch.role == "train" else None
        if fault is None:
            continue
        claim, remedy, known = fault
        return Finding(
            claim=claim,
            severity="warn",
            known=known,
            places=[*_labelling(case, batch), *([batch.place] if batch.place else [])],
            evidence=_evidence(case, batch),
            remedies=[code_edit(remedy)],
        )
    return None


def _evidence(case: Case, batch: BatchFacts) -> dict[str, str]:
    evidence = {"a sample": batch.decoded[:200]} if batch.decoded else {}
    if batch.prompts is not None and case.ledger and case.ledger.without_gradient is not None:
        left_out = case.ledger.without_gradient
        evidence["positions of the labels that are prompts"] = f"{batch.prompts:.0%}"
        evidence["positions that the loss gives no gradient"] = f"{left_out:.0%}"
    return evidence


def _wrong(case: Case, batch: BatchFacts) -> tuple[str, str, Known] | None:
    """Return claim, remedy and certainty of a fault of the labels, or None."""
    ignored = batch.ignored
    if ignored is not None and ignored >= NOTHING:
        claim = f"{ignored:.1%} of the label positions are ignored by the loss"
        return (
            claim,
            "keep the answer's tokens as labels; only prompt and padding get -100",
            "proved",
        )
    shape = batch.shapes.get(batch.label or "", ())
    per_token = len(shape) == 2 and bool(batch.widths) and abs(shape[1] - batch.widths[0]) <= 1
    handles_padding = any("ignore_index" in text for text in case.sources.values())
    if (
        per_token
        and not handles_padding
        and (batch.padding or 0.0) >= PADDED
        and ignored is not None
    ):
        padding = batch.padding or 0.0
        if ignored < padding / 2:
            claim = f"the loss takes in padding, {padding:.0%} of the positions"
            known: Known = "proved" if _are_learnt(case, padding) else "read"
            return claim, "labels[input_ids == pad_id] = -100, or ignore_index=pad_id", known
    rows = batch.targets
    is_padded = rows is not None and rows.pad_id != IGNORED and rows.padding >= PADDED
    if rows is not None and is_padded and _are_learnt(case, rows.padding):
        claim = f"the loss takes in padding, {rows.padding:.0%} of the positions of the labels"
        return claim, f"labels[labels == {rows.pad_id}] = {IGNORED}", "proved"
    if batch.prompt is not None and not _is_read(case, batch.prompt):
        claim = (
            f"the loss takes in the prompts: the labels hold them, and nothing reads {batch.prompt}"
        )
        known = "proved" if _are_learnt(case, batch.prompts) else "read"
        return claim, f"labels[:{batch.prompt}] = -100: only the answer is to be learnt", known
    return None


def _are_learnt(case: Case, share: float | None) -> bool:
    """Whether most positions of such a share got a gradient from the loss in recorded steps."""
    left_out = case.ledger.without_gradient if case.ledger is not None else None
    return left_out is not None and share is not None and left_out < share / 2


def _labelling(case: Case, batch: BatchFacts) -> list[SourceLocation]:
    """Return the line that makes the label of a batch with a prompt, or the one that pads it."""
    if batch.targets is not None and batch.targets.pad_id != IGNORED and batch.prompt is None:
        return padding_lines(case)
    for module in parse(case.sources).modules if batch.prompt is not None else ():
        for function in module.nodes:
            for node in ast.walk(function) if isinstance(function, Function) else ():
                keys = node.keys if isinstance(node, ast.Dict) else []
                fields = {k.value: n for n, k in enumerate(keys) if isinstance(k, ast.Constant)}
                if isinstance(node, ast.Dict) and {batch.prompt, batch.label} <= fields.keys():
                    label = ast.unparse(node.values[fields[batch.label]])
                    made = (n for n in ast.walk(function) if _assigns(n, label))
                    return [module.place(next(made, node))]
    return []


def _assigns(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(t) == name for t in node.targets)


def _is_read(case: Case, name: str) -> bool:
    """Whether code names a field of the batch anywhere but where the field is written."""
    for module in parse(case.sources).modules:
        written = {
            id(key)
            for node in module.nodes
            for key in (node.keys if isinstance(node, ast.Dict) else _stored(node))
        }
        for node in module.nodes:
            is_text = isinstance(node, ast.Constant) and node.value == name
            if (is_text and id(node) not in written) or getattr(node, "arg", None) == name:
                return True
    return False


def _stored(node: ast.AST) -> list[ast.AST]:
    """Return the key of `batch[key] = ...`."""
    is_store = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return [node.slice] if is_store and isinstance(node, ast.Subscript) else []


def _before_run(case: Case, planned: PlannedRun) -> Finding | None:
    data = planned.data
    if data is None or data.rows is None or data.rows.contradicting is None:
        return None
    wrong, share = data.rows.contradicting, data.rows.contradicting / data.samples
    if share < CONTRADICTING_NOTE:
        return None
    return Finding(
        claim=f"{wrong:,} training rows ({share:.1%}) have a label that most rows of the same text "
        "have not: nothing can learn both",
        severity="warn" if share >= CONTRADICTING_WARN else "note",
        remedies=[
            Remedy(
                text="look whether data.text_a, data.text_b and data.max_length leave out what"
                " tells them apart"
            ),
            code_edit("settle the labels"),
        ],
    )


RULE = Rule(
    title="The labels are not what a loss can learn from",
    judge=judge,
    needs=(Needs.BATCHES,),
    before_run=_before_run,
    kind="correctness",
    known="proved",
)
