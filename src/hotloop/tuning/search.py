"""The search: one change after the other against the best plan so far, kept only with proof.

Coordinate descent. Each candidate runs beside the best plan; its losses and gradients are held
against the baseline's. In the end the result runs against the baseline once more.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from hotloop import techniques
from hotloop.core.agreement import Parity, Rounding, agree, noise, rounding
from hotloop.core.errors import DataError
from hotloop.core.trial import EDGE, PAIRS, Comparison, Trial, compare
from hotloop.core.tuning_result import Decision, TuneRow, pays_back
from hotloop.techniques.selection import find
from hotloop.tuning.interleaved_timing import LATE, Entry, RaceLength, begin, race, race_apart
from hotloop.tuning.moves import Move, pairs, promise

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.plan import Plan
    from hotloop.techniques.base import Technique

__all__ = ["Search", "TuningTarget"]

_CLEAR: Final = 0.97  # a ratio below is worth a second look where it could not be told
_FINAL_ROUNDS: Final = 16
_SHARE: Final = 0.1  # of the budget: a move takes no more, but one pair of processes
_SEARCHED: Final = 4  # pairs of processes of a move at most; of the proof as many as there are
_NO_EFFECT: Final[dict[str, Decision]] = {
    "refused": "refused",
    "not needed here": "not needed here",
}
_SLOW: Final = frozenset({"compile"})  # its first step alone takes longer than a trial
_FEW: Final = 3  # moves below which a process to sift them costs more than it saves


class TuningTarget(Protocol):
    """What is tuned."""

    @property
    def baseline(self) -> Plan:
        """The plan it has now."""

    @property
    def total(self) -> int | None:
        """Optimizer steps of a whole run; None where that is not known beforehand."""

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""

    def alone(self) -> Entry:
        """Return how to start the baseline's first trial, which may time more than its steps."""

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""

    @property
    def reordered(self) -> Plan | None:
        """The baseline with its sums in another order; None where there is no such plan."""


class Search:
    """Holds what is known so far; each method adds rows to it."""

    def __init__(
        self,
        target: TuningTarget,
        *,
        seconds: float,
        tell: Callable[[str], None] = lambda _: None,
        keep: Callable[[TuneRow], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
        pace: RaceLength | None = None,
        known: Sequence[Technique] = techniques.ALL,
    ) -> None:
        self._known = known
        self._target, self._tell, self._keep, self._clock = target, tell, keep, clock
        self._deadline = clock() + seconds
        self._pace = replace(
            pace or RaceLength(pairs=_SEARCHED), deadline=self._deadline, gain=_CLEAR
        )
        self.rows: list[TuneRow] = []
        self.plan = target.baseline
        self.proof: TuneRow | None = None
        self.aside: Mapping[str, float] = {}  # what was timed besides the baseline's steps: seconds
        self._base: Trial | None = None
        self._noise = 0.0
        self._order: Rounding | None = None
        self._apart: str | None = None
        self._cost = 0.0  # seconds of a race of two
        self._hopeless: set[str] = set()
        self._total: int | None = None
        self._kept: list[str] = []  # ids of techniques that made the plan faster
        self._largest: Trial | None = None  # by memory
        self._unsure: list[tuple[float, Move]] = []

    @property
    def base(self) -> Trial:
        """Return the baseline's trial, once it was made."""
        assert self._base is not None
        return self._base

    def measure_baseline(self) -> None:
        """Run the baseline against itself: its own noise. Raises DataError when it cannot run."""
        began, plan = self._clock(), self._target.baseline
        (alone,) = race([self._target.alone()], replace(self._pace, rounds=0), tell=self._tell)
        if alone.outcome not in ("ok", "over"):
            raise DataError(f"it cannot be tried as it is: {alone.outcome}, {alone.reason}")
        self._apart, self.aside = self._target.room(alone), alone.aside
        before = self._clock()
        short = replace(self._pace, pairs=1)
        first, again = self._race(plan, plan, pace=short)
        self._cost = self._clock() - before
        most = max(1, int(_SHARE * (self._deadline - began) / max(self._cost, 1e-9)))
        self._pace = replace(self._pace, pairs=min(most, self._pace.pairs))
        if not first.is_ok or not again.is_ok:
            bad = again if first.is_ok else first
            raise DataError(f"two runs as it is cannot be compared: {bad.outcome}, {bad.reason}")
        self._noise = max(
            noise(first.evidence, again.evidence), noise(alone.evidence, first.evidence)
        )
        found = compare(again, first)
        scatter = self._pace.scatter.more(found.centres, 0.0, lost=0)
        self._pace = replace(self._pace, scatter=scatter)
        self._base = first
        same = "losses equal" if self._noise == 0 else f"losses differ by {self._noise:.1e}"
        why = f"two runs as it is: {found.why}; {same}"
        self._order = self._other_order(first)
        if self._order is not None:
            why += f"; in another order of sums they differ by {self._order.steps:.1e}"
        if self._apart is not None:
            why += f"; trials run one after the other: {self._apart}"
        self._add(TuneRow.of(first, "as it is", "baseline", why, comparison=found,
                         seconds=self._clock() - began))  # fmt: skip

    def _other_order(self, base: Trial) -> Rounding | None:
        """Return how far the baseline is from itself in another order of sums, in its precision."""
        plan = self._target.reordered
        if plan is None or base.evidence.draws:
            return None
        self._tell("as it is, in another order of sums")
        (found,) = race([self._entry(plan)], replace(self._pace, rounds=0), tell=self._tell)
        return rounding(base.evidence, found.evidence)

    def try_all(self, moves: Sequence[Move], *, total: int | None = None) -> None:
        """Try each move against the best plan so far, then the known pairs, then what was close.

        `total` is how many steps the target makes in all, where that is known.
        """
        self._total = total
        if self._target.total is None:  # a script ends by itself; a recipe's trial does not
            self._pace = replace(self._pace, total=total)
        idle = self._sift(moves)
        for move in moves:
            if (found := idle.get(move.name)) is not None:
                self._give_up(move)
                self._add(TuneRow(name=move.name, decision=_NO_EFFECT[found[0]], why=found[1]))
            else:
                self._try(move)
        for pair in pairs(moves, self._hopeless):
            self._try(pair)
        for _, move in sorted(self._unsure, key=lambda each: each[0])[:2]:
            self._try(move, again=True)

    def _sift(self, moves: Sequence[Move]) -> dict[str, tuple[str, str]]:
        """Return the moves that have no effect, and why: seen in one process with all of them.

        Those that exclude each other, or another choice of the same, are not among them. If that
        process fails, every move is tried by itself.
        """
        plan, asked = self.plan, dict[str, Move]()
        for move in moves:
            changed = move.change(plan) if move.why_not is None and len(move.ids) == 1 else None
            if changed is None or move.ids[0] in asked or move.ids[0] in _SLOW:
                continue
            if changed.ranks != plan.ranks or move.barred(plan) is not None:
                continue
            if {use.id for use in changed.techniques} >= {*asked, *move.ids}:
                plan, asked[move.ids[0]] = changed, move
        if len(asked) < _FEW or self._clock() > self._deadline:
            return {}
        self._tell("which techniques have an effect")
        seen = begin(self._entry(plan), self._pace).effects
        return {
            move.name: seen[id]
            for id, move in asked.items()
            if seen.get(id, ("in effect", ""))[0] in _NO_EFFECT
        }

    def _give_up(self, move: Move) -> None:
        """Try a technique no more that has no effect; with another choice it may have one."""
        alone = move.change(self._target.baseline)
        if len(move.ids) == 1 and alone is not None and not alone.choice(move.ids[0]):
            self._hopeless |= set(move.ids)

    def prove(self) -> None:
        """Run the result against the baseline; what is not faster is given up."""
        plan, baseline = self.plan, self._target.baseline
        if plan == baseline:
            return
        began = self._clock()
        patient = replace(_patient(self._pace), gain=math.inf, deadline=began + 10 * self._cost)
        base, tried = self._race(baseline, plan, needs=self._kept, pace=patient)
        found, parity = self._judge(tried, base, plan)
        earned = pays_back(tried, base)
        decision, why = _proved(tried, found, parity, self._too_late(earned), self._pace)
        if decision != "proved":
            self.plan = baseline
        name = " + ".join(plan.differences(baseline)) if not plan.techniques else _named(plan)
        self.proof = TuneRow.of(
            tried,
            name,
            decision,
            why,
            comparison=found,
            parity=parity,
            pays_back=earned,
            seconds=self._clock() - began,
        )
        self._keep(self.proof)

    def _try(self, move: Move, *, again: bool = False) -> None:
        """Try one move and keep it if it is faster and trains alike."""
        if move.why_not is not None:
            self._give_up(move)
            self._add(TuneRow(name=move.name, decision="refused", why=move.why_not))
            return
        plan = move.change(self.plan)
        if plan is None or set(move.ids) & self._hopeless:
            return
        if (why := move.barred(self.plan)) is not None:
            self._add(TuneRow(name=move.name, decision="refused", why=why))
            return
        if self._clock() + self._cost > self._deadline:
            self._add(TuneRow(name=move.name, decision="not tried", why="the budget is used up"))
            return
        name = f"{move.name}, again" if again else move.name
        self._tell(name)
        began = self._clock()
        pace = _patient(self._pace) if again else self._pace
        needs = (*move.ids, *self._kept)
        base, tried = self._race(self.plan, plan, needs=needs, pace=pace)
        if self._apart is None and any(map(_ran_out, (base, tried))):
            self._apart = "two did not fit into memory together"
            base, tried = self._race(self.plan, plan, needs=needs, pace=pace)
            if _ran_out(tried):  # nor does it alone
                self._apart = None
        seconds = self._clock() - began
        self._cost = (self._cost + seconds) / 2
        row = self._outcome(move, plan, base, tried, again=again)
        self._add(replace(row, name=name, seconds=seconds))

    def _outcome(
        self, move: Move, plan: Plan, base: Trial, tried: Trial, *, again: bool
    ) -> TuneRow:
        """Decide what becomes of a plan that was tried."""
        if not base.is_ok:
            why = f"the plan it was compared with ended: {base.outcome}, {base.reason}"
            return TuneRow.of(tried, move.name, "cannot be told", why)
        if tried.outcome in _NO_EFFECT:
            self._give_up(move)
            return TuneRow.of(tried, move.name, _NO_EFFECT[tried.outcome], str(tried.reason))
        if tried.outcome == LATE:
            return TuneRow.of(tried, move.name, "cannot be told", str(tried.reason))
        if not tried.is_ok:
            return TuneRow.of(tried, move.name, "failed", f"{tried.outcome}: {tried.reason}")
        found, parity = self._judge(tried, base, plan)
        decision, why = _decision(found, parity, self._pace)
        earned = pays_back(tried, base)
        if decision == "kept" and (late := self._too_late(earned)) is not None:
            decision, why = "dropped", f"{late}; {why}"
        if decision == "kept":
            self.plan = plan
            self._kept = [id for id in (*self._kept, *move.ids) if plan.choice(id) is not None]
        elif decision == "cannot be told" and found.ratio and found.ratio < _CLEAR and not again:
            self._unsure.append((found.ratio, move))
        return TuneRow.of(
            tried, move.name, decision, why, comparison=found, parity=parity, pays_back=earned
        )

    def _judge(self, tried: Trial, base: Trial, plan: Plan) -> tuple[Comparison, Parity]:
        edge = EDGE if self._apart is None else 2 * EDGE
        wanted = promise(plan, self._target.baseline, known=self._known)
        known: Any = {"noise": self._noise, "order": self._order}
        parity = agree(self.base.evidence, tried.evidence, wanted, **known)
        step = promise(plan, base.plan, known=self._known)
        if wanted.is_training and not step.is_training and parity.kept:
            # Only what it learns can be held against the baseline; this step promises more.
            parity = agree(base.evidence, tried.evidence, step, **known)
        found = compare(tried, base, edge=edge, scatter=self._pace.scatter)
        self._pace = replace(self._pace, scatter=self._pace.scatter.seen(found))
        return found, parity

    def _too_late(self, earned: int | None) -> str | None:
        """Return why a gain is none: what it costs once is not earned back in the whole run."""
        total = self._total
        if earned is None or total is None or earned < total:
            return None
        return f"it pays back after {earned:,} steps, and all are {total:,}"

    def _race(
        self,
        first: Plan,
        second: Plan,
        *,
        needs: Sequence[str] = (),
        pace: RaceLength | None = None,
    ) -> tuple[Trial, Trial]:
        epochs = max(self._pays_from(first), self._pays_from(second))
        entries = [
            self._entry(first, epochs=epochs),
            self._entry(second, epochs=epochs, needs=needs),
        ]
        if self._apart is None and self._largest is not None:
            self._apart = self._target.room(self._largest)
        run = race if self._apart is None else race_apart
        one, two = run(entries, pace or self._pace, clock=self._clock, tell=self._tell)
        for trial in (one, two):
            if (trial.peak_bytes or 0) > ((self._largest and self._largest.peak_bytes) or 0):
                self._largest = trial
        return one, two

    def _entry(self, plan: Plan, *, epochs: int = 0, needs: Sequence[str] = ()) -> Entry:
        return self._target.entry(plan, epochs=epochs, needs=needs)

    def _pays_from(self, plan: Plan) -> int:
        """Return the epoch that must have begun before steps say something; 0 for any."""
        first = max((find(use.id, self._known).pays_from for use in plan.techniques), default=1)
        return first if first > 1 else 0

    def _add(self, row: TuneRow) -> None:
        self.rows.append(row)
        self._keep(row)


def _ran_out(trial: Trial) -> bool:
    return not trial.is_ok and "out of memory" in f"{trial.reason}".lower()


def _patient(pace: RaceLength) -> RaceLength:
    return replace(pace, rounds=_FINAL_ROUNDS, pairs=PAIRS)


def _named(plan: Plan) -> str:
    on = f" on {plan.ranks} ranks" if plan.ranks > 1 else ""
    return " + ".join(str(use) for use in plan.techniques) + on


def _proved(
    tried: Trial, found: Comparison, parity: Parity, late: str | None, pace: RaceLength
) -> tuple[Decision, str]:
    """Return what the last comparison says of the result, and why."""
    if not tried.is_ok:
        return _NO_EFFECT.get(tried.outcome, "failed"), f"in the last comparison: {found.why}"
    decision, why = _decision(found, parity, pace)
    if decision == "cannot be told":
        return decision, f"the last comparison is too noisy to decide: {why}"
    if decision == "dropped" or late is not None:
        return "dropped", f"not better in the last comparison: {late or why}"
    return "proved", why


def _decision(found: Comparison, parity: Parity, pace: RaceLength) -> tuple[Decision, str]:
    """Return what becomes of a plan, and why."""
    if parity.kept is False:
        return "dropped", parity.why
    if found.verdict == "FASTER":
        if parity.kept is None:
            return "cannot be told", f"{found.why}, but {parity.why}"
        return "kept", f"{found.why}; {parity.why}"
    if found.verdict == "UNKNOWN":
        if found.n >= pace.look and found.interval is None and (found.ratio or 0) > pace.hopeless:
            return "dropped", f"{found.ratio:.1f} times as long in the first {found.n} rounds"
        if found.interval is not None and found.interval[0] > 1:
            low, high = found.interval
            return "dropped", f"no gain: {found.ratio:.2f} times as long ({low:.2f}-{high:.2f})"
        return "cannot be told", found.why
    return "dropped", found.why
