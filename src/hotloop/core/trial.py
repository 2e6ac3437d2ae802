"""A timed trial of one plan, and the comparison of two trials.

Trials are compared by rounds. In a round both run a block of the same steps, one directly after
the other, so that other load affects both, and the batches are the same. The ratio within a round
is compared.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Literal

from hotloop.core.agreement import Evidence
from hotloop.core.measurement import RISK, Measurement, student
from hotloop.core.plan import Plan

__all__ = [
    "EDGE",
    "FEWEST",
    "PAIRS",
    "Comparison",
    "Scatter",
    "Scatters",
    "Trial",
    "Verdict",
    "compare",
    "signed_rank_interval",
    "verdict_of",
]

Verdict = Literal["FASTER", "SLOWER", "SAME", "UNKNOWN"]

FEWEST = 8  # rounds: the fewest for which an interval with RISK exists (2 of 256 sets)
PAIRS = 12  # pairs of processes: the most that are started if fewer do not decide
EDGE = 0.03  # a gain or loss that does not justify another plan
_HOPE = 1.5  # standard errors


@dataclass(frozen=True, slots=True)
class Scatter:
    """The lasting difference between two processes of one plan.

    The same steps take one process 2 to 5 % longer than another, as it depends on the layout of its
    heap how much memory glibc gives back and maps anew in each step. No number of rounds
    distinguishes that from a slower plan. The default was measured on 2 cores of an AMD EPYC
    (docs/decisions/0023); it has the weight of few readings, so that those of the present machine
    soon dominate.
    """

    squares: float = 4 * 0.05**2  # of the log ratio of two processes of one plan, summed
    freedom: int = 4  # degrees of freedom

    def seen(self, comparison: "Comparison") -> "Scatter":
        """Return this scatter updated with the pairs of one comparison."""
        return self.more(comparison.centres, statistics.fmean(comparison.centres or (0.0,)))

    def more(self, centres: Sequence[float], middle: float, lost: int = 1) -> "Scatter":
        """Return this scatter with centres around `middle`, at the cost of `lost` of them."""
        squares = self.squares + sum((centre - middle) ** 2 for centre in centres)
        return Scatter(squares, self.freedom + max(0, len(centres) - lost))

    @property
    def sd(self) -> float:
        """Return the standard deviation of the log ratio of a pair."""
        return math.sqrt(self.squares / self.freedom)


@dataclass(frozen=True, slots=True)
class Scatters:
    """The scatter of processes that give memory back, and of those that keep it."""

    usual: Scatter = field(default_factory=Scatter)
    kept: Scatter = field(default_factory=lambda: Scatter(4 * 0.015**2))  # docs/decisions/0023

    def of(self, trial: "Trial", other: "Trial") -> Scatter:
        """Return the scatter of two trials that are compared."""
        return self.kept if trial.keeps_memory and other.keeps_memory else self.usual

    def updated(self, trial: "Trial", other: "Trial", scatter: Scatter) -> "Scatters":
        """Return these with a new scatter of such trials."""
        if trial.keeps_memory and other.keeps_memory:
            return replace(self, kept=scatter)
        return replace(self, usual=scatter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One plan, timed in one process or in several."""

    plan: Plan
    outcome: str = "ok"  # or the status of the process: process/child.py
    reason: str | None = None  # why it is not ok
    too_slow: str | None = None  # how slow, if that ended it before a round
    rounds: Mapping[int, float] = field(default_factory=dict)  # seconds of a step in each
    pairs: tuple[int, ...] = (0,)  # the first round of each process
    steps: int = 0  # timed
    started: float | None = None  # seconds until the end of the first step: import, model, compile
    warmed: float | None = None  # seconds of the following untimed steps
    warm_steps: int = 0
    compiled: float | None = None  # seconds of compiling, if known; in `started`
    aside: Mapping[str, float] = field(default_factory=dict)  # other times than steps: s
    peak_bytes: int | None = None  # of memory
    peak_of: str = "processes"  # resident memory of the processes, or the GPU's memory
    effects: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # technique: (word, how)
    evidence: Evidence = field(default_factory=Evidence)  # of the first steps
    keeps_memory: bool = False  # freed memory stays with the process, whatever its plan

    @property
    def is_ok(self) -> bool:
        """Whether it can be compared."""
        return self.outcome == "ok"

    @property
    def step_time(self) -> Measurement | None:
        """Return the seconds of a step, one reading per block; None if none was timed."""
        readings = tuple(self.rounds[round] for round in sorted(self.rounds))
        return Measurement(unit="s", readings=readings) if readings else None

    @property
    def warm_up(self) -> float | None:
        """Return the extra seconds of the first steps: first epoch, allocations. None: unknown."""
        if self.warmed is None or self.step_time is None:
            return None
        return max(0.0, self.warmed - self.warm_steps * self.step_time.median)

    @property
    def once(self) -> float | None:
        """Return the one-time seconds: start and warm-up, without the steps' own time."""
        warm_up = self.warm_up
        return None if self.started is None or warm_up is None else self.started + warm_up

    def joined(self, other: "Trial", first: int) -> "Trial":
        """Return this trial with the rounds of another process of its plan, from `first` on."""
        return replace(
            self,
            outcome=other.outcome,
            reason=other.reason,
            rounds={**self.rounds, **{first + n: time for n, time in other.rounds.items()}},
            pairs=(*self.pairs, first),
            steps=self.steps + other.steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of one trial with another."""

    verdict: Verdict
    why: str  # a sentence without its full stop
    ratio: float | None = None  # step time relative to the other's; below 1 is faster
    interval: tuple[float, float] | None = None  # of the ratio, missed with RISK
    n: int = 0  # rounds of both
    centres: tuple[float, ...] = ()  # of the log ratio, one of each pair of processes
    is_open: bool = False  # more pairs of processes may decide

    @property
    def factor(self) -> str:
        """Return the speed-up with its interval, for a table."""
        if self.ratio is None:
            return "-"
        if self.interval is None:
            return f"{1 / self.ratio:.2f}x"
        low, high = self.interval
        return f"{1 / self.ratio:.2f}x ({1 / high:.2f}-{1 / low:.2f})"


def compare(
    trial: Trial,
    other: Trial,
    *,
    edge: float = EDGE,
    risk: float = RISK,
    scatter: Scatter | None = None,
) -> Comparison:
    """Decide whether `trial` is faster than `other`, and how certain that is.

    FASTER and SLOWER: the whole interval of the ratio is beyond 1 -+ edge / 2, as is the interval
    from the `scatter` of processes, and the ratio itself is beyond 1 -+ edge. SAME: both intervals
    are within 1 -+ edge. Everything else is UNKNOWN. Without `scatter`, it is that of processes of
    which nothing has been seen.
    """
    for candidate in (trial, other):
        if not candidate.is_ok:
            return Comparison(verdict="UNKNOWN", why=f"{candidate.outcome}: {candidate.reason}")
    shared = sorted(trial.rounds.keys() & other.rounds.keys())
    pairs = [(trial.rounds[round], other.rounds[round]) for round in shared]
    if any(not (math.isfinite(time) and time > 0) for pair in pairs for time in pair):
        return Comparison(verdict="UNKNOWN", why="a step took no time that could be measured")
    if len(pairs) < FEWEST:
        why = f"{len(pairs)} rounds were made, at least {FEWEST} are needed"
        ratio = statistics.median(a / b for a, b in pairs) if pairs else None
        return Comparison(verdict="UNKNOWN", why=why, ratio=ratio, n=len(pairs))
    low, middle, high = _interval(pairs, risk)
    verdict, why = _verdict(low, middle, high, edge)
    scatter = scatter or Scatters().of(trial, other)
    among = _Among.of(_by_process(trial, other, shared), scatter)
    count = "one pair" if len(among.centres) == 1 else f"{len(among.centres)} pairs"
    if verdict == "SAME" and among.most(risk) > edge:
        why += f", but {count} of processes may be alike by chance"
        verdict = "UNKNOWN"
    elif verdict in ("FASTER", "SLOWER") and among.least(risk) <= edge / 2:
        why += f", but {count} of processes of one plan may lie so far apart"
        verdict = "UNKNOWN"
    return Comparison(
        verdict=verdict,
        why=why,
        ratio=middle,
        interval=(low, high),
        n=len(pairs),
        centres=among.centres,
        is_open=verdict == "UNKNOWN" and among.is_open(edge, risk),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Among:
    """The pairs of processes, each as one reading."""

    centres: tuple[float, ...]  # of the log ratio
    sd: float  # of such a centre
    freedom: int

    @classmethod
    def of(cls, groups: Sequence[Sequence[tuple[float, float]]], scatter: Scatter) -> "_Among":
        """Estimate the scatter from the prior `scatter` and these pairs."""
        logs = [[math.log(mine / others) for mine, others in group] for group in groups]
        centres = tuple(signed_rank_interval(log_ratios)[1] for log_ratios in logs)
        noise = statistics.fmean(statistics.variance(pair) / len(pair) for pair in logs)
        prior = Scatter(scatter.squares + scatter.freedom * noise, scatter.freedom)
        posterior = prior.more(centres, statistics.fmean(centres))
        return cls(centres=centres, sd=posterior.sd, freedom=posterior.freedom)

    @property
    def _far(self) -> float:
        return abs(statistics.fmean(self.centres))

    def least(self, risk: float) -> float:
        """Return the least distance of the log ratio from 0: the near end of its interval."""
        return self._far - self._half(risk)

    def most(self, risk: float) -> float:
        """Return the greatest distance of the log ratio from 0: the far end of its interval."""
        return self._far + self._half(risk)

    def _half(self, risk: float) -> float:
        return student(self.freedom, risk) * self.sd / math.sqrt(len(self.centres))

    def is_open(self, edge: float, risk: float) -> bool:
        """Whether PAIRS pairs could decide.

        The true centre is assumed to be up to 1.5 standard errors from the measured one.
        """
        missing = PAIRS - len(self.centres)
        doubt = _HOPE * self.sd / math.sqrt(len(self.centres))
        half = student(self.freedom + missing, risk) * self.sd / math.sqrt(PAIRS)
        differs = self._far + doubt - half > edge / 2
        is_same = max(0.0, self._far - doubt) + half < edge
        return missing > 0 and (differs or is_same)


def _interval(pairs: Sequence[tuple[float, float]], risk: float) -> tuple[float, float, float]:
    """Return the low end, centre and high end of the ratio."""
    logs = [math.log(mine / others) for mine, others in pairs]
    low, middle, high = map(math.exp, signed_rank_interval(logs, risk))
    return low, middle, high


def _by_process(
    trial: Trial, other: Trial, shared: Sequence[int]
) -> list[list[tuple[float, float]]]:
    """Return the rounds of each pair of processes with enough rounds; if none, all as one."""
    ends = [*trial.pairs[1:], math.inf]
    groups = [
        [(trial.rounds[n], other.rounds[n]) for n in shared if first <= n < end]
        for first, end in zip(trial.pairs, ends, strict=True)
    ]
    enough = [group for group in groups if len(group) >= FEWEST // 2]
    return enough or [[(trial.rounds[n], other.rounds[n]) for n in shared]]


def verdict_of(low: float, middle: float, high: float, edge: float) -> Verdict:
    """Return the verdict on the ratio `middle` of two step times, whose interval is `low`-`high`.

    FASTER and SLOWER: the interval is beyond 1 -+ edge / 2 and the ratio beyond 1 -+ edge. SAME:
    the interval is within 1 -+ edge.
    """
    if high < 1 - edge / 2 and middle < 1 - edge:
        return "FASTER"
    if low > 1 + edge / 2 and middle > 1 + edge:
        return "SLOWER"
    return "SAME" if 1 - edge <= low and high <= 1 + edge else "UNKNOWN"


def _verdict(low: float, middle: float, high: float, edge: float) -> tuple[Verdict, str]:
    verdict = verdict_of(low, middle, high, edge)
    why = {
        "FASTER": f"a step takes {middle:.2f} of the time ({low:.2f}-{high:.2f})",
        "SLOWER": f"a step takes {middle:.2f} times as long ({low:.2f}-{high:.2f})",
        "SAME": f"no more than {edge:.0%} apart ({low:.2f}-{high:.2f})",
        "UNKNOWN": f"the ratio of step times lies between {low:.2f} and {high:.2f}",
    }
    return verdict, why[verdict]


def signed_rank_interval(values: Sequence[float], risk: float = RISK) -> tuple[float, float, float]:
    """Return the low end, the estimate and the high end of the centre of `values`.

    The interval misses the centre with at most `risk` for every symmetric distribution. For few
    values it is as wide as possible: from the smallest to the largest. Source: Hodges and
    Lehmann, Estimates of location based on rank tests, 1963; the signed-rank test's interval.
    """
    means = sorted((a + b) / 2 for a, b in combinations_with_replacement(values, 2))
    cut = _cut(len(values), risk)
    return means[cut], statistics.median(means), means[-1 - cut]


def _cut(n: int, risk: float) -> int:
    """Return how many of the sorted means are cut off at each end."""
    ways = [1]  # number of sets of ranks 1..k with each sum
    for rank in range(1, n + 1):
        longer = ways + [0] * rank
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    below, allowed = 0, risk / 2 * 2**n
    for cut, count in enumerate(ways):
        below += count
        if below > allowed:
            return max(cut - 1, 0)
    raise AssertionError("unreachable: all sets together are more than allowed")
