"""What sampled rows show: repeats, labels, and windows of one sequence."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = tuple[int, ...]  # the hashes of a row's fields, the main input's first

__all__ = ["came_again", "duplicated", "hashes", "inputs", "label_values", "shift"]

NARROWEST = 8  # numbers of a row: shorter ones are equal by chance
_HASHED = 512  # numbers of a floating-point row that are hashed
_SOME = 1 << 14  # numbers of a batch whose distinct values are counted
# Among 2^15 rows, about as many as are kept, two are equal by chance in one of 2^10 such sets if a
# row holds this many bits: 2 * 15 + 10.
_BITS = 40
_MANTISSA = 23  # bits of a float32
_VALUES = 50
_WINDOWED = 1 << 17  # numbers that are searched for windows
_FEWEST = 3  # pairs of windows that show the stride
_SHARE = 0.3  # of the expected overlapping pairs, at least
_MATCHES = 400
_ENOUGH = 4.0  # expected repeats, below which their absence proves nothing
_PRIME = 0x9E3779B97F4A7C15 - (1 << 64)  # odd, as a signed 64-bit number; products wrap around


def hashes(tensors: Mapping[str, Any], names: Sequence[str]) -> list[Row | None]:
    """Return a hash of each field of each row, the main input's first; empty if rows are short.

    `names` are the fields, [B, ...] each, the main input's first; a missing one hashes as 0. None
    stands for a row whose main input holds so little that rows are equal by chance: a constant row,
    a one-hot, a text of unknown words.
    """
    main = tensors[names[0]]
    if main.dim() < 2 or main[0].numel() < NARROWEST:
        return []
    flat = _flat(main)
    is_varied = _bits(flat) >= _BITS
    fields = [_hash_per_row(flat)]
    for name in names[1:]:
        is_there = name in tensors and tensors[name].dim() and len(tensors[name]) >= len(flat)
        hashed = _hash_per_row(_flat(tensors[name])[: len(flat)]) if is_there else [0] * len(flat)
        fields.append(hashed)
    pairs = zip(zip(*fields, strict=False), is_varied.tolist(), strict=False)
    return [row if is_known else None for row, is_known in pairs]


def _flat(tensor: Any) -> Any:
    """Return the first rows as [B, N]; floating-point rows are thinned evenly to about 512."""
    import torch

    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = plain.detach().reshape(len(tensor), -1)
    if flat.is_floating_point():
        flat = flat[:, :: max(1, flat.shape[1] // _HASHED)]
    return flat[: max(1, (1 << 20) // max(1, flat.shape[1]))].contiguous()


def _bits(flat: Any) -> Any:
    """Return about how many bits each row holds: changes of value times bits of a value."""
    import torch

    # Not every dtype can be compared: float8 and the wide unsigned ones cannot.
    numbers = flat.float() if flat.is_floating_point() else flat.long()
    first_numbers = numbers.reshape(-1)[:_SOME]
    values = float(len(torch.unique(first_numbers)))
    # Of few numbers, most of them distinct, the number of possible values is unknown.
    if 2 * values > len(first_numbers):
        extent = float(first_numbers.max() - first_numbers.min())
        values = 2.0**_MANTISSA if flat.is_floating_point() else extent + 1
    return (numbers[:, 1:] != numbers[:, :-1]).sum(1) * math.log2(max(2.0, values))


def _hash_per_row(flat: Any) -> list[int]:
    import torch

    bytes_ = flat.view(torch.uint8) if flat.dtype is not torch.uint8 else flat
    try:
        return [hash(row.tobytes()) for row in bytes_.numpy()]
    except RuntimeError:  # torch was built without NumPy
        return [hash(bytes(row)) for row in bytes_.tolist()]


def inputs(rows: Sequence[Row | None]) -> list[int]:
    """Return the main inputs' hashes of the rows that hold enough to be compared."""
    return [row[0] for row in rows if row is not None]


def duplicated(by_epoch: Mapping[int, Sequence[Row | None]]) -> float | None:
    """Return the share of sampled rows that equal an earlier row of their epoch."""
    total = sum(map(len, by_epoch.values()))
    if total < NARROWEST:
        return None
    rows_by_epoch = [[row for row in rows if row is not None] for rows in by_epoch.values()]
    return sum(len(rows) - len(set(rows)) for rows in rows_by_epoch) / total


def came_again(
    by_epoch: Mapping[int, Sequence[int]],
    started: Mapping[int, Sequence[int]],
    length: int | None,
) -> float | None:
    """Return the share of the later epochs' rows that an earlier epoch had, 0..1.

    If the first batches of two epochs are equal, the order is the same: 1. Otherwise only a sample
    of the rows was read, and the common rows are compared with the number expected.
    """
    epochs = sorted(by_epoch)
    if len(epochs) < 2:
        return None
    firsts = [set(started[epoch]) for epoch in epochs if started.get(epoch)]
    if any(one and one == two for one, two in pairwise(firsts)):
        return 1.0
    if not length:
        return None
    before: set[int] = set()
    repeats = expected = 0.0
    for epoch in epochs:
        rows = set(by_epoch[epoch])
        repeats += len(rows & before)
        expected += len(rows) * min(1.0, len(before) / length)
        before |= rows
    return min(1.0, repeats / expected) if expected >= _ENOUGH else None


def label_values(labels: Sequence[Any]) -> tuple[dict[str, int], float | None]:
    """Return how often each value came, the most frequent first, and the share of -100.

    Floating-point labels count only if they have few values.
    """
    import torch

    if not labels:
        return {}, None
    every = torch.cat([batch.reshape(-1) for batch in labels])
    ignored = None
    if not every.is_floating_point():
        ignored = float((every == -100).float().mean())
        every = every[every != -100]
    values, counts = torch.unique(every, return_counts=True)
    if every.is_floating_point() and len(values) > _VALUES:
        return {}, None
    order = counts.argsort(descending=True, stable=True)[:_VALUES]
    names = [f"{v:g}" if isinstance(v, float) else str(v) for v in values[order].tolist()]
    return dict(zip(names, counts[order].tolist(), strict=True)), ignored


def shift(tokens: Sequence[Any], length: int | None = None) -> int | None:
    """Return the stride, in positions, of rows that are windows of one sequence, or None.

    The first half of each row is searched for in all other rows; if the rest of the overlap is
    equal too, both are windows of one text. The stride is the greatest common divisor of the
    distances. None if fewer than 3 pairs overlap, or far fewer than windows of that stride would
    among `length` rows in any order: a text repeats itself as well.
    """
    import torch

    if not tokens:
        return None
    width = min(batch.shape[1] for batch in tokens)
    least = max(NARROWEST, width // 2)
    if width <= least:
        return None
    every = torch.cat([batch[:, :width].long() for batch in tokens])[: max(2, _WINDOWED // width)]
    every = torch.unique(every, dim=0)
    every = every[(every != every[:, :1]).any(1)]  # an empty row is found everywhere
    distances = _distances(every, least)
    if len(distances) < _FEWEST:
        return None
    stride = math.gcd(*distances)
    expected = len(every) ** 2 * ((width - least) // stride) / (length or len(every))
    return stride if len(distances) >= _SHARE * min(expected, _MATCHES) else None


def _distances(every: Any, least: int) -> list[int]:
    """Return the distances between the starts of rows that overlap by at least `least`."""
    import torch

    powers = [pow(_PRIME, n, 1 << 64) for n in range(least)]
    weights = torch.tensor([p - (1 << 64) if p >= 1 << 63 else p for p in powers])
    windows = (every.unfold(1, least, 1) * weights).sum(-1)  # [rows, positions]
    heads: dict[int, list[int]] = {}
    for row, value in enumerate(windows[:, 0].tolist()):
        heads.setdefault(value, []).append(row)
    matches = torch.isin(windows[:, 1:], windows[:, 0]).nonzero()[:_MATCHES].tolist()
    distances = []
    for row, before in matches:
        distance = before + 1
        rest = every[row, distance:]
        for head in heads[int(windows[row, distance])]:
            if head != row and torch.equal(rest, every[head, : len(rest)]):
                distances.append(distance)
    return distances
