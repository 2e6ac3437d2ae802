"""Divides labelled rows into parts that are alike: held-out rows, or folds; groups stay whole.

Pure functions of labels, groups and seed, in integers: the same on every machine. Every part has
every class, or the request is refused.

Without groups rows are dealt class by class, which gives each part its share of each class to
within one row. With groups they go one by one, the heaviest first, to the part that they leave the
most balanced. That is the greedy step of scikit-learn's StratifiedGroupKFold with a sum of squares
for its standard deviation, which has a bound (method of conditional expectations; Alon, Spencer,
The Probabilistic Method, chapter 16). Write s_p for the share of part p, d_pc for the rows of class
c in it less s_p times those of all, w_c = ceil(rows / rows of c), g_c for the rows of c in group g,
and let c also run over "all rows", of weight 1. Then with k parts
    sum over p, c of w_c d_pc^2 / s_p <= (k - 1) * sum over g, c of w_c g_c^2,
for a group put at random, into part p with chance s_p, adds (k - 1) w_c g_c^2 in the mean, and the
best part adds no more than the mean. Groups that must move for a part to have a class come on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import ConfigError, DataError
from hotloop.core.units import many
from hotloop.data.sampling.epoch_order import permutation

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

__all__ = ["folds", "held_out"]

_EPOCH: Final = 1 << 40  # no run trains so long, so none draws from this stream
_PARTS: Final = 10_000  # a share is a whole number of them
_ATTEMPTS: Final = 20  # at parts that all have every class; the first one nearly always succeeds
_SHOWN: Final = 5  # classes of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    shares: tuple[int, ...]  # of the parts, in whole numbers: 1, 1, 1 is three alike
    what: str  # as a message says it
    fewer: str  # what to do where there are too many parts


def held_out(
    labels: NDArray[np.integer[Any]],
    *,
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    share: float,
    seed: int,
    names: Sequence[str] | None = None,
) -> NDArray[np.bool_]:
    """Return which rows are held out, [rows]: about a `share` of each class, and one at least.

    labels are classes 0, 1, ... [rows]; names those of the classes, for messages. Rows of the same
    group are all held out or none of them; a row whose group is None stands for itself. A share
    counts to 1/10,000. Raises ConfigError for a share not in between 0 and 1, DataError for what
    cannot be divided.
    """
    part = round(share * _PARTS)
    if not 0 < part < _PARTS:
        raise ConfigError(f"share of held-out rows: expected one between 0 and 1, got {share}")
    request = _Request(
        shares=(_PARTS - part, part),
        what="training and held-out rows",
        fewer="name a file of held-out rows",
    )
    is_held: NDArray[np.bool_] = _divided(labels, groups, request, seed, names) == 1
    return is_held


def folds(
    labels: NDArray[np.integer[Any]],
    *,
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    count: int,
    seed: int,
    names: Sequence[str] | None = None,
) -> NDArray[np.int64]:
    """Return the fold of each row, 0..count-1, [rows].

    Arguments as of `held_out`. Raises ConfigError for fewer than 2 folds, DataError for what cannot
    be divided.
    """
    if count < 2:
        raise ConfigError(f"folds: expected 2 or more, got {count}")
    request = _Request(shares=(1,) * count, what=f"{count} folds", fewer="ask for fewer folds")
    return _divided(labels, groups, request, seed, names)


def _divided(
    labels: NDArray[np.integer[Any]],
    groups: Sequence[Hashable] | NDArray[Any] | None,
    request: _Request,
    seed: int,
    names: Sequence[str] | None,
) -> NDArray[np.int64]:
    of_row = np.arange(len(labels)) if groups is None else _numbered(groups)
    assert len(of_row) == len(labels), (len(of_row), len(labels))
    held = np.bincount(labels)
    named = names or [str(at) for at in range(len(held))]
    _check_rows(held, request, named)
    many = int(of_row.max()) + 1
    pairs, rows = np.unique(of_row * len(held) + labels, return_counts=True)  # by group, then class
    of_pair = pairs % len(held)
    _check_groups(np.bincount(of_pair, minlength=len(held)), held, request, named)
    if many == len(labels):
        return _dealt(labels, request.shares, seed)
    ends = np.searchsorted(pairs, np.arange(many + 1) * len(held))
    table = _Table(classes=of_pair, rows=rows, ends=ends, weights=-(-len(labels) // held.clip(1)))
    for attempt in range(_ATTEMPTS):
        part = _greedy(table, request.shares, seed, attempt)
        lacking = _cover(part, table, len(request.shares))
        if lacking is None:
            return part[of_row]
    assert lacking is not None
    raise DataError(
        f"{request.what}: no way was found for each to have every class, because groups stay whole;"
        f" the first one to be missing is {named[lacking]!r}; {request.fewer}, add groups, or "
        "divide the rows without them"
    )


def _numbered(groups: Sequence[Hashable] | NDArray[Any]) -> NDArray[np.int64]:
    """Return groups as 0, 1, ... by first appearance."""
    number: dict[Hashable, int] = {}
    given: Sequence[Hashable] = groups.tolist() if isinstance(groups, np.ndarray) else groups
    keys = ((at,) if group is None else group for at, group in enumerate(given))
    return np.fromiter((number.setdefault(key, len(number)) for key in keys), np.int64, len(given))


def _check_rows(held: NDArray[np.int64], request: _Request, names: Sequence[str]) -> None:
    parts, rows = len(request.shares), int(held.sum())
    if rows < parts:
        raise DataError(f"{many(int(rows), 'row')} cannot be divided into {request.what}; add rows")
    present = np.flatnonzero(held).tolist()
    if len(present) == 1:
        raise DataError(
            f"all {many(int(rows), 'row')} are of class {names[present[0]]!r}: there is nothing to "
            "tell apart; check the label's key, or add rows of another class"
        )
    few = [f"{names[at]!r} has {held[at]}" for at in present if held[at] < parts]
    if few:
        raise DataError(
            f"{request.what}: each needs a row of every class, and {_listed(few)}; {request.fewer},"
            " add rows, or leave such classes out"
        )


def _check_groups(
    groups: NDArray[np.int64], held: NDArray[np.int64], request: _Request, names: Sequence[str]
) -> None:
    few = [
        f"{many(int(held[at]), 'row')} of {names[at]!r} in {many(int(groups[at]), 'group')}"
        for at in np.flatnonzero(held).tolist()
        if groups[at] < len(request.shares)
    ]
    if few:
        raise DataError(
            f"{request.what}: each needs groups with every class, and there are {_listed(few)}; "
            f"{request.fewer}, add groups, or divide the rows without them"
        )


def _listed(few: list[str]) -> str:
    more = f" (and {len(few) - _SHOWN} more)" if len(few) > _SHOWN else ""
    return ", ".join(few[:_SHOWN]) + more


def _dealt(
    labels: NDArray[np.integer[Any]], shares: tuple[int, ...], seed: int
) -> NDArray[np.int64]:
    """Deal the rows in turn, class by class, each class in an order of the seed."""
    shuffled = permutation(seed, _EPOCH, len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    part = np.empty(len(labels), np.int64)
    if len(set(shares)) == 1:
        part[order] = np.arange(len(labels)) % len(shares)
        return part
    part[:] = 0
    whole = sum(shares)
    ends = np.append(0, np.cumsum(np.bincount(labels)))
    for begin, end in pairwise(ends.tolist()):
        if begin == end:
            continue
        # Rounded sums, not sums of what is rounded: the whole is right to half a row.
        until, before = ((2 * at * shares[1] + whole) // (2 * whole) for at in (end, begin))
        part[order[begin : begin + min(max(until - before, 1), end - begin - 1)]] = 1
    return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Rows by group and class, without the zeros."""

    classes: NDArray[np.int64]  # [pairs], by group
    rows: NDArray[np.int64]  # [pairs]
    ends: NDArray[np.int64]  # [groups + 1] where the pairs of each begin
    weights: NDArray[np.int64]  # [classes]


def _greedy(
    table: _Table, shares: tuple[int, ...], seed: int, attempt: int = 0
) -> NDArray[np.int64]:
    """Return the part of each group; a later attempt takes them in any order.

    Of the sum of squares only 2 n.g + g.g decides, divided by the part's share (n: the rows that a
    part has, weighted): the rest is the same for all parts. 64 bits hold it as long as the rows
    times those of the largest group are fewer than 10^14.
    """
    groups, classes = len(table.ends) - 1, len(table.weights)
    sizes = np.add.reduceat(table.rows, table.ends[:-1])
    weighted = table.weights[table.classes] * table.rows
    squares = np.add.reduceat(weighted * table.rows, table.ends[:-1]) + sizes**2
    order = permutation(seed, _EPOCH + attempt, groups)
    if not attempt:
        order = order[np.argsort(-squares[order], kind="stable")]
    reduced = np.array(shares) // np.gcd.reduce(shares)
    factor = reduced.prod() // reduced  # 1 / share but for a factor
    have, total = np.zeros((classes, len(shares)), np.int64), np.zeros(len(shares), np.int64)
    part = np.empty(groups, np.int64)
    for index in order.tolist():
        pairs = slice(table.ends[index], table.ends[index + 1])
        held, size = table.classes[pairs], sizes[index]
        products = weighted[pairs] @ have[held] + size * total
        chosen = int(((2 * products + squares[index]) * factor).argmin())
        have[held, chosen] += table.rows[pairs]
        total[chosen] += size
        part[index] = chosen
    return part


def _cover(part: NDArray[np.int64], table: _Table, parts: int) -> int | None:
    """Move groups, in place, until every part has every class.

    Returns the first class that is missing somewhere where no move of one group gains anything.
    """
    of_pair = np.repeat(np.arange(len(part)), np.diff(table.ends))
    present = np.bincount(table.classes, minlength=len(table.weights)) > 0
    sizes = np.add.reduceat(table.rows, table.ends[:-1])
    while True:
        groups = np.zeros((len(table.weights), parts), np.int64)  # that have the class
        np.add.at(groups, (table.classes, part[of_pair]), 1)
        missing = (groups == 0) & present[:, None]
        if not missing.any():
            return None
        is_last = groups[table.classes, part[of_pair]] == 1
        lost = np.add.reduceat(is_last, table.ends[:-1], dtype=int)
        won = np.add.reduceat(missing[table.classes], table.ends[:-1], axis=0, dtype=int)
        gain = won - lost[:, None]
        smallest_of_best = gain * (sizes.sum() + 1) - sizes[:, None]
        index, to = np.unravel_index(int(smallest_of_best.argmax()), gain.shape)
        if gain[index, to] < 1:
            return int(missing.any(1).argmax())
        part[index] = to
