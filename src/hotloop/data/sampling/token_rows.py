"""Provide rows of tokens from the mapped file: padded, or as one row without padding.

Labels are at the position of their own token, as in transformers: the loss shifts them by one.
The first token of each document has the label -100, because the token
before it belongs to another document or to none. So no token is predicted from another document,
and every other label counts exactly once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view

from hotloop.core.digest import digest
from hotloop.core.document_boundaries import Boundaries, bucket
from hotloop.core.errors import DataError, did_you_mean
from hotloop.core.storage.manifest import read_manifest
from hotloop.data.sampling.epoch_order import permutation
from hotloop.data.sampling.host_buffers import Buffers, pinned
from hotloop.data.sampling.length_buckets import bucketed
from hotloop.data.sampling.mapped_rows import MASKS, Located, RowMap
from hotloop.data.sampling.padded_widths import MULTIPLE, rounded_up
from hotloop.data.tokenising.token_store import FILE
from hotloop.session.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from hotloop.data.tokenising.token_store import Store

__all__ = ["FILLERS", "NO_LOSS", "Form", "TokenRows"]

NO_LOSS: Final = -100  # ignore_index of torch.nn.functional.cross_entropy
# Values of padding without loss, by tensor; for `Job.fillers`.
FILLERS: Final = {
    "input_ids": 0,
    "labels": NO_LOSS,
    "position_ids": 0,
    "token_type_ids": 0,
    "attention_mask": 0,
}
_VERSION: Final = 1  # raise it when the same rows and settings give other samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How rows become tensors."""

    pad: int  # id of padding
    layout: Literal["padded", "flat"] = "padded"  # [rows, width], or all rows in one: [1, tokens]
    round_to: int = MULTIPLE  # columns: widths are multiples of it
    has_labels: bool = True  # one for each token; a classifier needs none
    has_positions: bool = True  # position_ids, if a row of tensors holds several documents
    pin: bool = False  # put batches into pinned memory; needs a CUDA GPU


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Places:
    """The source of the values of each slot of a batch."""

    located: Located
    begins: NDArray[np.int64]  # [rows] index of the first token in the view of input_ids
    tokens: NDArray[np.int64]  # [tokens] indices in that view, for a flat batch; else empty
    counts: NDArray[np.int64]  # [rows] tokens of each row
    shape: tuple[int, int]
    short: list[tuple[int, int]]  # rows with padding: (row, its tokens)
    segments: NDArray[np.int64] | None  # length of each, none empty; None: each row is one segment
    firsts: NDArray[np.int64]  # slots of the first tokens of segments
    documents: int  # segments that are not padding


class TokenRows:
    """Samples of one split of a token folder: shuffled for training, else in file order.

    `like` is the number of rows of an optimizer step: rows of similar length then share a step (see
    `length_buckets.bucketed`). Batches have input_ids; labels; position_ids and cu_seqlens if
    documents share a row; attention_mask (bool) if rows of one document are padded; token_type_ids
    and label [rows] if the file has them, a label of text as its index in `label_names`. All
    tensors are int64 but cu_seqlens, which is int32 and does not have one entry a row. A batch
    stays valid as long as anything refers to it. Not thread-safe.
    """

    in_memory = True

    def __init__(
        self,
        store: Store,
        split: str,
        *,
        form: Form,
        seed: int,
        shuffle: bool,
        like: int | None = None,
        rows: NDArray[np.int64] | None = None,
        beside: Mapping[str, NDArray[np.int64]] | None = None,
    ) -> None:
        """Map a split, or some `rows` of it, which keep their order if nothing is shuffled.

        `beside` has further tensors [rows] of each batch, as columns [rows of the file], which must
        be right for the chosen rows; "label" there replaces the file's own. Raises DataError for a
        split that does not exist or has no row.
        """
        if split not in store.splits:
            raise DataError(
                f"{store.folder} has no split {split!r}, but {', '.join(sorted(store.splits))}"
                f"{did_you_mean(split, store.splits)}"
            )
        self.form, self.seed, self.shuffle, self.like = form, seed, shuffle, like
        self._map = RowMap(store.folder / split / FILE)
        if not self._map.rows:
            raise DataError(f"{store.folder / split} has no row: make it of a source with rows")
        # The file's rows that an epoch has, [len(self)].
        self.chosen = np.arange(self._map.rows) if rows is None else rows
        names = self._map.names
        self.is_packed = "seq_lengths" in names
        self._mask = next((name for name in MASKS if name in names), None)
        self._has_types = "token_type_ids" in names
        self._beside = dict(beside or {})
        self.label_names: tuple[str, ...] = ()
        if "label" not in self._beside:
            self.label_names, labels = _labels(store, split)
            self._beside |= {} if labels is None else {"label": labels}
        self.fingerprint = _fingerprint(store, split, self)
        for name, column in sorted((beside or {}).items()):
            self.fingerprint += f", {name} {digest(column[self.chosen].tobytes())}"
        if rows is not None:
            self.fingerprint += f", {len(rows)} of its rows {digest(rows.tobytes())}"
        self._buffers = Buffers(pinned if form.pin else None)
        self._numbers = np.arange(1 << 12, dtype=np.int32)
        self._windows = lru_cache(maxsize=64)(self._windows_of)
        self._order: tuple[int, NDArray[np.int64]] | None = None

    def __len__(self) -> int:
        """Return the number of rows of one epoch."""
        return len(self.chosen)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Return the number of tokens of each row of the file, [rows]."""
        return self._map.counts("input_ids")

    @cached_property
    def longest(self) -> int:
        """Return the number of tokens of the longest row of an epoch."""
        return int(self.lengths[self.chosen].max())

    def ids(self, epoch: int, first: int, count: int) -> NDArray[np.int64]:
        """Return the rows of samples first..first+count-1 of the epoch, [count]."""
        n = len(self.chosen)
        if not 0 <= first <= first + count <= n:
            raise IndexError(f"samples {first}..{first + count - 1} asked for, an epoch has {n}")
        if not self.shuffle:
            return self.chosen[first : first + count]
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, self._shuffled(epoch)
        return self._order[1][first : first + count]

    def batch(self, epoch: int, first: int, count: int) -> Batch:
        """Return samples first..first+count-1 of the epoch as a batch."""
        return self.gather(self.ids(epoch, first, count))

    def gather(self, rows: NDArray[np.int64], *, width: int | None = None) -> Batch:
        """Return rows of the file as one batch; padded to `width` columns, or to the longest."""
        places, form = self._places(rows, width), self.form
        names = ["input_ids"]
        if form.has_labels:
            names.append("labels")
        if form.has_positions and places.segments is not None:
            names.append("position_ids")
        if self._has_types:
            names.append("token_type_ids")
        array, tensor = self._buffers.take(len(names), *places.shape)
        arrays = dict(zip(names, array, strict=True))
        tensors = dict(zip(names, tensor.unbind(), strict=True))
        self._read("input_ids", places, arrays["input_ids"], form.pad)
        if self._has_types:
            self._read("token_type_ids", places, arrays["token_type_ids"], 0)
        targets = len(rows)
        if form.has_labels:
            targets = self._learned(places, arrays["input_ids"], arrays["labels"])
        boundaries = self._boundaries(places, arrays.get("position_ids"))
        if boundaries is not None:
            tensors["cu_seqlens"] = boundaries.cu_seqlens
        else:
            mask = np.ones(places.shape, np.bool_)
            _blank(mask, places, False)
            tensors["attention_mask"] = _tensor(mask, pin=form.pin)
        for name, column in self._beside.items():
            tensors[name] = _tensor(column[rows], pin=form.pin)
        return Batch(
            tensors=tensors,
            samples=len(rows),
            tokens=places.shape[0] * places.shape[1],
            targets=targets,
            boundaries=boundaries,
        )

    def widest(self, count: int) -> Batch:
        """Return a batch of `count` of the longest rows; some may occur twice."""
        longest = self.chosen[np.argsort(-self.lengths[self.chosen], kind="stable")[:count]]
        return self.gather(np.resize(longest, count))

    def _shuffled(self, epoch: int) -> NDArray[np.int64]:
        if self.like is None:
            return self.chosen[permutation(self.seed, epoch, len(self.chosen))]
        lengths = self.lengths[self.chosen]
        order = bucketed(
            lengths, self.like, seed=self.seed, epoch=epoch, round_to=self.form.round_to
        ).order
        return self.chosen[order]

    def _places(self, rows: NDArray[np.int64], width: int | None) -> _Places:
        is_flat = self.form.layout == "flat"
        located = self._map.locate(rows)
        begins, counts = self._map.spans("input_ids", located)
        short: list[tuple[int, int]] = []
        if is_flat:
            shape = 1, int(counts.sum())
        else:
            longest = max(int(counts.max()), width or 1)
            shape = len(rows), rounded_up(longest, self.form.round_to)
            short = [(row, n) for row, n in enumerate(counts.tolist()) if n < shape[1]]
        documents = counts
        segments = counts if is_flat else None
        if self.is_packed:
            first, row_documents = self._map.spans("seq_lengths", located)
            documents = self._map.view("seq_lengths")[self._runs(first, row_documents)].astype(
                np.int64
            )
            segments = documents
            if short:
                segments = _with_padding(documents, row_documents, shape[1] - counts)
        if segments is None:
            firsts = counts.nonzero()[0] * shape[1]
        else:
            if not segments.all():
                segments = segments[segments > 0]
            firsts = segments.cumsum() - segments
        return _Places(
            located=located,
            begins=begins,
            tokens=self._runs(begins, counts) if is_flat else begins[:0],
            counts=counts,
            shape=shape,
            short=short,
            segments=segments,
            firsts=firsts,
            documents=int(np.count_nonzero(documents)),
        )

    def _read(self, name: str, places: _Places, out: NDArray[Any], pad: int) -> None:
        """Copy the values of a column into their slots."""
        view, width, begins = self._map.view(name), places.shape[1], places.begins
        if name != "input_ids":
            begins = self._map.beside(name, begins, places.located)
        if self.form.layout == "flat":
            tokens = places.tokens
            if name != "input_ids":
                tokens = tokens + (begins - places.begins).repeat(places.counts)
            out.reshape(-1)[...] = view.take(tokens)
        elif int(begins.max()) + width <= len(view):
            out[...] = self._windows(name, width)[begins]
        else:  # the last rows of the file
            columns = begins[:, None] + self._count(width)
            out[...] = view.take(columns, mode="clip")
        _blank(out, places, pad)

    def _windows_of(self, name: str, width: int) -> NDArray[Any]:
        """Return the runs of `width` values that begin at each index of the view; no copy."""
        return sliding_window_view(self._map.view(name), width)

    def _learned(self, places: _Places, ids: NDArray[np.int64], labels: NDArray[np.int64]) -> int:
        """Write the labels; return how many tokens carry loss."""
        np.copyto(labels, ids)
        labels.reshape(-1)[places.firsts] = NO_LOSS
        if self._mask is None:
            _blank(labels, places, NO_LOSS)
            return int(places.counts.sum()) - places.documents
        keep = np.empty(places.shape, np.uint8)
        self._read(self._mask, places, keep, 0)
        keep.reshape(-1)[places.firsts] = 0
        drop = keep == 0
        np.copyto(labels, NO_LOSS, where=drop)
        return int(drop.size - np.count_nonzero(drop))

    def _boundaries(
        self, places: _Places, positions: NDArray[np.int64] | None
    ) -> Boundaries | None:
        """Return where segments begin, and write the position of each token in its segment."""
        segments, (rows, width) = places.segments, places.shape
        if segments is None:
            return None
        starts = np.empty(len(segments) + 1, np.int32)
        starts[:-1], starts[-1] = places.firsts, rows * width
        if positions is not None:
            begins = starts[:-1].repeat(segments)  # int32: half as wide, a third of the time
            np.subtract(self._count(len(begins)), begins, out=begins)
            np.copyto(positions.reshape(-1), begins)
        return Boundaries(
            cu_seqlens=_tensor(starts, pin=self.form.pin),
            lengths=tuple(segments.tolist()),
            max_seqlen=bucket(int(segments.max(initial=1))),
            rows=rows,
            width=width,
        )

    def _count(self, count: int) -> NDArray[np.int32]:
        """Return 0, 1, ... count - 1."""
        if count > len(self._numbers):
            self._numbers = np.arange(bucket(count), dtype=np.int32)
        return self._numbers[:count]

    def _runs(self, begins: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return begin, begin + 1, ... of each pair, `count` numbers, one after another."""
        indices: NDArray[np.int64] = (begins - counts.cumsum() + counts).repeat(counts)
        indices += self._count(len(indices))
        return indices


def _with_padding(
    documents: NDArray[np.int64], row_documents: NDArray[np.int64], pads: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the segments of rows, of which each has its documents and then padding."""
    rows = np.arange(len(row_documents))
    segments = np.empty(len(documents) + len(rows), np.int64)
    segments[np.arange(len(documents)) + rows.repeat(row_documents)] = documents
    segments[row_documents.cumsum() + rows] = pads
    return segments


def _blank(slots: NDArray[Any], places: _Places, value: int | bool) -> None:
    """Fill the padding. Packed rows are seldom short, and slices are quick to fill."""
    for row, count in places.short:
        slots[row, count:] = value


def _tensor(array: NDArray[Any], *, pin: bool) -> Tensor:
    tensor = torch.from_numpy(array)
    return tensor.pin_memory() if pin else tensor


def _labels(store: Store, split: str) -> tuple[tuple[str, ...], NDArray[np.int64] | None]:
    """Return the names of text labels, of all splits, and the label of each row."""
    if "label" not in store.splits[split].names:
        return (), None
    words = store.splits[split].words("label")
    if not isinstance(words[0], str):
        return (), np.array(words, np.int64)
    everywhere: set[str] = set()
    for file in store.splits.values():
        everywhere.update(file.words("label") if "label" in file.names else ())
    names = tuple(sorted(everywhere))
    place = {name: index for index, name in enumerate(names)}
    return names, np.array([place[word] for word in words], np.int64)


def _fingerprint(store: Store, split: str, rows: TokenRows) -> str:
    """Return everything that decides what a sample is and where in an epoch it comes."""
    files = read_manifest(store.folder)["files"]
    assert isinstance(files, dict)
    order = f"shuffled by seed {rows.seed}" if rows.shuffle else "in order"
    if rows.shuffle and rows.like is not None:
        order += f", {rows.like} of like length (multiples of {rows.form.round_to}) together"
    labels = f", labels {', '.join(rows.label_names)}" if rows.label_names else ""
    return (
        f"token rows {_VERSION}, {split} {files[f'{split}/{FILE}']['xxh3_128']}, "
        f"{rows.form.layout}, padding {rows.form.pad}{labels}, {order}"
    )
