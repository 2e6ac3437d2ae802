"""Times variants of a training step in turn, in blocks of steps between plain blocks.

A block of a variant is compared with the plain blocks before and after it, so that a machine that
slows down slows both sides. The time that other programs have the core is left out.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from hotloop.machine.own_clock import own_time
from hotloop.observe.experiments.variants import NOT_REACHED

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from hotloop.observe.experiments.variants import TimedPart, Variant

__all__ = ["WARM", "BlockTimes", "Blocks"]

WARM = 6  # untimed first steps: allocations, the start of workers, the first values of lines
_FEWEST_WARM, _LONG_WARM = 3, 2.0  # of them, if the steps are slow; seconds
_BLOCK, _FEWEST, _MOST = 0.3, 4, 400  # seconds and steps of a block
_SLOW = 0.2  # seconds of a step from which a block has fewer steps
_LEAST, _EXTRA = 2, 2.0  # blocks of a variant; of the time, that slow steps get beyond it
_TRIES = 4  # of which so many blocks may come out steady
_CALLS = 2.0  # least calls of a line in a block
_ROUNDS, _ENOUGH = 3, 12  # rounds before a variant may be decided; at most
_OF_UNTIMED = 0.5  # of the time, for the steps of a change that is not for its time
_AT_THE_END = 0.15  # of the time, for the plain blocks of a change that comes last
_CLEAR = 0.03  # half-width of the interval at which a gain is known well enough
_UNSTEADY = 1.3  # largest ratio of the plain blocks on both sides
_SETTLINGS = 4  # times that a block is made again, until the workers keep pace
_MOVED = 0.1  # batches more or less in stock, for each step of a block that is steady
_VARYING = 0.15  # deviation of the calls in a step, over their mean, from which they count
_LONG = 5.0  # times the median of plain steps: a step that has an evaluation in it
_MANY = 1.5  # times the usual number of batches: one whose evaluation takes less


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """The time of the end of a step, and what was counted until then."""

    at: float
    waited: float  # seconds
    batches: int
    work: int  # calls of the models


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """Seconds of a step, the mean of a block."""

    trimmed: float  # without rare long steps, unless they wait for batches
    whole: float
    waiting: float  # for batches
    per_call: float | None = None  # seconds for a call of the models, where steps differ in these

    def of(self, *, trims: bool, by_call: bool = False) -> float:
        if by_call and self.per_call is not None:
            return self.per_call
        return self.trimmed if trims else self.whole


@dataclass(slots=True, kw_only=True)
class BlockTimes:
    """What was measured of one variant."""

    ratios: list[float] = field(default_factory=list)  # time of a plain step / of a changed one
    steps: int = 0
    why_not: str | None = None


class Blocks:
    """Follows the steps of a script and switches the variants on and off."""

    def __init__(
        self,
        variants: list[Variant],
        *,
        seconds: float,
        total: int | None = None,
        settle: int = 1,
        wait: Callable[[], None] = lambda: None,
        waited: Callable[[], float] = lambda: 0.0,
        stock: Callable[[], dict[int, int]] = dict,
        batches: Callable[[], int] = lambda: 0,
        work: Callable[[], int] | None = None,
        clock: Callable[[], float] = own_time,
    ) -> None:
        """`seconds` is the time for timed steps; a block begins after a step that is not timed.

        If not as many batches lie ready (`stock`) after the block as before, it is made again after
        `settle` steps.
        `total` is the number of steps that the script makes, if known; `wait` waits for the device.
        `waited` returns the seconds that the script has waited for batches so far, `batches` how
        many it has read. `work` is given where steps differ much, as episodes of a game do: it
        returns the calls of the models so far, by which blocks are then compared.
        """
        self.readings = [BlockTimes() for _ in variants]
        self.running: int | None = None  # the variant that is switched on
        self.latest: int | None = None  # the variant that was switched on last
        self.warm = False
        self.plain: list[float] = []  # seconds of a plain step, one figure a block
        self._variants, self._settle = variants, settle
        self._wait, self._waited, self._stock, self._clock = wait, waited, stock, clock
        self._batches, self._work = batches, work
        self._is_per_call: bool | None = None if work is not None else False
        self._total = total
        self._in_turn, self._tries = True, [0] * len(variants)
        self._seconds, self._end, self._steps = seconds, math.inf, 0
        self._longest = math.inf
        self._flow = self._rounds()
        next(self._flow)

    def ended_step(self) -> bool:
        """Note the end of a step; return whether further steps are needed."""
        try:
            next(self._flow)
        except StopIteration:
            return False
        return True

    def failed(self, why: str) -> None:
        """Note that the script raised or ended early, with or after the latest variant."""
        if self.running is not None:
            self._variants[self.running].switch_off()
        if self.latest is not None and len(self.readings[self.latest].ratios) < _LEAST:
            self.readings[self.latest] = BlockTimes(why_not=why)

    def _rounds(self) -> Generator[None]:
        self._open()  # what a change has to see of a step, it sees in the first ones
        started = self._clock()
        for step in range(WARM):
            yield
            self._steps = step + 1
            if step + 1 >= _FEWEST_WARM and self._clock() - started > _LONG_WARM:
                break
        pace = max((self._clock() - started) / self._steps, 1e-6)
        self.warm, self._end = True, self._clock() + self._seconds
        fewest = max(2, min(_FEWEST, math.ceil(_FEWEST * _SLOW / pace)))
        size = min(_MOST, max(fewest, math.ceil(_BLOCK / pace)))
        if self._total is not None:  # a short script has room for a few blocks only
            left = self._total - self._steps
            room = left // (2 * _ROUNDS * len(self._variants) + 1) - 1
            size = max(fewest, min(size, room))
        blocks = 2 * _LEAST * len(self._variants)
        most = math.inf if self._total is None else self._total - self._steps
        self._in_turn = blocks * (size + 1) <= min(most, self._seconds / pace)
        before = yield from self._block(None, size)
        while not self._is_over() and (numbers := self._next(size)):
            for number in numbers:
                before = yield from self._pair(number, size, before)
                if self._is_over():
                    break
        for number, variant in enumerate(self._variants):
            if not variant.is_last or self.readings[number].why_not is not None:
                continue
            if variant.untimed_steps:
                yield from self._untimed(number)
            else:
                yield from self._at_the_end(number, size)

    def _untimed(self, number: int) -> Generator[None]:
        """Make the steps of a change that is not for its time."""
        variant, most = self._variants[number], self._clock() + _OF_UNTIMED * self._seconds
        self.running = self.latest = number
        variant.switch_on()
        for _ in range(variant.untimed_steps):
            yield
            if self._clock() > most:
                break
        variant.switch_off()
        self.running = None

    def _at_the_end(self, number: int, size: int) -> Generator[None]:
        """Make plain blocks, then as many with a change that leaves something behind."""
        reading, most = self.readings[number], self._clock() + _AT_THE_END * self._seconds
        plain: list[_Mean] = []
        left = math.inf if self._total is None else self._total - self._steps
        enough = min(_ENOUGH, (left / (size + 1) - 1) // 2)
        while enough < _LEAST:  # the script ends before
            yield
        while len(plain) < enough and (len(plain) < _LEAST or self._clock() < most):
            plain.append((yield from self._block(None, size)))
        yield from self._block(number, size)  # it takes effect
        for before in plain:
            changed = yield from self._block(number, size)
            reading.ratios.append(before.trimmed / changed.trimmed)
            reading.steps += size

    def _pair(self, number: int, size: int, before: _Mean) -> Generator[None, None, _Mean]:
        """Make a block of a variant and a plain one; return the latter."""
        reading, steps = self.readings[number], self._size(number, size)
        self._tries[number] += 1
        if steps is None:
            return (yield from self._block(None, size))
        if steps > size:
            before = yield from self._block(None, steps)
        trims = self._variants[number].trims
        part = self._measured_apart(number, before)
        made = before if part is not None else (yield from self._block(number, steps))
        after = yield from self._block(None, steps)
        by_call = self._variants[number].keeps_calls and self._is_per_call is True
        first, changed, last = (
            one.of(trims=trims, by_call=by_call) for one in (before, made, after)
        )
        if max(first, last) <= _UNSTEADY * min(first, last):  # else another phase has begun
            plain = (first + last) / 2
            if part is not None:
                plain = (before.of(trims=trims) + after.of(trims=trims)) / 2
                changed = part.step(plain)
            reading.ratios.append(plain / changed)
            reading.steps += steps
        return after

    def _next(self, size: int) -> list[int]:
        """Return the variants to make in this round: those of short blocks come first.

        Where time or steps are too few for all, each has its first blocks before the next begins.
        """
        numbers = self._open()
        ready = [n for n in numbers if self.readings[n].why_not is None]
        few = [n for n in ready if len(self.readings[n].ratios) < _LEAST]
        if not self._in_turn and (first := [n for n in few if self._tries[n] < _TRIES]):
            return first[:1]
        short = [n for n in numbers if (steps := self._size(n, size)) is not None and steps <= size]
        return short or numbers

    def _is_over(self) -> bool:
        """Whether the time is over. Slow steps get more of it, for two blocks of each variant."""
        late = self._clock() - self._end
        started = [self.readings[n] for n in self._open() if self.readings[n].why_not is None]
        few = any(len(reading.ratios) < _LEAST for reading in started)
        return late > 0 and (late > _EXTRA * self._seconds or not few)

    def _open(self) -> list[int]:
        """Return the variants that are not decided; prepare those that have no block yet."""
        for reading, variant in zip(self.readings, self._variants, strict=True):
            if not reading.ratios:
                reading.why_not = variant.prepare()
        return [
            number
            for number, reading in enumerate(self.readings)
            if not self._is_decided(reading)
            and reading.why_not in (None, NOT_REACHED)
            and not self._variants[number].is_last
        ]

    def _measured_apart(self, number: int, before: _Mean) -> TimedPart | None:
        self.running = self.latest = number
        part = self._variants[number].measured_apart(before.whole, before.waiting)
        self.running = None
        return part

    def _size(self, number: int, size: int) -> int | None:
        """Return the steps of a block of a variant; None if it cannot be timed (yet)."""
        if self.readings[number].why_not is not None:
            return None
        rare = self._variants[number].steps_per_call(self._steps)
        steps = max(size, math.ceil(_CALLS * rare))
        if steps <= _MOST:
            return steps
        self.readings[number].why_not = f"it runs once in {rare:.0f} steps"
        return None

    def _block(self, number: int | None, steps: int) -> Generator[None, None, _Mean]:
        """Make steps with one variant, or none, switched on."""
        variant = None if number is None else self._variants[number]
        self.running = number
        if variant is not None:
            self.latest = number
            variant.switch_on()
        try:
            marks, is_steady = yield from self._timed(1, steps)
            for _ in range(_SETTLINGS if self._settle > 1 and not is_steady else 0):
                marks, is_steady = yield from self._timed(self._settle, steps)
                if is_steady:
                    break
        finally:
            if variant is not None:
                variant.switch_off()
            self.running = None
        seconds = [end.at - start.at for start, end in pairwise(marks)]
        waiting = [end.waited - start.waited for start, end in pairwise(marks)]
        batches = [end.batches - start.batches for start, end in pairwise(marks)]
        if self._is_per_call is None:
            self._is_per_call = _differ_by_calls(marks)
        rest = [step - wait for step, wait in zip(seconds, waiting, strict=True)]
        if number is None:
            self._longest = _LONG * statistics.median(rest)
        most = _MANY * statistics.median(batches)
        short = [
            own
            for own, read in zip(rest, batches, strict=True)
            if own <= self._longest and read <= most
        ]
        trimmed = statistics.fmean(waiting) + statistics.fmean(short or rest)
        if number is None:
            self.plain.append(trimmed)
        calls = marks[-1].work - marks[0].work
        return _Mean(
            trimmed=trimmed,
            whole=statistics.fmean(seconds),
            waiting=statistics.fmean(waiting),
            per_call=(marks[-1].at - marks[0].at) / calls if calls else None,
        )

    def _timed(self, settle: int, steps: int) -> Generator[None, None, tuple[list[_Mark], bool]]:
        """Return the ends of steps after `settle` others.

        The last value: whether as many batches lay ready at the end as a step before the first.
        """
        stock = self._stock()
        for step in range(settle):
            if step == settle - 1:
                stock = self._stock()
            yield
        self._wait()
        marks = [self._mark()]
        for left in reversed(range(steps)):
            yield
            if not left:
                self._wait()
            marks.append(self._mark())
        self._steps += settle + steps
        after = self._stock()
        moved = [abs(after[key] - stock[key]) for key in stock.keys() & after.keys()]
        return marks, max(moved, default=0) <= _MOVED * steps

    def _mark(self) -> _Mark:
        work = self._work() if self._work is not None else 0
        return _Mark(at=self._clock(), waited=self._waited(), batches=self._batches(), work=work)

    @staticmethod
    def _is_decided(reading: BlockTimes) -> bool:
        """Whether more blocks would not tell more."""
        if len(reading.ratios) >= _ENOUGH:
            return True
        if len(reading.ratios) < _ROUNDS:
            return False
        half = statistics.stdev(reading.ratios) / math.sqrt(len(reading.ratios))
        return half < _CLEAR * statistics.median(reading.ratios)


def _differ_by_calls(marks: Sequence[_Mark]) -> bool:
    """Whether the models are called more often in some steps than in others, as in episodes.

    Steps of which a few have most of the calls are of two kinds: a game is played before them.
    """
    calls = [end.work - start.work for start, end in pairwise(marks)]
    mean = statistics.fmean(calls)
    varies = statistics.pstdev(calls) > _VARYING * mean
    return mean > 0 and varies and statistics.median(calls) > mean / 2
