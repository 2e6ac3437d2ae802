"""Describe the documents of a split by length and digest, without their tokens: 24 bytes each.

They are read from a token folder, or tokenised on the way and discarded. The tokens of an example
are read again when they are needed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import Faults
from hotloop.data.readers.formats import FORMATS
from hotloop.data.readers.records import work
from hotloop.data.tokenising.plan import prepared
from hotloop.data.tokenising.progress import PortionCounter, TokenizeProgress
from hotloop.data.tokenising.tokenize_portion import Turner
from hotloop.data.tokenising.worker_pool import turned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.readers.portions import Portion, RecordFile
    from hotloop.data.tokenising.arrow_file import TokenFile
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.token_store import Store
    from hotloop.data.tokenising.tokenize_portion import Setup, Turned

__all__ = ["Digested", "Tokens", "of_sources", "of_store"]

LABELS: Final = 1000  # different labels that are counted, at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tokens:
    """Tokens of one document; of a long text file, those of its first part."""

    ids: NDArray[Any]  # [tokens]
    mask: NDArray[np.uint8] | None = None  # [tokens], 1 where a token carries loss; None: all do
    more: int = 0  # tokens of the document after these


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digested:
    """The documents of one split."""

    split: str
    lengths: NDArray[np.int64]  # [documents], tokens of each
    digests: NDArray[np.uint64]  # [documents, 2], xxh3-128 of the ids
    learned: int  # tokens that carry loss
    unlearned: int  # documents in which no token does
    bad: int  # rows that were left out
    labels: Mapping[str, int]  # how often each occurs
    tokens: Callable[[int], Tokens]  # reads the document of this index again
    is_whole: bool = True  # False: texts were cut, and these are their pieces


def of_store(
    store: Store, *, notify: Callable[[TokenizeProgress], None] = lambda _: None
) -> tuple[list[Digested], list[str]]:
    """Return the documents of a token folder, split by split, and notes for a reader.

    In packed rows a document is one entry of seq_lengths: a piece, where a text was cut.
    """
    notes, documents = [], []
    columns = store.about["columns"]
    for split, file in store.splits.items():
        about = store.about["splits"][split]
        gathered = _Gathered()
        for batch in file.batches():
            notify(TokenizeProgress(what=f"{split}: {gathered.count:,} documents"))
            ids, _ = file.listed(batch, "input_ids")
            mask = None if columns["mask"] is None else file.listed(batch, columns["mask"])[0]
            gathered.add(ids, _lengths(file, batch), mask)
        cut = about["cut_off_tokens"]
        if (more := about["pieces"] - about["documents"]) > 0:
            notes.append(
                f"{split}: texts were cut, and there are {more:,} pieces more than texts: lengths "
                "and copies are those of pieces"
            )
        if cut:
            notes.append(f"{split}: {cut:,} tokens were cut off before")
        reader = _Reader(file=file, begun=gathered.begun, mask=columns["mask"])
        labels = Counter(about["labels"])
        bad = about["bad_rows"] - about.get("replaced_rows", 0)
        of_split = gathered.digested(split, reader.tokens, bad=bad, labels=labels)
        documents.append(replace(of_split, is_whole=more <= 0 and not cut))
    return documents, notes


def _lengths(file: TokenFile, batch: int) -> NDArray[np.int64]:
    if "seq_lengths" in file.names:
        return file.listed(batch, "seq_lengths")[0].astype(np.int64)
    return np.diff(file.listed(batch, "input_ids")[1]).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Find the tokens of a document in a file."""

    file: TokenFile
    begun: Sequence[int]  # documents before each batch
    mask: str | None

    def tokens(self, index: int) -> Tokens:
        batch = bisect_right(self.begun, index) - 1
        position = index - self.begun[batch]
        lengths = _lengths(self.file, batch)
        run = slice(int(lengths[:position].sum()), int(lengths[: position + 1].sum()))
        return Tokens(
            ids=self.file.listed(batch, "input_ids")[0][run],
            mask=None if self.mask is None else self.file.listed(batch, self.mask)[0][run],
        )


def of_sources(
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    *,
    notify: Callable[[TokenizeProgress], None] = lambda _: None,
) -> tuple[list[Digested], Setup, list[str]]:
    """Return the documents of files, split by split, how they were read, and notes.

    Only the settings of `order` that say how rows become tokens are used; nothing is written.
    Raises DataError where rows cannot be used (under the policy "stop" it lists them).
    """
    begun = prepared(sources, order).decided(order.backend)
    pace = PortionCounter(sources, notify)
    splits = dict.fromkeys(source.split for source in sources)
    digested = []
    for split in splits:
        files = [file for file in sources if file.split == split]
        digested.append(_turned(split, files, order, begun.setup, pace))
    return digested, begun.setup, list(begun.notes)


def _turned(
    split: str,
    sources: Sequence[RecordFile],
    order: TokenizeRequest,
    setup: Setup,
    pace: PortionCounter,
) -> Digested:
    gathered, faults, labels = _Gathered(), Faults(order.policy), Counter[str]()
    results = turned(
        _portions(sources, order.portion),
        setup,
        processes=order.workers(setup.backend),
        only_look=lambda: order.policy == "stop" and faults.count > 0,
    )
    with closing(results):
        for portion, result in results:
            faults.merge(result.faults)
            gathered.turned(portion, result)
            for label in map(str, result.words.get("label", ())):
                if label in labels or len(labels) < LABELS:
                    labels[label] += 1
            pace.count(portion, result)
    faults.raise_if_any(order.said)
    if not gathered.count:
        names = ", ".join(source.name for source in sources[:5])
        raise DataError(f"no row of {names} can be used: {faults}")

    def tokens(index: int) -> Tokens:
        number = bisect_right(gathered.begun, index) - 1
        portion = next(islice(_portions(sources, order.portion), number, None))
        encoded = Turner(setup).turn(portion).encoded
        ends = np.cumsum(encoded.lengths)
        position = index - gathered.begun[number]
        run = slice(int(ends[position] - encoded.lengths[position]), int(ends[position]))
        mask = encoded.columns.get("loss_mask")
        return Tokens(
            ids=encoded.ids[run],
            mask=None if mask is None else mask[run],
            more=int(digested.lengths[index] - encoded.lengths[position]),
        )

    bad = faults.count - faults.replaced
    digested = gathered.digested(split, tokens, bad=bad, labels=labels)
    return digested


def _portions(sources: Sequence[RecordFile], size: int) -> Iterator[Portion]:
    return (portion for source in sources for portion in work(source, size=size))


@dataclass(slots=True)
class _Gathered:
    """Lengths and digests of documents; pieces of a long text file are joined to one document."""

    count: int = 0  # documents that are whole
    begun: list[int] = field(default_factory=list)  # documents before each batch or portion
    _lengths: list[NDArray[np.int64]] = field(default_factory=list)
    _digests: list[bytes] = field(default_factory=list)
    _learned: int = 0
    _unlearned: int = 0
    _open: Any = None  # the digest of a document that is not whole yet
    _part: tuple[int, int] = (0, 0)  # its tokens, and those that carry loss

    def turned(self, portion: Portion, result: Turned) -> None:
        encoded = result.encoded
        mask = encoded.columns.get("loss_mask")
        if not FORMATS[portion.format].is_plain_text or portion.documents != "file":
            self.add(encoded.ids, encoded.lengths, mask)
            return
        self.begun.append(self.count + (self._open is not None))
        if len(encoded.ids):
            self._open = self._open or xxhash.xxh3_128()
            self._open.update(np.ascontiguousarray(encoded.ids).data)
            learned = len(encoded.ids) if mask is None else int(mask.sum())
            self._part = (self._part[0] + len(encoded.ids), self._part[1] + learned)
        if portion.is_last:
            self._close()

    def add(
        self, ids: NDArray[Any], lengths: NDArray[np.int64], mask: NDArray[np.uint8] | None
    ) -> None:
        """Add whole documents, one after the other in `ids`."""
        self.begun.append(self.count)
        if not len(lengths):
            return
        ends = np.cumsum(lengths)
        starts = ends - lengths
        size, view = ids.itemsize, np.ascontiguousarray(ids).data.cast("B")
        digest = xxhash.xxh3_128_digest
        places = zip((starts * size).tolist(), (ends * size).tolist(), strict=True)
        self._digests.append(b"".join([digest(view[begin:end]) for begin, end in places]))
        self._lengths.append(lengths)
        self.count += len(lengths)
        if mask is None:
            self._learned += int(ends[-1])
        else:
            learned = np.add.reduceat(mask, starts, dtype=np.int64)
            self._learned += int(learned.sum())
            self._unlearned += int((learned == 0).sum())

    def _close(self) -> None:
        if self._open is None:
            return
        self._digests.append(self._open.digest())
        self._lengths.append(np.array([self._part[0]], np.int64))
        self._learned += self._part[1]
        self._unlearned += self._part[1] == 0
        self.count += 1
        self._open, self._part = None, (0, 0)

    def digested(
        self,
        split: str,
        tokens: Callable[[int], Tokens],
        *,
        bad: int,
        labels: Mapping[str, int],
    ) -> Digested:
        """Return the documents added so far."""
        return Digested(
            split=split,
            lengths=np.concatenate(self._lengths),
            digests=np.frombuffer(b"".join(self._digests), np.uint64).reshape(-1, 2),
            learned=self._learned,
            unlearned=self._unlearned,
            bad=bad,
            labels=labels,
            tokens=tokens,
        )
