"""Whole embedding tables get gradients and updates for the few rows a batch looks up.

Looks at: embeddings without sparse=True, the numbers in a batch, and the time of the update.
Says so when: such tables hold 80 % of the trainable numbers, and updating the rows that a batch
    does not look up takes 10 % of the wall time.
Stays silent when: the tables are small beside the rest, the batches large, or the update cheap.
Remedy: Embedding(..., sparse=True) with SparseAdam or SGD: a step costs the rows of the batch.
Numbers: training: SparseAdam moves only rows that were looked up; weight decay does not reach them.
Seen: written after examples/blind2/basket2vec.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.Embedding.html (sparse).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.costs import costing
from hotloop.rules.support.syntax import keyword, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

MOST_OF, LEAST = 0.80, 0.10  # of the numbers; of the time


def judge(case: Case) -> Finding | None:
    """Compare the rows of the tables with the lookups of a batch."""
    numbers = [
        sum(math.prod(shape) for shape in batches.shapes.values())
        for batches in case.batches
        if batches.role == "train" and batches.shapes
    ]
    models = [
        model
        for model in case.models
        if model.trainable and model.tables >= MOST_OF * model.trainable
    ]
    if not numbers or not models:
        return None
    model = models[0]
    left = 1 - max(numbers) / model.table_rows  # of the rows, at least
    return costing(
        case,
        case.row("optimizer") * left * model.tables / model.trainable,
        least=LEAST,
        claim=f"each step updates all {model.table_rows:,} rows of an embedding, and a batch looks "
        f"up {max(numbers):,} at most",
        places=[
            *_embedding_calls(case),
            *(optimizer.place for optimizer in case.optimizers if optimizer.place),
        ][:5],
        evidence={"numbers in embeddings": f"{model.tables:,} of {model.trainable:,}"},
        remedies=[
            code_edit("nn.Embedding(..., sparse=True) with torch.optim.SparseAdam for its weights")
        ],
    )


def _embedding_calls(case: Case) -> Iterator[SourceLocation]:
    for module, call in parse(case.sources).calls("Embedding", "EmbeddingBag"):
        if keyword(call, "sparse") is None:
            yield module.place(call)


RULE = Rule(
    title="Whole embedding tables are updated for a few rows",
    judge=judge,
    needs=(Needs.STEPS, Needs.MODEL, Needs.OPTIMIZER, Needs.BATCHES),
    under="G7",
    weight=2,
    numerics="training",
    experiment="tables",
    only_measured=True,
)
