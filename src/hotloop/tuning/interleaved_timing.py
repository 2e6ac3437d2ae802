"""Races trials: they make blocks of the same steps by turns, while all others sleep."""

from __future__ import annotations

import itertools
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hotloop.core.trial import FEWEST, Trial, compare
from hotloop.tuning.lane import OVER, WARM, Lane

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hotloop.tuning.lane import Entry, RaceLength

__all__ = ["LEAST_STEPS", "begin", "race", "race_apart"]

_AGAIN: Final = 3  # starts of trials whose script ends too soon
_SMALLEST: Final = 2  # steps of a block: 20 in ten rounds
_LARGEST: Final = 2_000
LEAST_STEPS: Final = WARM + _SMALLEST * (FEWEST + 1)  # that a script must make to be compared


def race(
    entries: Sequence[Entry],
    pace: RaceLength,
    *,
    clock: Callable[[], float] = time.perf_counter,
    notify: Callable[[str], None] = lambda _: None,
    room: Callable[[Trial], int] | None = None,
) -> list[Trial]:
    """Return a trial of each entry; the others are compared with the first.

    All trials end if the first one fails. Processes whose script ends before there are enough
    rounds are started again, without those that failed or were let go. No process is left running.
    `room` returns how many processes like the first fit into memory, after its warm-up; the entries
    beyond are not run.
    """
    trials: dict[int, Trial] = {}
    racing = list(range(len(entries)))  # numbers of the entries that still race
    block: int | None = None
    short = 0  # times that a script was over too soon
    for pair in itertools.count(1):
        ran = _race_once(
            [entries[number] for number in racing], pace, block, clock, notify,
            reverse=pair % 2 == 0, room=room if pair == 1 else None,
        )  # fmt: skip
        joined = _join_rounds([trials[n] for n in racing], ran.trials) if trials else ran.trials
        trials |= zip(racing, joined, strict=True)
        racing = [n for place, n in enumerate(racing) if place not in ran.gone]
        if clock() > pace.deadline or 0 not in racing or len(racing) < min(2, len(entries)):
            break
        shared = set.intersection(*(set(trials[number].rounds) for number in racing))
        if ran.steps_at_end is not None and len(shared) < FEWEST:
            short += 1
            block = ran.steps_at_end // (FEWEST + 1)  # one more: the last block may be cut
            if block < _SMALLEST or short == _AGAIN:
                break
        elif pair - short >= pace.pairs or not _is_open([trials[n] for n in racing], pace):
            break
    return [_resolve_end(trials[number]) for number in range(len(entries))]


def _is_open(trials: Sequence[Trial], pace: RaceLength) -> bool:
    """Whether another pair of processes may decide a comparison that promises enough gain."""
    first, *others = map(_resolve_end, trials)
    found = [compare(trial, first, scatter=pace.scatters.of(trial, first)) for trial in others]
    return any(c.is_open and (c.ratio or 0.0) <= pace.gain for c in found)


def race_apart(
    entries: Sequence[Entry],
    pace: RaceLength,
    *,
    clock: Callable[[], float] = time.perf_counter,
    notify: Callable[[str], None] = lambda _: None,
) -> list[Trial]:
    """Race processes of which memory holds only one: each alone, in the order A B, then B A.

    Rounds of one number are minutes apart, so that such a race is less precise.
    """
    half = replace(pace, rounds=max(FEWEST // 2, math.ceil(pace.rounds / 2)))
    trials: dict[int, Trial] = {}
    order = list(range(len(entries)))
    block: int | None = None  # steps of the first trial's blocks, the same for all
    for index in (*order, *order[::-1]):
        (trial,) = _race_once([entries[index]], half, block, clock, notify).trials
        if trial.rounds:
            block = block or trial.steps // len(trial.rounds)
        trials[index] = trials[index].joined(trial, half.rounds) if index in trials else trial
        if not trials[index].is_ok:
            break
    return [
        _resolve_end(trials.get(index, Trial(plan=entry.plan, outcome="not run")))
        for index, entry in enumerate(entries)
    ]


def begin(entry: Entry, pace: RaceLength) -> Trial:
    """Return the trial of a process that makes only its first step, with the effects read back."""
    with entry.start() as process:
        lane = Lane.of(entry, process)
        lane.guarded(lane.begin, pace)
        return lane.trial


def _join_rounds(trials: Sequence[Trial], new_trials: Sequence[Trial]) -> list[Trial]:
    """Append the new rounds to the rounds that all trials share, which were made together."""
    shared = set.intersection(*(set(trial.rounds) for trial in trials))
    shared_trials = [replace(t, rounds={n: t.rounds[n] for n in sorted(shared)}) for t in trials]
    after = max(shared, default=-1) + 1
    pairs = zip(shared_trials, new_trials, strict=True)
    return [trial.joined(more, after) for trial, more in pairs]


def _resolve_end(trial: Trial) -> Trial:
    """Return a trial whose script ended as successful if there are enough rounds."""
    if trial.outcome != OVER:
        return trial
    if len(trial.rounds) >= FEWEST:
        return replace(trial, outcome="ok", reason=None)
    return replace(trial, reason=f"{trial.reason}: too few to compare")


@dataclass(frozen=True, slots=True)
class _Ran:
    """One process of each entry."""

    trials: Sequence[Trial]
    gone: Collection[int]  # places of those that failed or were let go
    steps_at_end: int | None  # timed steps of the first script that came to its end


def _race_once(
    entries: Sequence[Entry],
    pace: RaceLength,
    block: int | None,
    clock: Callable[[], float],
    notify: Callable[[str], None],
    *,
    reverse: bool = False,
    room: Callable[[Trial], int] | None = None,
) -> _Ran:
    """Run one process of each entry.

    With `reverse`, the last entry starts first, and begins each round. The later one is 1 % faster.
    """
    with ExitStack() as stack:
        lanes: list[Lane] = []
        most = len(entries)
        for entry in reversed(entries) if reverse else entries:
            if len(lanes) >= most:
                break
            lane = Lane.of(entry, stack.enter_context(entry.start()))
            lanes.append(lane)
            lane.guarded(lane.begin, pace)
            notify("started")
            if not lane.trial.is_ok and entry is entries[0]:
                break
            if room is not None and len(lanes) == 1:
                lane.guarded(lane.warm, pace, clock)
                most = max(1, room(lane.final_trial()))
        lanes = lanes[::-1] if reverse else lanes
        running = [lane for lane in lanes if lane.trial.is_ok]
        for lane in running if len(running) > 1 or len(entries) == 1 else []:
            if not lane.trial.warm_steps:
                lane.guarded(lane.warm, pace, clock, lanes[0].step)
        steps = block or _steps(lanes, pace)
        for round in range(pace.rounds):
            running = [lane for lane in lanes if lane.races]
            is_over = len(running) < min(2, len(entries))
            if lanes[0] not in running or clock() > pace.deadline or is_over:
                break
            # Strictly by turns: a block right after one's own is faster.
            for part in _turns(lanes, steps, pace):
                for lane in reversed(running) if reverse else running:
                    if lane.trial.is_ok:
                        lane.guarded(lane.turn, part, pace)
            for lane in running:
                lane.end_block(round, steps)
            _let_go(lanes, pace)
            notify(f"round {round + 1}")
        timed = [lane.ended - lane.trial.warm_steps for lane in lanes if lane.ended]
        trials = [lane.final_trial() for lane in lanes]
        why = "the one before it failed" if most == len(entries) else "memory does not hold it"
        trials += [Trial(plan=e.plan, outcome="not run", reason=why) for e in entries[len(lanes) :]]
        gone = {n for n, t in enumerate(trials) if t.outcome not in ("ok", OVER)}
        gone |= {n for n, lane in enumerate(lanes) if lane.is_let_go}
        return _Ran(trials, gone, min(timed, default=None))


def _steps(lanes: Sequence[Lane], pace: RaceLength) -> int:
    """Return the steps of a block, which shall take the fastest lane `pace.block` seconds."""
    most = _LARGEST
    if pace.total is not None:  # the script must not end before the rounds do
        warm = max(lane.trial.warm_steps for lane in lanes)
        most = min(most, (pace.total - warm) // (max(pace.rounds, FEWEST) + 1))
    return max(_SMALLEST, min(most, math.ceil(pace.block / _fastest(lanes))))


def _fastest(lanes: Sequence[Lane]) -> float:
    return min((lane.step for lane in lanes if lane.step > 0 and lane.races), default=1.0)


def _turns(lanes: Sequence[Lane], steps: int, pace: RaceLength) -> list[int]:
    """Return the steps of each turn of a block.

    The machine's speed changes within a block, so that short turns leave less of it in a ratio. On
    a GPU a block is one turn, as each turn ends with a wait for it; so it is where a process has
    loader workers, which work on until they have been put to sleep.
    """
    if any(lane.trial.peak_of == "gpu" or lane.process.has_workers for lane in lanes):
        return [steps]
    count = max(1, min(steps, int(steps * _fastest(lanes) / pace.turn)))
    return [steps // count + (place < steps % count) for place in range(count)]


def _let_go(lanes: Sequence[Lane], pace: RaceLength) -> None:
    """End the processes of other plans that were too slow in each of the first rounds."""
    first, *others = lanes
    for lane in others:
        rounds = lane.trial.rounds
        if not lane.races or lane.entry.plan == first.entry.plan or len(rounds) < pace.look:
            continue
        shared = rounds.keys() & first.trial.rounds.keys()
        if all(rounds[round] > pace.hopeless * first.trial.rounds[round] for round in shared):
            lane.let_go()
