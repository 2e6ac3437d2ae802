"""The lengths of a data set's samples, and whether batches of short samples are narrower.

A sample's length is the end of its attention_mask, or the length of its first sequence: token ids,
the characters of a text, the frames of a recording.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from hotloop.observe.probes.batches import fields
from hotloop.observe.probes.dataset_trial import alive, in_child

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

__all__ = ["Looked", "SampleLengths", "length_of", "look"]

READING = 2.0  # seconds that reading every sample beforehand may take if it was not requested
_TRIED = 256  # samples that are read first; two batches if these are more
_AGAIN = 16  # samples that are read twice
_INPUTS = ("input_ids", "input_values", "input_features", "inputs", "tokens", "ids", "text", "x")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The result of reading samples in a forked child."""

    seconds: float  # that reading every sample takes, or would take
    narrower: Literal["itself", "cut", "no"]  # why batches of short samples are narrower
    width: int | None = None  # columns of a batch, if it has to be cut
    lengths: NDArray[np.int32] | None = None  # [samples], -1 where unread; None: none was read
    why_not: str | None = None  # why there are no lengths


class SampleLengths:
    """The lengths of a data set's samples by index, as far as they are known."""

    def __init__(self, known: NDArray[np.int32]) -> None:
        self._known = known  # -1: unknown

    @classmethod
    def unknown(cls, samples: int) -> SampleLengths:
        """Return unknown lengths, for a data set that was not read."""
        return cls(np.full(samples, -1, np.int32))

    def learn(self, index: int, sample: Any) -> None:
        """Store the length of a sample that was read."""
        if index < len(self._known):
            self._known[index] = -1 if (length := length_of(sample)) is None else length

    def of(self, indices: Sequence[int]) -> NDArray[np.int32] | None:
        """Return lengths in the order of `indices`; None if one is unknown."""
        positions = np.asarray(indices, np.int64)
        if len(positions) and (positions.max() >= len(self._known) or positions.min() < 0):
            return None  # the data set has grown
        lengths: NDArray[np.int32] = self._known[positions]
        return lengths if bool((lengths >= 0).all()) else None


def length_of(sample: Any) -> int | None:
    """Return how many positions a sample needs; None if it has no sequence."""
    if isinstance(sample, Mapping):
        if (mask := sample.get("attention_mask")) is not None:
            return _end(mask)
        usual = [sample[name] for name in _INPUTS if name in sample]
        return next(filter(_is_known, map(_positions, (*usual, *sample.values()))), None)
    if isinstance(sample, tuple | list) and not _is_known(_positions(sample)):
        return next(filter(_is_known, map(_positions, sample)), None)
    return _positions(sample)


def _end(mask: Any) -> int | None:
    """Return the index after the last real position; None if the mask is not one-dimensional."""
    marks = np.asarray(mask)
    if marks.ndim != 1:
        return None
    real = np.flatnonzero(marks)
    return int(real[-1]) + 1 if len(real) else 0


def _positions(value: Any) -> int | None:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list | tuple):
        ends = [*value[:1], *value[-1:]]  # a label and a text are no sequence
        return len(value) if value and all(isinstance(end, int | float) for end in ends) else None
    shape: Any = getattr(value, "shape", ())
    return int(shape[0]) if len(shape) in (1, 2) else None  # an image has three


def _is_known(length: int | None) -> bool:
    return length is not None


def look(loader: Any, *, trimmed: Callable[[Any], Any], limit: float = READING) -> Looked | str:
    """Read samples of a map-style loader in a child; return a text if that fails.

    All of them are read if that takes `limit` seconds or less: 0 for never, math.inf for always.
    `trimmed` cuts the padding from a batch that has an attention_mask.
    """
    answer = in_child(lambda: _look(loader, trimmed, limit))
    if isinstance(answer, str):
        return answer
    lengths = answer.pop("lengths", None)
    return Looked(lengths=None if lengths is None else np.asarray(lengths, np.int32), **answer)


def _look(loader: Any, trimmed: Callable[[Any], Any], limit: float) -> dict[str, Any]:  # in a child
    data, sampler = loader.dataset, loader.batch_sampler.sampler
    every = list(getattr(sampler, "indices", range(len(data))))
    step = max(1, len(every) // max(_TRIED, 2 * loader.batch_sampler.batch_size))
    began = time.perf_counter()
    samples = _read(data, every[::step], READING)
    seconds = (time.perf_counter() - began) / len(samples) * len(every)
    facts: dict[str, Any] = {"seconds": seconds, "narrower": "no"}
    lengths = list(map(length_of, samples))
    if None in lengths:
        return facts | {"why_not": "a sample has no sequence of numbers and is no text"}
    again = list(map(length_of, _read(data, every[: _AGAIN * step : step], READING)))
    if any(map(operator.ne, lengths, again)):
        return facts | {"why_not": "a sample has another length each time that it is read"}
    order = sorted(zip(lengths, range(len(samples)), strict=True))
    facts |= _narrower(loader, order, samples, trimmed)
    if seconds <= limit:
        lengths_of_all, began = np.full(len(data), -1, np.int32), time.perf_counter()
        for first in range(0, len(every), _TRIED):
            chunk = every[first : first + _TRIED]
            chunk_lengths = map(length_of, _read(data, chunk))
            lengths_of_all[chunk] = [-1 if length is None else length for length in chunk_lengths]
        facts |= {"lengths": lengths_of_all.tolist(), "seconds": time.perf_counter() - began}
    return facts


def _read(data: Any, indices: list[Any], limit: float | None = None) -> list[Any]:
    """Return samples, until reading took `limit` seconds."""
    many = getattr(data, "__getitems__", None)
    if many is not None:
        return list(many(indices))
    samples, began = list[Any](), time.perf_counter()
    for index in indices:
        samples.append(data[index])
        alive()
        if limit is not None and time.perf_counter() - began > limit:
            break
    return samples


def _narrower(
    loader: Any, order: list[tuple[Any, int]], samples: list[Any], trimmed: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return why a batch of short samples is narrower than one of long samples."""
    rows = min(loader.batch_sampler.batch_size, len(order) // 2)
    if not rows or order[0][0] == order[-1][0]:
        message = f"the {len(order)} samples that were read are of one length"
        return {"why_not": f"{message}, or padded to it without an attention_mask"}
    short, long = (
        loader.collate_fn([samples[index] for _, index in pairs])
        for pairs in (order[:rows], order[-rows:])
    )
    if _numbers(short) < _numbers(long):
        return {"narrower": "itself"}
    if _numbers(trimmed(short)) < _numbers(trimmed(long)):
        return {"narrower": "cut", "width": int(long["attention_mask"].shape[1])}
    return {"narrower": "no"}


def _numbers(batch: Any) -> int:
    return sum(tensor.numel() for _, tensor in fields(batch))
