"""Decides about a plan, from its comparison in time and its agreement in training."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.agreement import agree, noise
from hotloop.core.measurement import RISK
from hotloop.core.trial import EDGE, Scatters, compare
from hotloop.core.tuning_result import TuneRow, pays_back
from hotloop.core.units import duration
from hotloop.tuning.lane import LATE, NO_TIME
from hotloop.tuning.moves import promise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.agreement import Evidence, Parity, Promise, Rounding
    from hotloop.core.plan import Plan
    from hotloop.core.trial import Comparison, Trial
    from hotloop.core.tuning_result import Decision
    from hotloop.techniques.base import Technique
    from hotloop.tuning.lane import RaceLength
    from hotloop.tuning.moves import Limit

__all__ = ["CLEAR", "NO_EFFECT", "Judge", "ran_out", "ratio_of", "was_cut"]

CLEAR: Final = 0.97  # an undecided comparison with a ratio below is made again
_RUNS: Final = 10  # runs in which a trial shall pay
NO_EFFECT: Final[dict[str, Decision]] = {
    "refused": "refused",
    "not needed here": "not needed here",
}


def ran_out(trial: Trial) -> bool:
    """Whether a trial ended because memory was full."""
    return not trial.is_ok and "out of memory" in f"{trial.reason}".lower()


def was_cut(trial: Trial, pace: RaceLength, now: float) -> bool:
    """Whether the budget ended a trial before anything could be told."""
    is_short = len(trial.rounds) < pace.look and trial.too_slow is None
    return trial.outcome == NO_TIME or (trial.is_ok and is_short and now > pace.deadline)


def ratio_of(row: TuneRow) -> float:
    """Return the step time of a row's trial relative to what it was compared with; 1 if unknown."""
    return (row.comparison.ratio if row.comparison is not None else None) or 1.0


@dataclass(slots=True, kw_only=True)
class Judge:
    """Compares trials with each other, and their training with the baseline's."""

    known: Sequence[Technique]
    without_dropout: Callable[[Plan], Evidence | None]  # runs the first steps of a plan so
    # Runs the first steps of the baseline from weights changed at random, by so much of each.
    nudged: Callable[[float], Sequence[Evidence]] = lambda _: ()
    total: int | None = None  # steps of the whole run
    base: Trial | None = None  # the baseline's
    noise: float = 0.0  # between runs of the baseline
    order: Rounding | None = None  # of the baseline in another order of sums
    scatters: Scatters = field(default_factory=Scatters)
    edge: float = EDGE
    _still: Evidence | None = None  # of the baseline, without dropout
    raced: int = 0  # plans that were compared with the baseline
    planned: Trial | None = None  # the trial of the best plan so far
    taken: dict[str, float] = field(default_factory=dict)  # seconds of a step, by Limit.part

    def take_baseline(self, runs: Sequence[Trial]) -> Comparison:
        """Take runs of the baseline; return the comparison of the last two in time."""
        self.base = runs[-2]
        self.noise = max(noise(a.evidence, b.evidence) for a, b in itertools.pairwise(runs))
        comparison = compare(runs[-1], runs[-2])
        seen = self.scatters.of(runs[-1], runs[-2]).more(comparison.centres, 0.0, lost=0)
        self.scatters = self.scatters.updated(runs[-1], runs[-2], seen)
        return comparison

    def row(self, name: str, base: Trial, trial: Trial, pace: RaceLength) -> TuneRow:
        """Return the row of a trial that raced beside `base`."""
        assert self.base is not None
        self.raced += base.plan == self.base.plan
        if (ended := _ending(trial, base)) is not None:
            return TuneRow.of(trial, name, *ended)
        comparison, parity = self._judged(trial, base)
        decision, why = _decision(comparison, parity, pace)
        earned = pays_back(trial, base)
        if decision == "kept" and (late := self._why_no_payback(earned)) is not None:
            decision, why = "dropped", f"{late}; {why}"
        row = TuneRow.of(trial, name, decision, why, comparison=comparison, parity=parity)
        return replace(row, pays_back=earned)

    def pays(self, ratio: float, cost: float) -> bool:
        """Whether a trial of `cost` seconds takes less time than ten runs may gain by it.

        `ratio` is that of the step times; the steps of a run are those under the plan so far.
        """
        time = None if self.planned is None else self.planned.step_time
        if self.total is None or time is None:
            return True
        return (1 - ratio) * _RUNS * self.total * time.median > cost

    def may_win_again(self, row: TuneRow) -> bool:
        """Whether another race may show that a plan is worth it.

        It is longer; or code that took too long to compile lies in the compiler's cache by now.
        """
        if row.parity is None or row.parity.kept is False or ratio_of(row) >= CLEAR:
            return False
        late = bool(row.compiled) and self._why_no_payback(row.pays_back) is not None
        return row.decision == "cannot be told" or (row.decision == "dropped" and late)

    def take(self, plan: Trial, before: Trial, limit: Limit | None) -> None:
        """Take a plan as the best so far: what a step takes less than `before` is gained."""
        self.planned = plan
        if limit is not None and plan.step_time is not None and before.step_time is not None:
            gained = before.step_time.median - plan.step_time.median
            self.taken[limit.part] = self.taken.get(limit.part, 0.0) + gained

    def too_little(self, limit: Limit | None, cost: float) -> str | None:
        """Return why ten runs cannot gain what a trial of `cost` seconds takes, or None.

        What an earlier technique has taken away of the same part is gained already.
        """
        time = None if self.planned is None else self.planned.step_time
        if limit is None or self.total is None or time is None:
            return None
        left = limit.seconds - self.taken.get(limit.part, 0.0)
        gain = _RUNS * self.total * max(0.0, min(left, time.median))
        if gain > cost:
            return None
        said = f"ten runs gain {duration(gain)} at most" if gain else "nothing is left to gain"
        return f"it acts on {limit.part} only: {said}, and a trial takes {duration(cost)}"

    def worth_its_proof(self, row: TuneRow, cost: float) -> TuneRow:
        """Return a kept row; dropped if ten runs gain less by it than the `cost` of its proof."""
        if row.decision != "kept" or row.comparison is None or self.pays(ratio_of(row), cost):
            return row
        why = f"{row.comparison.factor} a step: its proof takes longer than ten runs gain by it"
        return replace(row, decision="dropped", why=why)

    def is_proof(self, row: TuneRow, base: Trial, trial: Trial) -> bool:
        """Whether the race of a kept plan was against the baseline, and shows that it is faster.

        The fastest of several plans may be so by chance; RISK is that for all of them together.
        """
        assert self.base is not None
        n = row.comparison.n if row.comparison is not None else 0
        risk = RISK / max(1, self.raced)
        if base.plan != self.base.plan or 2.0 ** (1 - n) > risk:
            return False
        scatter = self.scatters.of(trial, base)
        faster = compare(trial, base, edge=self.edge, risk=risk, scatter=scatter)
        return faster.verdict == "FASTER"

    def proof(self, name: str, base: Trial, trial: Trial, pace: RaceLength) -> TuneRow:
        """Return the row of the last race, between the baseline and the result."""
        comparison, parity = self._judged(trial, base)
        earned = pays_back(trial, base)
        late = self._why_no_payback(earned)
        decision, why = _proof_decision(trial, comparison, parity, late, pace)
        row = TuneRow.of(trial, name, decision, why, comparison=comparison, parity=parity)
        return replace(row, pays_back=earned)

    def _judged(self, trial: Trial, base: Trial) -> tuple[Comparison, Parity]:
        assert self.base is not None
        wanted = promise(trial.plan, self.base.plan, known=self.known)
        known: Any = {"noise": self.noise, "order": self.order}
        parity = agree(self.base.evidence, trial.evidence, wanted, **known)
        step = promise(trial.plan, base.plan, known=self.known)
        if wanted.is_training and not step.is_training and parity.kept:
            # Against the baseline only the training can be compared; this step promises more.
            parity = agree(base.evidence, trial.evidence, step, **known)
        if wanted.redraws and not wanted.is_training and not parity.kept:
            parity = self._agree_without_dropout(trial.plan, wanted) or parity
        elif parity.may_be_amplified and not wanted.is_training:
            nudged = self.nudged(wanted.tolerance)
            parity = agree(self.base.evidence, trial.evidence, wanted, **known, nudged=nudged)
        scatter = self.scatters.of(trial, base)
        comparison = compare(trial, base, edge=self.edge, scatter=scatter)
        self.scatters = self.scatters.updated(trial, base, scatter.seen(comparison))
        return comparison, parity

    def _agree_without_dropout(self, plan: Plan, wanted: Promise) -> Parity | None:
        """Compare the first steps of a plan with the baseline's, both without dropout."""
        assert self.base is not None
        if self._still is None:
            self._still = self.without_dropout(self.base.plan)
        trial = self.without_dropout(plan) if self._still is not None else None
        if self._still is None or trial is None:
            return None
        parity = agree(self._still, trial, replace(wanted, redraws=False), noise=self.noise)
        return replace(parity, why=f"without dropout, {parity.why}")

    def _why_no_payback(self, earned: int | None) -> str | None:
        """Return why a gain does not pay back its fixed cost in the whole run, or None."""
        if earned is None or self.total is None or earned < self.total:
            return None
        return f"it pays back after {earned:,} steps, and all are {self.total:,}"


def _ending(trial: Trial, base: Trial) -> tuple[Decision, str] | None:
    """Return the decision about a plan whose trial has no time to compare; None if it has."""
    if not base.is_ok:
        why = f"the plan it was compared with ended: {base.outcome}, {base.reason}"
        return "cannot be told", why
    if trial.outcome in NO_EFFECT:
        return NO_EFFECT[trial.outcome], str(trial.reason)
    if trial.outcome == NO_TIME:
        return "not tried", str(trial.reason)
    if trial.outcome == LATE:
        return "cannot be told", str(trial.reason)
    if not trial.is_ok:
        return "failed", f"{trial.outcome}: {trial.reason}"
    if trial.too_slow is not None:
        return "dropped", trial.too_slow
    return None


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
            return "dropped", f"{ratio:.2f} times as long in the first {n} rounds"
        if interval is not None and interval[0] > 1 - EDGE:
            if interval[1] < 1 + EDGE:
                return "dropped", comparison.why
            low, high = interval
            what = "no gain" if low > 1 else f"a gain of {EDGE:.0%} at most"
            return "dropped", f"{what}: {ratio:.2f} times as long ({low:.2f}-{high:.2f})"
        return "cannot be told", comparison.why
    return "dropped", comparison.why


def _proof_decision(
    trial: Trial, comparison: Comparison, parity: Parity, late: str | None, pace: RaceLength
) -> tuple[Decision, str]:
    """Return the decision of the last comparison, and why. `late`: why it does not pay back."""
    if not trial.is_ok:
        return NO_EFFECT.get(trial.outcome, "failed"), f"in the last comparison: {comparison.why}"
    found, why = _decision(comparison, parity, pace)
    if found == "cannot be told":
        return found, f"the last comparison is too noisy to decide: {why}"
    if found == "dropped" or late is not None:
        return "dropped", f"not better in the last comparison: {late or why}"
    return "proved", why
