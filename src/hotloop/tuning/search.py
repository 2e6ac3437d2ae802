"""Searches for a faster plan by coordinate descent: tries one change after the other.

Each candidate races against the best plan so far; its losses and gradients are compared with the
baseline's. Finally the result races against the baseline once more.
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

_CLEAR: Final = 0.97  # an undecided comparison with a ratio below is made again
_FINAL_ROUNDS: Final = 16
_SHARE: Final = 0.1  # of the budget: limit of a move with more than one pair of processes
_SEARCHED: Final = 4  # pairs of processes of a move, at most; the proof has PAIRS
_NO_EFFECT: Final[dict[str, Decision]] = {
    "refused": "refused",
    "not needed here": "not needed here",
}
_SLOW: Final = frozenset({"compile"})  # the first step takes longer than a trial
_FEW: Final = 3  # moves below which sifting them costs more than it saves


class TuningTarget(Protocol):
    """A script or a recipe that is tuned."""

    @property
    def baseline(self) -> Plan:
        """The plan before tuning."""

    @property
    def total(self) -> int | None:
        """Optimizer steps of a whole run; None if unknown beforehand."""

    def entry(self, plan: Plan, *, epochs: int, needs: Sequence[str]) -> Entry:
        """Return how to start a trial of a plan."""

    def alone(self) -> Entry:
        """Return how to start the baseline's first trial, which may time more than its steps."""

    def room(self, trial: Trial) -> str | None:
        """Return why two trials do not fit into memory together, or None."""

    @property
    def reordered(self) -> Plan | None:
        """The baseline with another order of summation; None if there is no such plan."""


class Search:
    """The state of a search; each method adds rows to it."""

    def __init__(
        self,
        target: TuningTarget,
        *,
        seconds: float,
        notify: Callable[[str], None] = lambda _: None,
        keep: Callable[[TuneRow], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
        pace: RaceLength | None = None,
        known: Sequence[Technique] = techniques.ALL,
    ) -> None:
        self._known = known
        self._target, self._notify, self._keep, self._clock = target, notify, keep, clock
        self._deadline = clock() + seconds
        pace = pace or RaceLength(pairs=_SEARCHED)
        self._pace = replace(pace, deadline=self._deadline, gain=_CLEAR)
        self.rows: list[TuneRow] = []
        self.plan = target.baseline
        self.proof: TuneRow | None = None
        self.aside: Mapping[str, float] = {}  # seconds timed besides the baseline's steps
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
        """The baseline's trial, after `measure_baseline`."""
        assert self._base is not None
        return self._base

    def measure_baseline(self) -> None:
        """Race the baseline against itself for its noise; raise DataError if it cannot run."""
        began, plan = self._clock(), self._target.baseline
        (alone,) = race([self._target.alone()], replace(self._pace, rounds=0), notify=self._notify)
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
        comparison = compare(again, first)
        scatter = self._pace.scatter.more(comparison.centres, 0.0, lost=0)
        self._pace = replace(self._pace, scatter=scatter)
        self._base = first
        same = "losses equal" if self._noise == 0 else f"losses differ by {self._noise:.1e}"
        why = f"two runs as it is: {comparison.why}; {same}"
        self._order = self._other_order(first)
        if self._order is not None:
            why += f"; in another order of sums they differ by {self._order.steps:.1e}"
        if self._apart is not None:
            why += f"; trials run one after the other: {self._apart}"
        self._add(TuneRow.of(first, "as it is", "baseline", why, comparison=comparison,
                         seconds=self._clock() - began))  # fmt: skip

    def _other_order(self, base: Trial) -> Rounding | None:
        """Return the rounding difference of the baseline in another order of summation, or None."""
        plan = self._target.reordered
        if plan is None or base.evidence.draws:
            return None
        self._notify("as it is, in another order of sums")
        (trial,) = race([self._entry(plan)], replace(self._pace, rounds=0), notify=self._notify)
        return rounding(base.evidence, trial.evidence)

    def try_all(self, moves: Sequence[Move], *, total: int | None = None) -> None:
        """Try each move against the best plan so far, then the known pairs, then close calls again.

        `total` is the number of steps that the target makes in all, if known.
        """
        self._total = total
        if self._target.total is None:  # a script ends by itself; a recipe's trial does not
            self._pace = replace(self._pace, total=total)
        idle = self._sift(moves)
        for move in moves:
            if (effect := idle.get(move.name)) is not None:
                self._give_up(move)
                self._add(TuneRow(name=move.name, decision=_NO_EFFECT[effect[0]], why=effect[1]))
            else:
                self._try(move)
        for pair in pairs(moves, self._hopeless):
            self._try(pair)
        for _, move in sorted(self._unsure, key=lambda entry: entry[0])[:2]:
            self._try(move, again=True)

    def _sift(self, moves: Sequence[Move]) -> dict[str, tuple[str, str]]:
        """Return the moves without effect, and why, from one process with all compatible moves.

        A move that excludes an earlier one, or is another choice of the same technique, is not
        sifted. If that process fails, every move is tried by itself.
        """
        plan, sifted = self.plan, dict[str, Move]()
        for move in moves:
            changed = move.change(plan) if move.why_not is None and len(move.ids) == 1 else None
            if changed is None or move.ids[0] in sifted or move.ids[0] in _SLOW:
                continue
            if changed.ranks != plan.ranks or move.barred(plan) is not None:
                continue
            if {use.id for use in changed.techniques} >= {*sifted, *move.ids}:
                plan, sifted[move.ids[0]] = changed, move
        if len(sifted) < _FEW or self._clock() > self._deadline:
            return {}
        self._notify("which techniques have an effect")
        seen = begin(self._entry(plan), self._pace).effects
        return {
            move.name: seen[id]
            for id, move in sifted.items()
            if seen.get(id, ("in effect", ""))[0] in _NO_EFFECT
        }

    def _give_up(self, move: Move) -> None:
        """Give up a technique without effect, unless another choice may have one."""
        alone = move.change(self._target.baseline)
        if len(move.ids) == 1 and alone is not None and not alone.choice(move.ids[0]):
            self._hopeless |= set(move.ids)

    def prove(self) -> None:
        """Race the result against the baseline; give it up if it is not faster."""
        plan, baseline = self.plan, self._target.baseline
        if plan == baseline:
            return
        began = self._clock()
        deadline = began + 10 * self._cost
        patient = replace(_patient_pace(self._pace), gain=math.inf, deadline=deadline)
        base, trial = self._race(baseline, plan, needs=self._kept, pace=patient)
        comparison, parity = self._judge(trial, base, plan)
        earned = pays_back(trial, base)
        late = self._why_no_payback(earned)
        decision, why = _proof_decision(trial, comparison, parity, late, self._pace)
        if decision != "proved":
            self.plan = baseline
        name = " + ".join(plan.differences(baseline)) if not plan.techniques else _plan_name(plan)
        row = TuneRow.of(trial, name, decision, why, comparison=comparison, parity=parity)
        self.proof = replace(row, pays_back=earned, seconds=self._clock() - began)
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
        self._notify(name)
        began = self._clock()
        pace = _patient_pace(self._pace) if again else self._pace
        needs = (*move.ids, *self._kept)
        base, trial = self._race(self.plan, plan, needs=needs, pace=pace)
        if self._apart is None and any(map(_ran_out, (base, trial))):
            self._apart = "two did not fit into memory together"
            base, trial = self._race(self.plan, plan, needs=needs, pace=pace)
            if _ran_out(trial):  # it does not fit alone either
                self._apart = None
        seconds = self._clock() - began
        self._cost = (self._cost + seconds) / 2
        row = self._outcome(move, plan, base, trial, again=again)
        self._add(replace(row, name=name, seconds=seconds))

    def _outcome(
        self, move: Move, plan: Plan, base: Trial, trial: Trial, *, again: bool
    ) -> TuneRow:
        """Return the row of a trial; keep its plan or drop it."""
        if not base.is_ok:
            why = f"the plan it was compared with ended: {base.outcome}, {base.reason}"
            return TuneRow.of(trial, move.name, "cannot be told", why)
        if trial.outcome in _NO_EFFECT:
            self._give_up(move)
            return TuneRow.of(trial, move.name, _NO_EFFECT[trial.outcome], str(trial.reason))
        if trial.outcome == LATE:
            return TuneRow.of(trial, move.name, "cannot be told", str(trial.reason))
        if not trial.is_ok:
            return TuneRow.of(trial, move.name, "failed", f"{trial.outcome}: {trial.reason}")
        comparison, parity = self._judge(trial, base, plan)
        decision, why = _decision(comparison, parity, self._pace)
        earned, ratio = pays_back(trial, base), comparison.ratio or 1.0
        if decision == "kept" and (late := self._why_no_payback(earned)) is not None:
            decision, why = "dropped", f"{late}; {why}"
        if decision == "kept":
            self.plan = plan
            self._kept = [id for id in (*self._kept, *move.ids) if plan.choice(id) is not None]
        elif decision == "cannot be told" and not again and ratio < _CLEAR:
            self._unsure.append((ratio, move))
        row = TuneRow.of(trial, move.name, decision, why, comparison=comparison, parity=parity)
        return replace(row, pays_back=earned)

    def _judge(self, trial: Trial, base: Trial, plan: Plan) -> tuple[Comparison, Parity]:
        edge = EDGE if self._apart is None else 2 * EDGE
        wanted = promise(plan, self._target.baseline, known=self._known)
        known: Any = {"noise": self._noise, "order": self._order}
        parity = agree(self.base.evidence, trial.evidence, wanted, **known)
        step = promise(plan, base.plan, known=self._known)
        if wanted.is_training and not step.is_training and parity.kept:
            # Against the baseline only the training can be compared; this step promises more.
            parity = agree(base.evidence, trial.evidence, step, **known)
        comparison = compare(trial, base, edge=edge, scatter=self._pace.scatter)
        self._pace = replace(self._pace, scatter=self._pace.scatter.seen(comparison))
        return comparison, parity

    def _why_no_payback(self, earned: int | None) -> str | None:
        """Return why a gain does not pay back its fixed cost in the whole run, or None."""
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
        one, two = run(entries, pace or self._pace, clock=self._clock, notify=self._notify)
        for trial in (one, two):
            if (trial.peak_bytes or 0) > ((self._largest and self._largest.peak_bytes) or 0):
                self._largest = trial
        return one, two

    def _entry(self, plan: Plan, *, epochs: int = 0, needs: Sequence[str] = ()) -> Entry:
        return self._target.entry(plan, epochs=epochs, needs=needs)

    def _pays_from(self, plan: Plan) -> int:
        """Return the epoch that must have begun before steps are representative; 0 for any."""
        first = max((find(use.id, self._known).pays_from for use in plan.techniques), default=1)
        return first if first > 1 else 0

    def _add(self, row: TuneRow) -> None:
        self.rows.append(row)
        self._keep(row)


def _ran_out(trial: Trial) -> bool:
    return not trial.is_ok and "out of memory" in f"{trial.reason}".lower()


def _patient_pace(pace: RaceLength) -> RaceLength:
    return replace(pace, rounds=_FINAL_ROUNDS, pairs=PAIRS)


def _plan_name(plan: Plan) -> str:
    on = f" on {plan.ranks} ranks" if plan.ranks > 1 else ""
    return " + ".join(str(use) for use in plan.techniques) + on


def _proof_decision(
    trial: Trial, comparison: Comparison, parity: Parity, late: str | None, pace: RaceLength
) -> tuple[Decision, str]:
    """Return the decision of the last comparison, and why."""
    if not trial.is_ok:
        return _NO_EFFECT.get(trial.outcome, "failed"), f"in the last comparison: {comparison.why}"
    decision, why = _decision(comparison, parity, pace)
    if decision == "cannot be told":
        return decision, f"the last comparison is too noisy to decide: {why}"
    if decision == "dropped" or late is not None:
        return "dropped", f"not better in the last comparison: {late or why}"
    return "proved", why


def _decision(comparison: Comparison, parity: Parity, pace: RaceLength) -> tuple[Decision, str]:
    """Return the decision about a plan, and why."""
    if parity.kept is False:
        return "dropped", parity.why
    if comparison.verdict == "FASTER":
        if parity.kept is None:
            return "cannot be told", f"{comparison.why}, but {parity.why}"
        return "kept", f"{comparison.why}; {parity.why}"
    if comparison.verdict == "UNKNOWN":
        ratio, interval, n = comparison.ratio or 0.0, comparison.interval, comparison.n
        if interval is None and n >= pace.look and ratio > pace.hopeless:
            return "dropped", f"{ratio:.1f} times as long in the first {n} rounds"
        if interval is not None and interval[0] > 1:
            low, high = interval
            return "dropped", f"no gain: {ratio:.2f} times as long ({low:.2f}-{high:.2f})"
        return "cannot be told", comparison.why
    return "dropped", comparison.why
