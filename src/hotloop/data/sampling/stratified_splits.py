"""Divide labelled rows into similar parts, held-out rows or folds; groups stay whole.

The results are pure functions of labels, groups and seed, in integers: the same on every machine.
Every part has every class, or the request is refused.

Without groups, rows are dealt class by class, which gives each part its share of each class to
within one row. With groups, each group, the heaviest first, goes to the part that leaves the parts
most balanced. That is the greedy step of scikit-learn's StratifiedGroupKFold with a sum of squares
for its standard deviation, which has a bound (method of conditional expectations; Alon, Spencer,
The Probabilistic Method, chapter 16). Write s_p for the share of part p, d_pc for the rows of class
c in it less s_p times those of all, w_c = ceil(rows / rows of c), g_c for the rows of c in group g,
and let c also run over "all rows", of weight 1. Then with k parts
    sum over p, c of w_c d_pc^2 / s_p <= (k - 1) * sum over g, c of w_c g_c^2,
because a group put at random, into part p with chance s_p, adds (k - 1) w_c g_c^2 in the mean, and
the best part adds no more than the mean. Moves of groups that give a part a missing class add more.
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

_EPOCH: Final = 1 << 40  # no run reaches this epoch, so none draws from this stream
_PARTS: Final = 10_000  # a share is a whole number of them
_ATTEMPTS: Final = 20  # to give every part every class; the first one nearly always succeeds
_SHOWN: Final = 5  # classes in a message, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    shares: tuple[int, ...]  # of the parts, in integers: 1, 1, 1 is three equal parts
    what: str  # the parts, for messages
    fewer: str  # the advice if there are too many parts


def held_out(
    labels: NDArray[np.integer[Any]],
    *,
    groups: Sequence[Hashable] | NDArray[Any] | None = None,
    share: float,
    seed: int,
    names: Sequence[str] | None = None,
) -> NDArray[np.bool_]:
    """Return which rows are held out, [rows]: about a `share` of each class, and at least one row.

    labels are classes 0, 1, ... [rows]; names those of the classes, for messages. Rows of the same
    group are all held out or none of them; a row whose group is None is a group of its own. A share
    is rounded to 1/10,000. Raises ConfigError for a share outside 0 to 1, DataError for rows that
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

    Arguments as for `held_out`. Raises ConfigError for fewer than 2 folds, DataError for rows that
    cannot be divided.
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
    class_rows = np.bincount(labels)
    named = names or [str(number) for number in range(len(class_rows))]
    _check_rows(class_rows, request, named)
    many = int(of_row.max()) + 1
    pairs, rows = np.unique(
        of_row * len(class_rows) + labels, return_counts=True
    )  # by group, then class
    of_pair = pairs % len(class_rows)
    _check_groups(np.bincount(of_pair, minlength=len(class_rows)), class_rows, request, named)
    if many == len(labels):
        return _dealt(labels, request.shares, seed)
    ends = np.searchsorted(pairs, np.arange(many + 1) * len(class_rows))
    table = _Table(
        classes=of_pair, rows=rows, ends=ends, weights=-(-len(labels) // class_rows.clip(1))
    )
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
    """Return groups as numbers 0, 1, ... by first appearance."""
    number: dict[Hashable, int] = {}
    group_list: Sequence[Hashable] = groups.tolist() if isinstance(groups, np.ndarray) else groups
    keys = ((index,) if group is None else group for index, group in enumerate(group_list))
    return np.fromiter(
        (number.setdefault(key, len(number)) for key in keys), np.int64, len(group_list)
    )


def _check_rows(class_rows: NDArray[np.int64], request: _Request, names: Sequence[str]) -> None:
    count, rows = len(request.shares), int(class_rows.sum())
    if rows < count:
        raise DataError(f"{many(int(rows), 'row')} cannot be divided into {request.what}; add rows")
    present = np.flatnonzero(class_rows).tolist()
    if len(present) == 1:
        raise DataError(
            f"all {many(int(rows), 'row')} are of class {names[present[0]]!r}: there is nothing to "
            "tell apart; check the label's key, or add rows of another class"
        )
    few = [
        f"{names[index]!r} has {class_rows[index]}"
        for index in present
        if class_rows[index] < count
    ]
    if few:
        raise DataError(
            f"{request.what}: each needs a row of every class, and {_listed(few)}; {request.fewer},"
            " add rows, or leave such classes out"
        )


def _check_groups(
    groups: NDArray[np.int64],
    class_rows: NDArray[np.int64],
    request: _Request,
    names: Sequence[str],
) -> None:
    few = [
        f"{many(int(class_rows[index]), 'row')} of {names[index]!r} in "
        f"{many(int(groups[index]), 'group')}"
        for index in np.flatnonzero(class_rows).tolist()
        if groups[index] < len(request.shares)
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
    """Deal the rows in turn, class by class, each class in a random order of the seed."""
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
        # Round sums, do not sum rounded numbers: the total is then right to half a row.
        until, before = ((2 * row * shares[1] + whole) // (2 * whole) for row in (end, begin))
        part[order[begin : begin + min(max(until - before, 1), end - begin - 1)]] = 1
    return part


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Rows by group and class, without zero counts."""

    classes: NDArray[np.int64]  # [pairs], by group
    rows: NDArray[np.int64]  # [pairs]
    ends: NDArray[np.int64]  # [groups + 1] start of the pairs of each group
    weights: NDArray[np.int64]  # [classes]


def _greedy(
    table: _Table, shares: tuple[int, ...], seed: int, attempt: int = 0
) -> NDArray[np.int64]:
    """Return the part of each group; later attempts take the groups in a random order.

    Only 2 n.g + g.g of the sum of squares depends on the choice, divided by the part's share (n:
    the weighted rows that a part has). 64 bits hold it as long as the rows times those of the
    largest group are fewer than 10^14.
    """
    groups, classes = len(table.ends) - 1, len(table.weights)
    sizes = np.add.reduceat(table.rows, table.ends[:-1])
    weighted = table.weights[table.classes] * table.rows
    squares = np.add.reduceat(weighted * table.rows, table.ends[:-1]) + sizes**2
    order = permutation(seed, _EPOCH + attempt, groups)
    if not attempt:
        order = order[np.argsort(-squares[order], kind="stable")]
    reduced = np.array(shares) // np.gcd.reduce(shares)
    factor = reduced.prod() // reduced  # 1 / share, up to a constant factor
    have, total = np.zeros((classes, len(shares)), np.int64), np.zeros(len(shares), np.int64)
    part = np.empty(groups, np.int64)
    for index in order.tolist():
        pairs = slice(table.ends[index], table.ends[index + 1])
        group_classes, size = table.classes[pairs], sizes[index]
        products = weighted[pairs] @ have[group_classes] + size * total
        chosen = int(((2 * products + squares[index]) * factor).argmin())
        have[group_classes, chosen] += table.rows[pairs]
        total[chosen] += size
        part[index] = chosen
    return part


def _cover(part: NDArray[np.int64], table: _Table, count: int) -> int | None:
    """Move groups, in place, until every part has every class.

    Return the first class that some part lacks if no move of one group helps, else None.
    """
    of_pair = np.repeat(np.arange(len(part)), np.diff(table.ends))
    present = np.bincount(table.classes, minlength=len(table.weights)) > 0
    sizes = np.add.reduceat(table.rows, table.ends[:-1])
    while True:
        groups = np.zeros((len(table.weights), count), np.int64)  # that have the class
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
