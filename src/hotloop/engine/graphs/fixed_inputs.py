"""Pad batches to few shapes, and copy them into memory that stays in place.

Dims: B rows, T positions, S segments.
A recorded step reads its batch from fixed addresses and has fixed sizes. Batches of texts have
changing ones, so positions without loss are added: rows and columns of padding to padded rows,
documents of padding to documents that share a row (read as one row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.core.document_boundaries import Boundaries, bucket
from hotloop.machine.copy_stream import pinned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch import Tensor

    from hotloop.session.batch import Batch

__all__ = ["FixedInputs", "Shape", "Shapes"]

_STARTS: Final = "cu_seqlens"  # the tensor of the boundaries
_MASK: Final = "attention_mask"
_EIGHTHS: Final = 3  # bits of a size that are kept: 8 sizes between two powers of two
_LEAST: Final = 64  # numbers of tokens are multiples of it
_COLUMNS: Final = 16  # numbers of columns are
_SEGMENTS: Final = 16  # the fewest documents
_SPARE: Final = 64  # part of the largest batch that documents of padding may take


@dataclass(frozen=True, slots=True)
class Shape:
    """What a batch must have to be read from the same memory as another."""

    sizes: tuple[tuple[str, tuple[int, ...], torch.dtype], ...]  # of its tensors, padding included
    segments: int | None  # documents, with those of padding; None: each row is one
    max_seqlen: int  # at least the longest segment; 0 without segments
    targets: int | None  # room for labels with loss; None: the batch has no labels of tokens

    def __str__(self) -> str:
        """Return it in words, for a file."""
        parts = [f"{name} {'x'.join(map(str, size))}" for name, size, _ in self.sizes]
        if self.segments is not None:
            parts.append(f"segments of up to {self.max_seqlen}")
        if self.targets is not None:
            parts.append(f"{self.targets} labels")
        return ", ".join(parts)


class Shapes:
    """Assigns to each batch the shape to which it is padded."""

    def __init__(self, fillers: Mapping[str, int], widest: Batch | None) -> None:
        """Take the values of padding by tensor; one that has none keeps its size.

        Few batches are padded beyond the `widest` one, whose memory is foreseen.
        """
        self._fillers = fillers
        self._width = self._tokens = self._max_seqlen = 0
        if widest is not None and "input_ids" in widest.tensors:
            rows, self._width = widest.tensors["input_ids"].shape
            self._tokens = rows * self._width
            if widest.boundaries is not None:
                self._max_seqlen = widest.boundaries.max_seqlen

    def of(self, batch: Batch) -> Shape:
        """Return the shape to which a batch is padded."""
        tensors, boundaries = batch.tensors, batch.boundaries
        labels = batch.targets if "labels" in tensors else None
        sizes = dict[str, tuple[int, ...]]()
        if boundaries is None:
            rows, width = self._padded(batch)
            for name, tensor in tensors.items():
                size = tuple(tensor.shape)
                if self._is_of_tokens(name, batch):
                    size = (rows, width)
                elif rows:
                    size = (rows, *size[1:])
                sizes[name] = size
            room = None if labels is None else _room(labels, rows * width)
            return Shape(_named(sizes, tensors), None, 0, room)
        max_seqlen = max(self._max_seqlen, boundaries.max_seqlen)
        tokens, segments = self._flat(batch, max_seqlen)
        was = len(boundaries.lengths)
        for name, tensor in tensors.items():
            if self._is_of_tokens(name, batch):
                sizes[name] = (1, tokens)
            elif name == _STARTS:
                sizes[name] = (segments + 1,)
            else:
                sizes[name] = (segments, *tensor.shape[1:]) if len(tensor) == was else tensor.shape
        room = None if labels is None else _room(labels, tokens)
        return Shape(_named(sizes, tensors), segments, max_seqlen, room)

    def _is_of_tokens(self, name: str, batch: Batch) -> bool:
        ids, tensor = batch.tensors.get("input_ids"), batch.tensors[name]
        return ids is not None and name in self._fillers and tensor.shape == ids.shape

    def _padded(self, batch: Batch) -> tuple[int, int]:
        """Return numbers of rows and columns; 0 for a batch that is no text."""
        ids = batch.tensors.get("input_ids")
        if ids is None or "input_ids" not in self._fillers:
            return 0, 0
        rows, width = ids.shape
        columns = max(width, min(_rounded(width, _COLUMNS), self._width))
        if not all(name in self._fillers for name in batch.tensors):
            return rows, columns  # a row of padding has no value of that tensor
        tokens = max(rows * columns, self._tokens)
        return max(rows, min(_rounded(rows, 1), tokens // columns)), columns

    def _flat(self, batch: Batch, max_seqlen: int) -> tuple[int, int]:
        """Return numbers of tokens and of segments that have room for the batch's and padding.

        Each segment of padding has between one and `max_seqlen` tokens.
        """
        boundaries = batch.boundaries
        assert boundaries is not None
        tokens, segments = boundaries.rows * boundaries.width, len(boundaries.lengths)
        if not all(name in self._fillers or name == _STARTS for name in batch.tensors):
            return tokens, segments  # a document of padding has no value of that tensor
        room = segments + 1
        while True:
            padded = max(_SEGMENTS, bucket(room))
            least = tokens + padded - segments
            most = self._tokens + self._tokens // _SPARE  # padding included
            whole = most if least <= most < _rounded(least) else _rounded(least)
            needed = -(-(whole - tokens) // max_seqlen)
            if padded - segments >= needed:
                return whole, padded
            room = segments + needed


def _rounded(count: int, least: int = _LEAST) -> int:
    """Return a count rounded up to one of eight sizes between two powers of two."""
    step = max(least, bucket(count) >> (_EIGHTHS + 1))
    return -(-count // step) * step


def _room(labels: int, tokens: int) -> int:
    """Return room for labels, in sixteenths of the tokens: their share is much the same."""
    step = max(1, tokens // 16)
    return min(tokens, -(-max(1, labels) // step) * step)


def _named(
    sizes: Mapping[str, Sequence[int]], tensors: Mapping[str, Tensor]
) -> tuple[tuple[str, tuple[int, ...], torch.dtype], ...]:
    return tuple((name, tuple(size), tensors[name].dtype) for name, size in sizes.items())


class FixedInputs:
    """The tensors of one shape on the device, and the arguments beside them, for `forward`."""

    def __init__(self, shape: Shape, fillers: Mapping[str, int], device: torch.device) -> None:
        self.shape, self._device = shape, device
        self._fillers = fillers
        self.arguments: dict[str, Any] = {}
        for name, size, dtype in shape.sizes:
            value = fillers.get(name, 0)
            self.arguments[name] = torch.full(size, value, dtype=dtype, device=device)
        if shape.targets is not None:
            self.arguments["targets"] = shape.targets
        sizes = {name: size for name, size, _ in shape.sizes}
        self._tokens = sizes.get("input_ids", ())  # [rows, columns], as all tensors of tokens

    def load(self, batch: Batch) -> float:
        """Copy a batch of the shape; return by what its loss must be multiplied.

        The loss of token labels is their sum over `targets`, which here is the room for them.
        """
        boundaries = batch.boundaries
        if boundaries is not None:
            self._set_boundaries(boundaries)
        for name, tensor in batch.tensors.items():
            if boundaries is not None and name == _STARTS:
                continue
            fixed = self.arguments[name]
            is_of_tokens = name in self._fillers and fixed.shape == self._tokens
            is_flat = is_of_tokens and boundaries is not None
            source = pinned(tensor.reshape(1, -1) if is_flat else tensor, self._device)
            if source.shape != fixed.shape:
                fixed.fill_(self._fillers[name])
                if name == _MASK:  # a row of padding sees itself: nothing is divided by 0
                    fixed[len(source) :].fill_(1)
            room = fixed[tuple(map(slice, source.shape))]
            room.copy_(source, non_blocking=True)
        return 1.0 if self.shape.targets is None else self.shape.targets / max(1, batch.targets)

    def _set_boundaries(self, batch: Boundaries) -> None:
        shape, starts = self.shape, self.arguments[_STARTS]
        assert shape.segments is not None
        tokens = self._tokens[1]
        lengths = (*batch.lengths, *_padding(batch, tokens, shape.segments))
        host = torch.tensor((0, *lengths), dtype=torch.int64).cumsum(0).to(starts.dtype)
        starts.copy_(pinned(host, self._device), non_blocking=True)
        self.arguments["boundaries"] = replace(
            batch,
            cu_seqlens=starts,
            lengths=lengths,
            max_seqlen=shape.max_seqlen,
            rows=1,
            width=tokens,
            bound=shape.max_seqlen,
        )


def _padding(batch: Boundaries, tokens: int, segments: int) -> tuple[int, ...]:
    """Return the lengths of the segments of padding, which differ by at most one."""
    pads, count = tokens - batch.rows * batch.width, segments - len(batch.lengths)
    if not count:
        return ()
    each, more = divmod(pads, count)
    return (each + 1,) * more + (each,) * (count - more)
