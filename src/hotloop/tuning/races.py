"""Runs the races of a search: which plans beside each other, for how long, from which epoch on."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from hotloop.core.agreement import NUDGES, noise
from hotloop.core.measurement import RISK
from hotloop.core.trial import FEWEST, PAIRS
from hotloop.machine.kept_memory import can_keep
from hotloop.techniques import kept_memory
from hotloop.techniques.selection import find
from hotloop.tuning.interleaved_timing import begin, race, race_apart

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from hotloop.core.agreement import Evidence
    from hotloop.core.plan import Plan
    from hotloop.core.trial import Trial
    from hotloop.techniques.base import Technique
    from hotloop.tuning.lane import Entry, RaceLength

__all__ = ["Races", "TuningTarget", "changes_memory", "keeping_memory", "patient", "short"]

_SHARE: Final = 0.1  # of the budget: limit of a move with more than one pair of processes
_FINAL_ROUNDS: Final = 16
_SHORT: Final = 0.15  # seconds of a block of a short trial, at least
_LANES: Final = 5  # processes of a race, at most


class TuningTarget(Protocol):
    """A script or a recipe that is tuned."""

    @property
    def baseline(self) -> Plan:
        """The plan before tuning."""

    @property
    def total(self) -> int | None:
        """Optimizer steps of a whole run; None if unknown beforehand."""

    def forking(self) -> AbstractContextManager[TuningTarget]:
        """Return this target with trials that are forked, as long as the context lasts."""

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""

    def alone(self) -> Entry:
        """Return how to start the baseline's first trial, which may time more than its steps."""

    def still(self, plan: Plan) -> Entry | None:
        """Return how to start a trial of a plan without dropout; None if that cannot be."""

    def nudged(self, size: float, seed: int) -> Entry | None:
        """Return how to start the baseline from weights changed at random by `size` of each.

        None if that cannot be.
        """

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""

    def lanes(self, trial: Trial) -> int:
        """Return how many trials fit into memory together."""

    @property
    def reordered(self) -> Plan | None:
        """The baseline with another order of summation; None if there is no such plan."""


def patient(pace: RaceLength) -> RaceLength:
    """Return the length of a race that shall decide."""
    return replace(pace, rounds=_FINAL_ROUNDS, pairs=PAIRS)


def short(pace: RaceLength, plans: int) -> RaceLength:
    """Return the length of a short trial, which ends where the first rounds show no gain.

    It has enough rounds to show that one of `plans` plans is faster, with RISK for them all.
    """
    rounds = min(pace.rounds, max(FEWEST, 1 + math.ceil(math.log2(max(1, plans) / RISK))))
    block = min(pace.block, _SHORT)
    return replace(pace, rounds=rounds, pairs=1, block=block, hopeless=1.0)


def keeping_memory(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of a race so that their processes keep the memory that they free.

    How much glibc gives back in a step depends on the layout of a process's heap, which makes
    processes of one plan differ (docs/decisions/0023). Plans that differ in just that are raced as
    they are, as are several ranks, of which only the first would be told.
    """
    plans = [entry.plan for entry in entries]
    are_alike = len({plan.choice(kept_memory.ID) is None for plan in plans}) == 1
    keeps = can_keep() and are_alike and all(plan.ranks == 1 for plan in plans)
    return [replace(entry, keeps_memory=keeps) for entry in entries]


def changes_memory(ids: Sequence[str]) -> bool:
    """Whether techniques change what happens to freed memory, so that they race apart."""
    return kept_memory.ID in ids


class Races:
    """Starts the processes of a target; knows what a race costs and how many fit into memory."""

    def __init__(
        self,
        target: TuningTarget,
        pace: RaceLength,
        *,
        clock: Callable[[], float],
        notify: Callable[[str], None],
        known: Sequence[Technique],
    ) -> None:
        self._target, self._known = target, known
        self._how: Mapping[str, Any] = {"clock": clock, "notify": notify}
        self.clock = clock
        self.pace = pace
        self.apart: str | None = None  # why trials run one after the other
        self.lanes = 2  # processes of a race, at most
        self.cost = 0.0  # seconds of a race of two
        self._largest: Trial | None = None  # by memory
        self._nudged: dict[float, Sequence[Evidence]] = {}

    def alone(self, plan: Plan | None = None) -> Trial:
        """Run the first steps of a plan by itself; without one, the baseline's first trial."""
        entry = self._target.alone() if plan is None else self._entry(plan)
        (trial,) = race([entry], replace(self.pace, rounds=0), **self._how)
        if plan is None and trial.is_ok:
            self._see_room(trial)
        return trial

    def with_a_third(self, runs: Sequence[Trial]) -> list[Trial]:
        """Add a third run of the baseline where two differ: one pair tells too little of that."""
        if len(runs) > 2 or not noise(runs[0].evidence, runs[1].evidence):
            return list(runs)
        more = self.alone(runs[0].plan)
        return [more, *runs] if more.evidence.losses else list(runs)

    def without_dropout(self, plan: Plan) -> Evidence | None:
        """Return what the first steps of a plan compute without dropout; None if unknown."""
        entry = self._target.still(plan)
        return None if entry is None else next(iter(self._first_steps([entry])), None)

    def nudged(self, size: float) -> Sequence[Evidence]:
        """Return what the baseline computes in its first steps from weights changed by `size`.

        It is run once for each size.
        """
        if size not in self._nudged:
            self._nudged[size] = self._run_nudged(size)
        return self._nudged[size]

    def _run_nudged(self, size: float) -> Sequence[Evidence]:
        self._how["notify"]("as it is, from weights changed by a rounding")
        found = [self._target.nudged(size, seed) for seed in range(NUDGES)]
        entries = [entry for entry in found if entry is not None]
        if self.apart is None and self.lanes >= len(entries):
            return self._first_steps(entries)
        return [run for entry in entries for run in self._first_steps([entry])]

    def _first_steps(self, entries: Sequence[Entry]) -> list[Evidence]:
        if not entries:
            return []
        trials = race(entries, replace(self.pace, rounds=0), **self._how)
        return [trial.evidence for trial in trials if trial.evidence.losses]

    def first_step(self, plan: Plan) -> Trial:
        """Run only the first step of a plan, with its effects read back."""
        return begin(self._entry(plan), self.pace)

    def of_two(
        self,
        first: Plan,
        second: Plan,
        *,
        needs: Sequence[str] = (),
        pace: RaceLength | None = None,
    ) -> tuple[Trial, Trial]:
        """Race two plans, one after the other if memory holds only one."""
        if self.apart is None and self._largest is not None:
            self.apart = self._target.room(self._largest)
        one, two = self.of([first, second], [needs], pace or self.pace)
        return one, two

    def of(
        self,
        plans: Sequence[Plan],
        needs: Sequence[Sequence[str]],
        pace: RaceLength,
        *,
        room: bool = False,
    ) -> Sequence[Trial]:
        """Race plans; the others, with the effects that they need, are compared with the first.

        With `room`, the first process shows how many fit into memory.
        """
        began = self.clock()
        epochs = max(self.pays_from(use.id for use in plan.techniques) for plan in plans)
        entries = keeping_memory(
            [
                self._entry(plan, epochs=epochs, needs=ids)
                for plan, ids in zip(plans, [(), *needs], strict=True)
            ]
        )
        if self.apart is None:
            trials = race(entries, pace, room=self._see_room if room else None, **self._how)
        else:
            trials = race_apart(entries, pace, **self._how)
        for trial in trials:
            if (trial.peak_bytes or 0) > ((self._largest and self._largest.peak_bytes) or 0):
                self._largest = trial
        seconds = (self.clock() - began) * 2 / len(plans)
        self.cost = (self.cost + seconds) / 2 if self.cost else seconds
        return trials

    def limit_pairs(self, seconds: float) -> None:
        """Start no more pairs of processes for a move than a tenth of `seconds` pays."""
        most = max(1, int(_SHARE * seconds / max(self.cost, 1e-9)))
        self.pace = replace(self.pace, pairs=min(most, self.pace.pairs))

    def pays_from(self, ids: Iterable[str]) -> int:
        """Return the epoch that must have begun before steps are representative; 0 for any."""
        first = max((find(id, self._known).pays_from for id in ids), default=1)
        return first if first > 1 else 0

    def kind(self, ids: Sequence[str]) -> tuple[int, bool]:
        """Return what techniques must share to race beside each other.

        It is the epoch from which they pay, and whether they change what happens to freed memory.
        """
        return self.pays_from(ids), changes_memory(ids)

    @property
    def proof_cost(self) -> float:
        """Seconds of a race that decides, from those of the short ones so far."""
        return self.cost * _FINAL_ROUNDS / FEWEST

    def _see_room(self, trial: Trial) -> int:
        """Note whether several trials like this one fit into memory; return how many."""
        self.apart = self._target.room(trial)
        self.lanes = max(2, min(_LANES, self._target.lanes(trial)))
        return 1 if self.apart is not None else self.lanes

    def _entry(self, plan: Plan, *, epochs: int = 0, needs: Sequence[str] = ()) -> Entry:
        return self._target.entry(plan, epochs=epochs, needs=needs)


def last_until(pace: RaceLength, deadline: float) -> RaceLength:
    """Return the length of the last race, which starts pairs of processes until it can decide."""
    return replace(patient(pace), gain=math.inf, deadline=deadline)
