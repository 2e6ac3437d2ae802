"""Counts the evaluation rows that were trained on before the evaluation.

Rows that an evaluation shares with another model's training, as in cross-validation, are no leak.
Nor are rows from a set so small that training repeats its own rows as often.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from hotloop.observe.probes.loader_samples import LoaderSamples
    from hotloop.observe.probes.rows import Row

    Visit = tuple[int, int]  # number of a loader, and its epoch

__all__ = ["by_chance", "reads_training_data", "shared", "trained_before"]

_FEWEST = 3  # equal rows: one or two prove nothing about the others
_MARGIN = 0.05  # by which the share must exceed that of chance


def trained_before(
    order: Sequence[Visit], trains: Collection[int]
) -> Iterator[tuple[Visit, frozenset[Visit]]]:
    """Yield each evaluation, and the training epochs that were read since the last evaluation.

    `order` are the epochs of all loaders in order of reading; the loaders in `trains` feed
    training. A training epoch that continues after an evaluation need not appear again in `order`.
    """
    since: set[Visit] = set()
    evaluated = False
    for visit in order:
        if visit[0] not in trains:
            evaluated = True
            yield visit, frozenset(since)
        else:
            since = {visit} if evaluated else since | {visit}
            evaluated = False


def shared(
    order: Sequence[Visit],
    samples: Mapping[int, LoaderSamples],
    lengths: Mapping[int, int | None],
    number: int,
) -> float | None:
    """Return the share of the rows of loader `number` that were trained on before; None: unknown.

    `lengths` are those of the data sets that feed training; the sampled rows stand for all rows. 0
    if chance explains the share.
    """
    shares: list[tuple[float, int]] = []
    for visit, trained in trained_before(order, lengths):
        evaluated = samples[visit[0]].rows.get(visit[1]) if visit[0] == number else None
        if evaluated and trained:
            share = _share(evaluated, samples, visit, trained, lengths)
            shares += [(share, len(evaluated))] if share is not None else []
    total = sum(count for _, count in shares)
    return sum(share * count for share, count in shares) / total if total else None


def _share(
    evaluated: Sequence[Row | None],
    samples: Mapping[int, LoaderSamples],
    visit: Visit,
    trained: frozenset[Visit],
    lengths: Mapping[int, int | None],
) -> float | None:
    names = samples[visit[0]].names
    rows: set[Row] = set()  # of training, with the fields that both sides have
    distinct: dict[int, set[Row]] = {}  # of each loader
    epochs: list[list[Row]] = []
    common = set(names[1:])
    for loader, _ in trained:
        common &= set(samples[loader].names[1:])
    for loader, epoch in sorted(trained):
        projected = _projected(samples[loader].rows.get(epoch, ()), samples[loader].names, common)
        distinct[loader] = distinct.get(loader, set()) | set(projected)
        rows |= set(projected)
        epochs.append(projected)
    evaluation_rows = _projected(evaluated, names, common)
    if not rows:
        return None
    equal = sum(row in rows for row in evaluation_rows)
    share = equal / len(evaluated)
    if equal < _FEWEST or share < by_chance(epochs) + _MARGIN:
        return 0.0
    known_lengths = [lengths[loader] for loader in distinct]
    whole = sum(length or 0 for length in known_lengths)
    covered = sum(map(len, distinct.values())) / whole if whole and all(known_lengths) else 1.0
    return min(1.0, share / min(1.0, covered))


def _projected(
    rows: Sequence[Row | None], names: Sequence[str], common: Collection[str]
) -> list[Row]:
    """Return the known rows, reduced to the main input and the fields that both sides have."""
    places = [0, *sorted(index for index, name in enumerate(names) if index and name in common)]
    places[1:] = sorted(places[1:], key=lambda index: names[index])
    return [tuple(row[index] for index in places) for row in rows if row is not None]


def by_chance(epochs: Sequence[Sequence[Row]]) -> float:
    """Return the probability that a further row equals one of these: 1 - share that came once.

    Good 1953, doi:10.1093/biomet/40.3-4.237 (the frequencies of species).
    """
    total = once = 0
    for rows in epochs:
        total += len(rows)
        once += sum(count == 1 for count in Counter(rows).values())
    return 1 - once / total if total else 0.0


def reads_training_data(
    order: Sequence[Visit],
    samples: Mapping[int, LoaderSamples],
    trains: Collection[int],
    number: int,
) -> bool:
    """Whether the loader reads the same data set object that training read before."""
    return any(
        samples[loader].data == samples[number].data != 0
        for visit, trained in trained_before(order, trains)
        if visit[0] == number
        for loader, _ in trained
    )
