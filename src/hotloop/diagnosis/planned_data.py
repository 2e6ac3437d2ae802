"""Computes the facts about the data of a planned run: sizes, copies, cut-off tokens, padding."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.config.layers import COMMAND_LINE
from hotloop.core.case.planned_run import (
    PaddedRows,
    PlannedData,
    RepeatedLines,
    RowFacts,
    TextFacts,
    ValidationSize,
)
from hotloop.data.sampling.mapped_rows import RowMap
from hotloop.data.sampling.padded_widths import rounded_up
from hotloop.data.sampling.token_rows import TokenRows
from hotloop.data.statistics.document_digests import of_store
from hotloop.data.tokenising.token_store import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from hotloop.core.case.planned_run import DataKind
    from hotloop.data.sampling.labelled_rows import Labelled
    from hotloop.data.sampling.text_rows import Texts
    from hotloop.data.sampling.train_and_valid import Part
    from hotloop.data.tokenising.char_corpus import TokenSet
    from hotloop.jobs.job import PreparedRun

__all__ = ["data_of"]

READ: Final = 4_000_000  # characters of a part that are searched for lines
LONG_LINE: Final = 40  # characters: shorter lines repeat in any text
SHOWN: Final = 60  # characters of a line
UNSEEN: Final = 5  # characters that are named
STEPS: Final = 200  # optimizer steps of the first epoch whose padding is counted
_AT_ONCE: Final = 256  # validation rows that are counted together


def data_of(prepared: PreparedRun) -> PlannedData | None:
    """Return the facts about a run's data; None if the recipe's entry does not name their kind."""
    kind = prepared.request.recipe.data
    if kind is None:
        return None
    size, facts = _FACTS[kind](prepared)
    return PlannedData(
        kind=kind,
        samples=len(prepared.feed.samples),
        per_epoch=prepared.feed.per_epoch,
        in_memory=prepared.job.train.in_memory,
        validation=size,
        text=facts if isinstance(facts, TextFacts) else None,
        rows=facts if isinstance(facts, RowFacts) else None,
    )


# A text of characters.


def _read(prepared: PreparedRun) -> int:
    """Return how many samples one validation reads."""
    valid, most = len(prepared.job.valid), prepared.request.config.training.eval_batches
    return valid if most is None else min(valid, most * prepared.plan.micro_batch)


def _windows(prepared: PreparedRun) -> ValidationSize:
    read = _read(prepared)
    return ValidationSize(rows=read, targets=read * prepared.request.config.model.context)


def _of_characters(prepared: PreparedRun) -> tuple[ValidationSize, TextFacts]:
    return _windows(prepared), _text(prepared, prepared.data)  # type: ignore[arg-type]


def _text(prepared: PreparedRun, data: TokenSet) -> TextFacts:
    config, origin = prepared.request.config, prepared.request.origins["data.max_chars"]
    train, valid = (_long_lines(data, part) for part in (data.train, data.valid))
    seen, again = set[str](), list[str]()
    for line in train:
        (again.append if line in seen else seen.add)(line)
    leaked = [line for line in valid if line in seen]
    return TextFacts(
        context=config.model.context,
        train=len(data.train),
        valid=len(data.valid),
        by_next_char=config.objective == "next-char",
        limit=config.data.max_chars,
        limit_origin=None if origin == COMMAND_LINE else origin,
        unseen=data.about["unseen"],
        most_unseen=dict(data.about["most_unseen"][:UNSEEN]),
        looked_at=min(READ, len(data.train)),
        line=LONG_LINE,
        repeated=_lines(again, train, train),
        leaked=_lines(leaked, valid, leaked),
    )


def _long_lines(data: TokenSet, tokens: NDArray[np.uint16]) -> list[str]:
    text = data.vocabulary.decode(tokens[:READ])
    return [line for line in map(str.strip, text.split("\n")) if len(line) >= LONG_LINE]


def _lines(
    repeats: Sequence[str], lines: Sequence[str], shown: Sequence[str]
) -> RepeatedLines | None:
    """Return the share of `repeats` in `lines`, by characters, and the most frequent of `shown`."""
    if not shown:
        return None
    most, times = Counter(shown).most_common(1)[0]
    share = sum(map(len, repeats)) / sum(map(len, lines))
    return RepeatedLines(share=share, most=most[:SHOWN], times=times)


# Rows of tokens.


def _of_labels(prepared: PreparedRun) -> tuple[ValidationSize, RowFacts]:
    data: Labelled = prepared.data  # type: ignore[assignment]
    return ValidationSize(rows=len(data.valid.rows)), _labelled(prepared, data)


def _labelled(prepared: PreparedRun, data: Labelled) -> RowFacts:
    digests, names = _digests(data), data.classes.names
    train = digests[data.train.split][data.train.rows]
    labels = data.train.columns["label"][data.train.rows]
    _, text = np.unique(train, return_inverse=True)
    table = np.zeros((int(text.max()) + 1, len(names)), np.int64)
    np.add.at(table, (text, labels), 1)
    return _rows(
        prepared,
        data,
        leaked=_share_in(digests[data.valid.split][data.valid.rows], train),
        contradicting=int((table.sum(1) - table.max(1)).sum()),
        counts=dict(zip(names, data.train.counts(len(names)).tolist(), strict=True)),
        metric=prepared.request.config.metric,
    )


def _of_answers(prepared: PreparedRun) -> tuple[ValidationSize, RowFacts]:
    data: Texts = prepared.data  # type: ignore[assignment]
    digests = _digests(data)
    train, valid = (_texts(data, digests, part) for part in (data.train, data.valid))
    copies = len(train) - len(np.unique(train))
    leaked = _share_in(valid, train)
    facts = _rows(prepared, data, leaked=leaked, texts=len(train), copies=copies)
    return _tokens(prepared), facts


def _of_tasks(prepared: PreparedRun) -> tuple[ValidationSize, RowFacts]:
    data: Any = prepared.data
    digests, counts = _digests(data), _tasks(data, data.valid)
    least = min(counts, key=lambda name: counts[name])
    train, valid = (digests[part.split][part.rows] for part in (data.train, data.valid))
    facts = _rows(prepared, data, leaked=_share_in(valid, train), counts=_tasks(data, data.train))
    return ValidationSize(rows=counts[least], task=least), facts


def _rows(prepared: PreparedRun, data: Any, **known: object) -> RowFacts:
    about = data.store.about["splits"][data.train.split]
    return RowFacts(
        max_length=prepared.request.config.data.max_length,
        tokens=int(about["tokens"]),
        cut=int(about["cut_off_tokens"]),
        padding=_padding(prepared),
        **known,  # type: ignore[arg-type]
    )


def _tasks(data: Any, part: Part) -> dict[str, int]:
    """Return the number of rows of each task in a part."""
    counts = np.bincount(data.mixed.task[part.rows], minlength=len(data.names))
    return dict(zip(data.names, counts.tolist(), strict=True))


def _tokens(prepared: PreparedRun) -> ValidationSize:
    """Return the rows with answers that one validation reads, and their tokens that carry loss."""
    read, valid = _read(prepared), prepared.job.valid
    targets = sum(
        valid.batch(0, start, min(_AT_ONCE, read - start)).targets
        for start in range(0, read, _AT_ONCE)
    )
    return ValidationSize(rows=read, targets=targets)


def _share_in(digests: NDArray[np.uint64], known: NDArray[np.uint64]) -> float:
    return float(np.isin(digests, np.unique(known)).mean())


def _digests(data: Any) -> dict[str, NDArray[np.uint64]]:
    """Return the first half of the digest of each text's tokens, by split."""
    return {split.split: split.digests[:, 0] for split in of_store(data.store)[0]}


def _texts(data: Texts, digests: dict[str, NDArray[np.uint64]], part: Part) -> NDArray[np.uint64]:
    """Return the digests of the texts of a part.

    A packed row holds several texts; any other row is one text.
    """
    of_split, file = digests[part.split], RowMap(data.store.folder / part.split / FILE)
    if "seq_lengths" not in file.names:
        return of_split[part.rows]
    row = np.arange(file.rows).repeat(file.counts("seq_lengths"))
    return of_split[np.isin(row, part.rows)]


def _padding(prepared: PreparedRun) -> PaddedRows | None:
    """Return the share of padding in the first steps of an epoch; None if rows are not padded."""
    rows, feed = prepared.job.train, prepared.feed
    if not isinstance(rows, TokenRows) or rows.form.layout == "flat":
        return None
    real = computed = 0
    for step in range(min(STEPS, feed.steps_per_epoch)):
        first = step * feed.batch_size
        count = min(feed.batch_size, len(rows) - first)
        for start, size in feed.cut(rows, 0, first, count, prepared.plan.micro_batch):
            lengths = rows.lengths[rows.ids(0, start, size)]
            real += int(lengths.sum())
            computed += size * rounded_up(int(lengths.max()), rows.form.round_to)
    return PaddedRows(
        share=1 - real / computed,
        median=int(np.median(rows.lengths[rows.chosen])),
        longest=rows.longest,
        packed=rows.is_packed,
    )


_FACTS: Final[dict[DataKind, Callable[[PreparedRun], tuple[ValidationSize, Any]]]] = {
    "characters": _of_characters,
    "labels": _of_labels,
    "answers": _of_answers,
    "tasks": _of_tasks,
}
