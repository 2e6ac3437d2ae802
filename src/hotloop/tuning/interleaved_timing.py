"""Races trials: they make blocks of the same steps by turns, while all others sleep."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.agreement import Evidence
from hotloop.core.trial import FEWEST, PAIRS, Scatters, Trial, compare
from hotloop.tuning.trial_process import TrialEnded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hotloop.core.plan import Plan
    from hotloop.tuning.trial_process import TrialProcess, TrialReport

__all__ = ["LATE", "LEAST_STEPS", "OVER", "Entry", "RaceLength", "begin", "race", "race_apart"]

WARM: Final = 10  # steps that are not timed: first allocations, compilation, workers that start
_AGAIN: Final = 3  # starts of trials whose script ends too soon
_SMALLEST: Final = 2  # steps of a block: 20 in ten rounds
_LARGEST: Final = 2_000
LEAST_STEPS: Final = WARM + _SMALLEST * (FEWEST + 1)  # that a script must make to be compared
_SLOW: Final = 20.0  # times the expected duration after which a block is taken to hang
_MANY: Final = 5.0  # times the step of the first lane: a lane is let go in its warm-up
OVER: Final = "over"  # the script came to its end
LATE: Final = "too late"  # its second epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceLength:
    """How long a race takes."""

    rounds: int = 10  # of each pair of processes
    pairs: int = PAIRS  # of processes, at most; no more are started after a decision
    gain: float = math.inf  # more pairs only if the ratio is below; 0.97 in a search
    scatters: Scatters = field(default_factory=Scatters)  # of such pairs
    block: float = 0.25  # seconds, at least
    turn: float = 0.025  # seconds, at least: a block is made in several turns, but on a GPU
    start: float = 180.0  # seconds until the first step is over, at most
    step: float = 60.0  # seconds of one step, at most
    epoch: float = 30.0  # seconds of waiting for the next epoch, at most
    total: int | None = None  # steps that the script makes in all, if known
    deadline: float = math.inf  # time of the clock after which no round starts
    hopeless: float = 1.5  # a trial this many times as long in each of the first rounds is given up
    look: int = 3  # number of these first rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A plan and how to start a process with it."""

    plan: Plan
    start: Callable[[], TrialProcess]
    epochs: int = 0  # epochs that must have begun before timing; 2 if the first one costs more
    needs: tuple[str, ...] = ()  # techniques that must be in effect
    keeps_memory: bool = False  # freed memory stays with its process, whatever the plan


@dataclass(slots=True)
class _Lane:
    """One process in the race."""

    entry: Entry
    process: TrialProcess
    trial: Trial
    step: float = 0.0  # seconds of a warm step
    epochs: int = 0
    ended: int = 0  # steps after which its script ended
    is_let_go: bool = False  # too slow: its process was ended
    late: dict[str, list[Any]] = field(default_factory=lambda: {"late": [], "late_passes": []})
    block_seconds: float = 0.0  # of the turns of the present block
    block_steps: int = 0

    @classmethod
    def of(cls, entry: Entry, process: TrialProcess) -> _Lane:
        """Return the lane of a process that has just been started."""
        if entry.keeps_memory:
            process.keep_memory()
        return cls(entry, process, Trial(plan=entry.plan, keeps_memory=entry.keeps_memory))

    def end_block(self, round: int, steps: int) -> None:
        """Record the block of a round, unless the process ended within it."""
        seconds, made = self.block_seconds, self.block_steps
        self.block_seconds, self.block_steps = 0.0, 0
        if made >= steps:
            rounds = {**self.trial.rounds, round: seconds / made}
            self.trial = replace(self.trial, rounds=rounds, steps=self.trial.steps + made)

    def let_go(self) -> None:
        """End its process, which frees its memory for the others."""
        self.is_let_go = True
        self.process.close()

    @property
    def races(self) -> bool:
        """Whether it makes the next round."""
        return self.trial.is_ok and not self.is_let_go


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
        lane = _Lane.of(entry, process)
        _call_guarded(lane, _begin, pace)
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
        lanes: list[_Lane] = []
        most = len(entries)
        for entry in reversed(entries) if reverse else entries:
            if len(lanes) >= most:
                break
            lane = _Lane.of(entry, stack.enter_context(entry.start()))
            lanes.append(lane)
            _call_guarded(lane, _begin, pace)
            notify("started")
            if not lane.trial.is_ok and entry is entries[0]:
                break
            if room is not None and len(lanes) == 1:
                _call_guarded(lane, _warm, pace, clock)
                most = max(1, room(_final_trial(lane)))
        lanes = lanes[::-1] if reverse else lanes
        running = [lane for lane in lanes if lane.trial.is_ok]
        for lane in running if len(running) > 1 or len(entries) == 1 else []:
            if not lane.trial.warm_steps:
                _call_guarded(lane, _warm, pace, clock, lanes[0].step)
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
                        _call_guarded(lane, _turn, part, pace)
            for lane in running:
                lane.end_block(round, steps)
            _let_go(lanes, pace)
            notify(f"round {round + 1}")
        timed = [lane.ended - lane.trial.warm_steps for lane in lanes if lane.ended]
        trials = [_final_trial(lane) for lane in lanes]
        why = "the one before it failed" if most == len(entries) else "memory does not hold it"
        trials += [Trial(plan=e.plan, outcome="not run", reason=why) for e in entries[len(lanes) :]]
        gone = {n for n, t in enumerate(trials) if t.outcome not in ("ok", OVER)}
        gone |= {n for n, lane in enumerate(lanes) if lane.is_let_go}
        return _Ran(trials, gone, min(timed, default=None))


def _call_guarded(lane: _Lane, act: Callable[..., None], *how: object) -> None:
    """Call `act` on a lane; record how its process ended, if it did."""
    try:
        act(lane, *how)
    except TrialEnded as ended:
        lane.trial = replace(lane.trial, outcome=ended.outcome, reason=ended.reason)
        lane.ended = ended.at
        lane.process.close()  # frees its memory for the others


def _begin(lane: _Lane, pace: RaceLength) -> None:
    report = lane.process.first(seconds=pace.start)
    lane.trial = replace(lane.trial, started=report.seconds)
    _record_report(lane, report)
    _check_effects(lane)


def _check_effects(lane: _Lane) -> None:
    """Raise TrialEnded if a technique that the trial needs has no effect."""
    for id in lane.entry.needs:
        word, how = lane.trial.effects.get(id, ("in effect", ""))
        if word != "in effect":
            raise TrialEnded(word, how)


def _warm(lane: _Lane, pace: RaceLength, clock: Callable[[], float], compared: float = 0.0) -> None:
    """Make the warm-up steps in two blocks; the later one gives the duration of a step.

    If the first epoch costs more, warm-up lasts until the next epoch has begun. A lane is let go
    whose step takes many times as long as `compared`, that of the first lane; 0 if unknown.
    """
    warmed, made = 0.0, 0
    latest = min(pace.deadline, clock() + pace.epoch)
    while made < WARM or lane.epochs < lane.entry.epochs:
        steps = WARM // 2 if made < WARM else max(WARM // 2, made // 4)
        report = lane.process.block(steps, seconds=pace.start + steps * pace.step)
        warmed, made = warmed + report.seconds, made + report.made
        lane.step = report.seconds / report.made
        lane.trial = replace(lane.trial, warmed=warmed, warm_steps=made)
        _record_report(lane, report)
        _check_effects(lane)
        is_timed = made >= WARM and not lane.entry.epochs  # else it may cost more at first
        if is_timed and lane.step > max(_MANY, pace.hopeless) * compared > 0:
            lane.let_go()
            times = f"{lane.step / compared:.0f} times as long in the warm-up"
            lane.trial = replace(lane.trial, too_slow=times)
            return
        if lane.epochs < lane.entry.epochs and clock() > latest:
            why = f"epoch {lane.entry.epochs} had not begun after {warmed:.0f} s ({made} steps)"
            raise TrialEnded(LATE, why)


def _steps(lanes: Sequence[_Lane], pace: RaceLength) -> int:
    """Return the steps of a block, which shall take the fastest lane `pace.block` seconds."""
    most = _LARGEST
    if pace.total is not None:  # the script must not end before the rounds do
        warm = max(lane.trial.warm_steps for lane in lanes)
        most = min(most, (pace.total - warm) // (max(pace.rounds, FEWEST) + 1))
    return max(_SMALLEST, min(most, math.ceil(pace.block / _fastest(lanes))))


def _fastest(lanes: Sequence[_Lane]) -> float:
    return min((lane.step for lane in lanes if lane.step > 0 and lane.races), default=1.0)


def _turns(lanes: Sequence[_Lane], steps: int, pace: RaceLength) -> list[int]:
    """Return the steps of each turn of a block.

    The machine's speed changes within a block, so that short turns leave less of it in a ratio. On
    a GPU a block is one turn, as each turn ends with a wait for it; so it is where a process has
    loader workers, which work on until they have been put to sleep.
    """
    if any(lane.trial.peak_of == "gpu" or lane.process.has_workers for lane in lanes):
        return [steps]
    count = max(1, min(steps, int(steps * _fastest(lanes) / pace.turn)))
    return [steps // count + (place < steps % count) for place in range(count)]


def _turn(lane: _Lane, steps: int, pace: RaceLength) -> None:
    report = lane.process.block(steps, seconds=pace.step + _SLOW * steps * lane.step)
    lane.block_seconds += report.seconds
    lane.block_steps += report.made
    _record_report(lane, report)


def _let_go(lanes: Sequence[_Lane], pace: RaceLength) -> None:
    """End the processes of other plans that were too slow in each of the first rounds."""
    first, *others = lanes
    for lane in others:
        rounds = lane.trial.rounds
        if not lane.races or lane.entry.plan == first.entry.plan or len(rounds) < pace.look:
            continue
        shared = rounds.keys() & first.trial.rounds.keys()
        if all(rounds[round] > pace.hopeless * first.trial.rounds[round] for round in shared):
            lane.let_go()


def _record_report(lane: _Lane, report: TrialReport) -> None:
    """Record the contents of a report besides its seconds."""
    message: Any = report.more
    lane.epochs = int(message.get("epochs", lane.epochs))
    news = dict(message.get("evidence") or {})
    for name, values in lane.late.items():
        values += news.pop(name, [])
    if news:
        lane.trial = replace(lane.trial, evidence=Evidence(**news))
    effects = {id: (word, how) for id, (word, how) in (message.get("effects") or {}).items()}
    lane.trial = replace(lane.trial, effects=effects)
    if "compile" in message:
        lane.trial = replace(lane.trial, compiled=float(message["compile"]))
    if (aside := message.get("aside")) is not None:
        validation = statistics.median(aside["validation"])
        times = {"validation": validation, "save": aside["save"]}
        known = {what: seconds for what, seconds in times.items() if seconds is not None}
        lane.trial = replace(lane.trial, aside=known)
    if (peak := message.get("peak")) is not None:
        lane.trial = replace(lane.trial, peak_bytes=int(peak), peak_of="gpu")


def _final_trial(lane: _Lane) -> Trial:
    late: Any = {name: tuple(values) for name, values in lane.late.items()}
    trial = replace(lane.trial, evidence=replace(lane.trial.evidence, **late))
    if trial.peak_bytes is None and lane.process.peak_bytes:
        trial = replace(trial, peak_bytes=lane.process.peak_bytes)
    return trial
