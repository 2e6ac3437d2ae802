"""Describe a data set in tokens: lengths, truncation, padding, copies, labels and samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.codec import to_json
from hotloop.core.errors import DataError
from hotloop.data.sampling.padded_widths import MULTIPLE, rounded_up
from hotloop.data.statistics.decoded_documents import decoder, spans
from hotloop.data.statistics.duplicates import Copies, copies
from hotloop.data.statistics.padding_strategies import Padding, strategies
from hotloop.data.tokenising.packing import best_fit, pieces, waste

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.statistics.decoded_documents import Span
    from hotloop.data.statistics.document_digests import Digested

__all__ = [
    "BATCH",
    "Bin",
    "CopiedDocuments",
    "Label",
    "LengthStatistics",
    "Split",
    "Strategy",
    "TokenStatistics",
    "Truncation",
    "recommended",
    "statistics",
]

BATCH: Final = 16  # rows of a batch
BINS: Final = 24
POWERS: Final = 10  # lengths at which truncation is given by default
SMALL, LARGE = 5, 9  # exponents of the first one: nobody cuts at less than 32 tokens, and for long
# documents 512 is of interest
ENOUGH: Final = 0.02  # of the slots: a smaller saving is not worth another order of the data
SCHEMA: Final = 1  # of to_json; history: 1 (2026-11) first


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthStatistics:
    """Tokens of a document; each value but the mean is the length of one of the documents."""

    min: int
    median: int
    mean: float
    p95: int
    p99: int
    max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """The documents of `low` to `high` tokens, both included."""

    low: int
    high: int
    documents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The loss when documents are cut off after `length` tokens."""

    length: int
    documents: float  # share of those that are longer, 0 to 1
    tokens: float  # share of all tokens that is lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One way to make batches."""

    name: str  # max, dynamic, bucketed, budget or packed
    padding: float  # share of the slots of an epoch, 0 to 1
    steps: int  # batches of an epoch
    saves: float  # share of dynamic's slots for a token: 0.25 is a quarter fewer; below 0: more
    lost: float  # share of all tokens that is cut off


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """One label."""

    name: str
    documents: int
    share: float  # of the labelled documents, 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The documents of one split."""

    name: str
    documents: int
    tokens: int
    learned: int  # tokens that carry loss
    unlearned: int  # documents in which no token does
    bad: int  # rows that were left out
    lengths: LengthStatistics
    histogram: tuple[Bin, ...]
    cuts: tuple[Truncation, ...]
    strategies: tuple[Strategy, ...]
    recommended: str
    why: str
    labels: tuple[Label, ...]  # the most frequent first
    imbalance: float | None  # documents of the most frequent label over those of the rarest
    samples: tuple[tuple[Span, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedDocuments:
    """Documents that are copies, and the text of one of them."""

    copies: Copies
    text: tuple[Span, ...]  # empty: there is no copy


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStatistics:
    """The statistics of a data set."""

    name: str
    tokenizer: str
    shape: str
    batch: int  # rows
    length: int  # tokens of the longest row that a batch takes
    multiple: int  # to which widths of padded batches are rounded up
    splits: tuple[Split, ...]
    copies: tuple[CopiedDocuments, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return to_json(self, schema=SCHEMA)


def statistics(
    splits: Sequence[Digested],
    *,
    name: str,
    tokenizer: str,
    source: str | None,
    shape: str,
    batch: int = BATCH,
    length: int | None = None,
    multiple: int = MULTIPLE,
    lengths: Sequence[int] = (),
    samples: int = 2,
    notes: Sequence[str] = (),
) -> TokenStatistics:
    """Return the statistics of splits.

    `source` is the text of tokenizer.json; without it samples are ids. `length` is in tokens, by
    default the longest document rounded up to 64; `lengths` are those at which truncation is given,
    by default powers of two. Batches are as wide as their longest row, rounded up to `multiple`.
    Raises DataError when there is no document.
    """
    if not splits:
        raise DataError("there is no split: name files of rows, or a folder of tokens")
    longest = max(int(digested.lengths.max()) for digested in splits)
    length = length or rounded_up(longest, 64)
    decode = decoder(source)
    by_name = {digested.split: digested for digested in splits}

    def text(split: str, index: int | None) -> tuple[Span, ...]:
        return () if index is None else spans(by_name[split].tokens(index), decode)

    copied = copies({digested.split: digested.digests for digested in splits})
    return TokenStatistics(
        name=name,
        tokenizer=tokenizer,
        shape=shape,
        batch=batch,
        length=length,
        multiple=multiple,
        splits=tuple(
            _split(
                digested,
                shape=shape,
                batch=batch,
                length=length,
                multiple=multiple,
                lengths=lengths,
                samples=tuple(
                    text(digested.split, n) for n in range(min(samples, len(digested.lengths)))
                ),
            )
            for digested in splits
        ),
        copies=tuple(
            CopiedDocuments(copies=pair, text=text(pair.split, pair.example)) for pair in copied
        ),
        notes=tuple(notes),
    )


def _split(
    digested: Digested,
    *,
    shape: str,
    batch: int,
    length: int,
    multiple: int,
    lengths: Sequence[int],
    samples: tuple[tuple[Span, ...], ...],
) -> Split:
    ways = _strategies(digested.lengths, batch=batch, length=length, multiple=multiple)
    is_encoder = shape == "pair" or bool(digested.labels)
    chosen, why = recommended(
        ways,
        digested.lengths,
        batch=batch,
        length=length,
        is_encoder=is_encoder,
        is_whole=digested.is_whole,
    )
    labels = _labels(digested.labels)
    return Split(
        name=digested.split,
        documents=len(digested.lengths),
        tokens=int(digested.lengths.sum()),
        learned=digested.learned,
        unlearned=digested.unlearned,
        bad=digested.bad,
        lengths=_lengths(digested.lengths),
        histogram=_histogram(digested.lengths),
        cuts=tuple(
            _cut(digested.lengths, limit)
            for limit in sorted(set(lengths)) or _powers(digested.lengths)
        ),
        strategies=ways,
        recommended=chosen,
        why=why,
        labels=labels,
        imbalance=labels[0].documents / labels[-1].documents if labels else None,
        samples=samples,
    )


def _lengths(lengths: NDArray[np.int64]) -> LengthStatistics:
    middle, p95, p99 = np.quantile(lengths, (0.5, 0.95, 0.99), method="inverted_cdf").tolist()
    return LengthStatistics(
        min=int(lengths.min()),
        median=int(middle),
        mean=float(lengths.mean()),
        p95=int(p95),
        p99=int(p99),
        max=int(lengths.max()),
    )


def _histogram(lengths: NDArray[np.int64]) -> tuple[Bin, ...]:
    """Count documents by bins whose widths grow geometrically."""
    low, high = int(lengths.min()), int(lengths.max()) + 1
    edges = np.unique(np.geomspace(low, high, min(BINS, high - low) + 1).round().astype(np.int64))
    counts, _ = np.histogram(lengths, edges)
    return tuple(
        Bin(low=int(first), high=int(end) - 1, documents=int(count))
        for first, end, count in zip(edges, edges[1:], counts, strict=False)
    )


def _powers(lengths: NDArray[np.int64]) -> list[int]:
    """Return powers of two up to one that cuts no document, POWERS at most."""
    low, last = (int(length - 1).bit_length() for length in (lengths.min(), lengths.max()))
    first = max(min(low, LARGE), min(SMALL, last), last - POWERS + 1)
    return [1 << power for power in range(first, last + 1)]


def _cut(lengths: NDArray[np.int64], limit: int) -> Truncation:
    over = lengths[lengths > limit]
    return Truncation(
        length=limit,
        documents=len(over) / len(lengths),
        tokens=int((over - limit).sum()) / int(lengths.sum()),
    )


def _strategies(
    lengths: NDArray[np.int64], *, batch: int, length: int, multiple: int
) -> tuple[Strategy, ...]:
    """Return all strategies; packing cuts long documents into pieces, the others truncate them."""
    by_name = strategies(lengths, batch=batch, longest=length, round_to=multiple)
    lost = _cut(lengths, length).tokens
    if lost:
        piece_lengths = pieces(lengths, length).count
        rows = len(best_fit(piece_lengths, length))
        by_name["packed"] = Padding(
            share=waste(piece_lengths, rows, length), batches=-(-rows // batch)
        )
    usual = 1 - by_name["dynamic"].share
    return tuple(
        Strategy(
            name=name,
            padding=padding.share,
            steps=padding.batches,
            saves=1 - usual / (1 - padding.share),
            lost=0.0 if name == "packed" else lost,
        )
        for name, padding in by_name.items()
    )


def recommended(
    ways: Sequence[Strategy],
    lengths: NDArray[np.int64],
    *,
    batch: int,
    length: int,
    is_encoder: bool,
    is_whole: bool,
) -> tuple[str, str]:
    """Return the strategy to take, and why.

    Packing suits texts that a decoder continues; an encoder reads one pair or one labelled text a
    row, and takes batches by a token budget. If not `is_whole`, the documents are pieces.
    """
    by_name = {way.name: way for way in ways}
    usual, clipped = by_name["dynamic"], lengths.clip(max=length)
    long = int((lengths > length).sum())
    if len(lengths) <= batch and not long:
        if is_encoder:
            return "dynamic", f"one batch of {batch} rows holds all {len(lengths):,} documents"
        return "packed", (
            f"there are too few documents for batches of {batch}: rows of the length that the "
            "model takes (--length) are cut from them"
        )
    if long and not is_encoder:
        return "packed", (
            f"{long:,} of {len(lengths):,} documents are longer than {length:,} tokens: packing "
            f"cuts them into pieces and loses nothing, where cutting off loses {usual.lost:.1%} of "
            f"the tokens; {by_name['packed'].padding:.1%} padding"
        )
    if clipped.min() == clipped.max():
        return "max", f"all rows have {clipped.max():,} tokens: there is nothing to pad"
    best = by_name["budget" if is_encoder else "packed"]
    for other in ("budget", "bucketed"):
        if by_name[other].saves - best.saves > ENOUGH:
            best = by_name[other]
    if best.saves < ENOUGH:
        return "dynamic", (
            f"{best.name} would save {max(0.0, best.saves):.1%} of the slots, less than "
            f"{ENOUGH:.0%}: dynamic is enough"
        )
    return best.name, (
        f"{best.padding:.1%} padding where dynamic has {usual.padding:.1%}: {best.saves:.0%} fewer "
        f"slots to compute{_aside(best.name, is_encoder=is_encoder, is_whole=is_whole)}"
    )


def _aside(name: str, *, is_encoder: bool, is_whole: bool) -> str:
    if name == "packed":
        return ", and every document stays whole" * is_whole
    return "" if is_encoder else "; packed rows of this length would hold more padding"


def _labels(labels: Mapping[str, int]) -> tuple[Label, ...]:
    total = sum(labels.values())
    ranked = sorted(labels.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Label(name=name, documents=n, share=n / total) for name, n in ranked)
