"""One process in a race: it makes blocks of steps, while the others sleep."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.agreement import Evidence
from hotloop.core.trial import PAIRS, Scatters, Trial
from hotloop.core.units import duration
from hotloop.tuning.trial_process import TrialEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.plan import Plan
    from hotloop.tuning.trial_process import TrialProcess, TrialReport

__all__ = ["LATE", "NO_TIME", "OVER", "WARM", "Entry", "Lane", "RaceLength"]

WARM: Final = 10  # steps that are not timed: first allocations, compilation, workers that start
_CAREFUL: Final = {0: 1, 1: 1, 2: 3, 5: 5}  # steps made: those of the next block of a warm-up
_OVERRUN: Final = 10.0  # seconds by which a warm-up may end after the budget
_SLOW: Final = 20.0  # times the expected duration after which a block is taken to hang
_MANY: Final = 5.0  # times the step of the first lane: a lane is let go in its warm-up
OVER: Final = "over"  # the script came to its end
LATE: Final = "too late"  # its second epoch
NO_TIME: Final = "no time"  # for its warm-up


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
class Lane:
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
    def of(cls, entry: Entry, process: TrialProcess) -> Lane:
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

    def guarded(self, act: Callable[..., None], *how: object) -> None:
        """Call one of its methods; record how the process ended, if it did."""
        try:
            act(*how)
        except TrialEnded as ended:
            self.trial = replace(self.trial, outcome=ended.outcome, reason=ended.reason)
            self.ended = ended.at
            self.process.close()  # frees its memory for the others

    def begin(self, pace: RaceLength) -> None:
        """Make the first step; raise TrialEnded if a needed technique has no effect."""
        report = self.process.first(seconds=pace.start)
        self.trial = replace(self.trial, started=report.seconds)
        self._record(report)
        self._check_effects()

    def warm(self, pace: RaceLength, clock: Callable[[], float], compared: float = 0.0) -> None:
        """Make the warm-up steps in two blocks; the later one tells the time of a step.

        If the first epoch costs more, warm-up lasts until the next epoch has begun. A lane is let
        go whose step takes many times as long as `compared`, that of the first lane; 0 if unknown.
        Raises TrialEnded if the warm-up would end long after the deadline. Where the time of the
        start leaves that open, it begins with single steps.
        """
        warmed, made, shortest = 0.0, 0, math.inf
        now = clock()
        latest = min(pace.deadline, now + pace.epoch)
        latest_end = pace.deadline + _OVERRUN
        fits = now + WARM * (self.trial.started or 0.0) < latest_end
        while made < WARM or self.epochs < self.entry.epochs:
            steps = max(WARM // 2, made // 4) if fits or made >= WARM else _CAREFUL[made]
            report = self.process.block(steps, seconds=pace.start + steps * pace.step)
            warmed, made = warmed + report.seconds, made + report.made
            self.step = report.seconds / report.made
            self.trial = replace(self.trial, warmed=warmed, warm_steps=made)
            self._record(report)
            self._check_effects()
            shortest = min(shortest, self.step)
            left = 0.0 if made == 1 or self.trial.compiled else (WARM - made) * shortest
            if made < WARM and not fits and clock() + left > latest_end:
                why = f"{WARM} warm-up steps of {duration(shortest)} end after the budget"
                raise TrialEnded(NO_TIME, f"{why}: give a longer --budget")
            is_timed = made >= WARM and not self.entry.epochs  # else it may cost more at first
            if is_timed and self.step > max(_MANY, pace.hopeless) * compared > 0:
                self.let_go()
                times = f"{self.step / compared:.0f} times as long in the warm-up"
                self.trial = replace(self.trial, too_slow=times)
                return
            if self.epochs < self.entry.epochs and clock() > latest:
                why = f"epoch {self.entry.epochs} had not begun after {warmed:.0f} s ({made} steps)"
                raise TrialEnded(LATE, why)

    def turn(self, steps: int, pace: RaceLength) -> None:
        """Make steps of the present block."""
        report = self.process.block(steps, seconds=pace.step + _SLOW * steps * self.step)
        self.block_seconds += report.seconds
        self.block_steps += report.made
        self._record(report)

    def final_trial(self) -> Trial:
        """Return the trial with all that its process has told."""
        late: Any = {name: tuple(values) for name, values in self.late.items()}
        trial = replace(self.trial, evidence=replace(self.trial.evidence, **late))
        if trial.peak_bytes is None and self.process.peak_bytes:
            trial = replace(trial, peak_bytes=self.process.peak_bytes)
        return trial

    def _check_effects(self) -> None:
        """Raise TrialEnded if a technique that the trial needs has no effect."""
        for id in self.entry.needs:
            word, how = self.trial.effects.get(id, ("in effect", ""))
            if word != "in effect":
                raise TrialEnded(word, how)

    def _record(self, report: TrialReport) -> None:
        """Record the contents of a report besides its seconds."""
        message: Any = report.more
        self.epochs = int(message.get("epochs", self.epochs))
        news = dict(message.get("evidence") or {})
        for name, values in self.late.items():
            values += news.pop(name, [])
        if news:
            self.trial = replace(self.trial, evidence=Evidence(**news))
        effects = {id: (word, how) for id, (word, how) in (message.get("effects") or {}).items()}
        self.trial = replace(self.trial, effects=effects)
        if "compile" in message:
            self.trial = replace(self.trial, compiled=float(message["compile"]))
        if (aside := message.get("aside")) is not None:
            validation = statistics.median(aside["validation"])
            times = {"validation": validation, "save": aside["save"]}
            known = {what: seconds for what, seconds in times.items() if seconds is not None}
            self.trial = replace(self.trial, aside=known)
        if (peak := message.get("peak")) is not None:
            self.trial = replace(self.trial, peak_bytes=int(peak), peak_of="gpu")
