"""Attention or a recurrent layer runs across the batch, because it takes it for the sequence.

Looks at: layers with batch_first=False, recurrent layers whose input has two dimensions, the rows
    of what the model is given, and whether changing one row changes the output for another, as
    probed.
Says so when: the model is given batches with the rows first, holds such a layer, and the rows meet.
    An input of two dimensions is one sequence for torch, with the rows as its time steps: said
    where the loader shuffles the rows.
Stays silent when: the probe was not made, no row changes another's output, the model is given
    something else than batches of the loader, or an unshuffled loader may give parts of a series.
Remedy: batch_first=True, or x.transpose(0, 1) before and after the layer. For rows without a
    sequence, x.unsqueeze(1) with batch_first=True, or a layer that is not recurrent.
Numbers: the run changes: a sample's output no longer depends on its neighbours in the batch.
Seen: written after examples/blind2/load_forecast; examples/planted/unbatched_lstm.py.
Source: https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html: batch_first
    is False by default, also for TransformerEncoderLayer, LSTM, GRU and RNN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.rules.base import Case, Finding, Needs, Rule, SourceLocation, code_edit
from hotloop.rules.support.syntax import is_constant, keyword, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RULE"]

BUILDS = (
    "TransformerEncoderLayer",
    "TransformerDecoderLayer",
    "Transformer",
    "MultiheadAttention",
    "LSTM",
    "GRU",
    "RNN",
)


def judge(case: Case) -> Finding | None:
    """Look for a model in which such a layer mixes the rows of a batch."""
    # Rows in order may be a series, of which a batch is a part.
    drawn = {one.batch_size for one in case.training_loaders if one.shuffle} - {None}
    sizes = {loader.batch_size for loader in case.training_loaders} - {None}
    sizes |= {  # a label for each row
        shape[0]
        for batches in case.batches
        if batches.role == "train"
        for shape in batches.shapes.values()
        if len(shape) == 1
    }
    mixing = [
        model
        for model in case.models
        if model.mixes_rows
        and model.rows in sizes
        and not set(model.sequence_first) <= set(model.unbatched)
    ]
    flat = [one for one in case.models if one.mixes_rows and one.unbatched and one.rows in drawn]
    if flat:
        model = flat[0]
        return Finding(
            claim=f"{model.unbatched[0]} of {model.name} is given {model.rows} rows without a "
            "dimension for the sequence and takes them for one sequence: samples of a batch change "
            "each other's output",
            severity="critical",
            places=list(model.call_places)[:3] or list(_built(case))[:3],
            remedies=[
                code_edit(
                    "x.unsqueeze(1) before the layer, with batch_first=True; or a layer that is "
                    "not recurrent"
                )
            ],
        )
    if not mixing:
        return None
    model = mixing[0]
    layer = next(name for name in model.sequence_first if name not in model.unbatched)
    return Finding(
        claim=f"{layer} of {model.name} has batch_first=False and is given "
        f"batches with the {model.rows} rows first: samples of a batch change each other's output",
        severity="critical",
        places=list(_built(case))[:3],
        remedies=[code_edit("batch_first=True where the layer is built")],
    )


def _built(case: Case) -> Iterator[SourceLocation]:
    for module, call in parse(case.sources).calls(*BUILDS):
        if not is_constant(keyword(call, "batch_first"), True):
            yield module.place(call)


RULE = Rule(
    title="Attention across the batch",
    judge=judge,
    needs=(Needs.MODEL, Needs.CODE),
    weight=3,
    numerics="training",
    kind="correctness",
    known="proved",
)
