"""Boundaries from lists of lengths, row by row."""

import torch

from hotloop.core.document_boundaries import Boundaries, bucket


def boundaries(*rows):
    lengths = tuple(length for row in rows for length in row)
    assert len({sum(row) for row in rows}) == 1
    return Boundaries(
        cu_seqlens=torch.tensor([0, *lengths]).cumsum(0).int(),
        lengths=lengths,
        max_seqlen=bucket(max(lengths)),
        rows=len(rows),
        width=sum(rows[0]),
    )
