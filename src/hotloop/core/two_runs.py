"""Compares a figure of runs that were made at separate times, each in a process of its own.

Unlike the rounds of `core/trial.py`, nothing here ran side by side. Three things move the ratio of
two runs of one unchanged script, and all three are in its interval: steps differ (seen in blocks of
each run), processes differ (`Scatter`, and further baselines), and the machine differs between the
two times (`MachineDrift`).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hotloop.core.measurement import student, typical
from hotloop.core.trial import EDGE, FEWEST, Scatter, Verdict, verdict_of

__all__ = [
    "APART",
    "Change",
    "MachineDrift",
    "change_of_counts",
    "change_of_steps",
    "change_of_values",
    "load_bound",
]

RISK = 0.05  # that the interval misses the true ratio
BLOCKS = 10  # of consecutive steps: enough for FEWEST, as long as possible, so nearly independent

# Of the logarithm of the ratio of two runs of one script at separate times, with the weight of the
# 15 runs of three scripts that it was measured on: 2 shared cores of an AMD EPYC with nothing else
# to do (docs/log.md, 2026-11-27). Several baselines of the present machine are joined with it.
APART = Scatter(squares=12 * 0.082**2, freedom=12)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDrift:
    """How far the state of the machine alone may have moved the ratio, as logarithms of it."""

    up: float = 0.0  # the present run may have been slowed by so much
    down: float = 0.0  # a baseline may have been slowed by so much


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The ratio of a cost now to its baseline; above 1 is worse. None: it is not known."""

    ratio: float | None = None
    interval: tuple[float, float] | None = None  # missed with RISK
    why: str | None = None  # why there is no interval
    widest: str = "processes"  # what most of the interval's width is due to: or steps, machine

    def verdict(self, edge: float = EDGE) -> Verdict:
        """Return SLOWER, FASTER, SAME or UNKNOWN, as `core.trial.compare` decides it."""
        if self.ratio is None or self.interval is None:
            return "UNKNOWN"
        return verdict_of(self.interval[0], self.ratio, self.interval[1], edge)

    def shown(self, worse: str = "more") -> str:
        """Return the change in percent with its interval; of a rate, which gets worse as "less"."""
        ratio, interval = self.of_figure(worse)
        if ratio is None or interval is None:
            return "-"
        middle, low, high = (f"{end - 1:+.0%}" for end in (ratio, *interval))
        return f"{middle} ({low} to {high})"

    def of_figure(self, worse: str) -> tuple[float | None, tuple[float, float] | None]:
        """Return the ratio of the figure and its interval: of a rate ("less"), the inverse."""
        if worse == "more" or self.ratio is None or self.interval is None:
            return self.ratio, self.interval
        low, high = self.interval
        return 1 / self.ratio, (1 / high, 1 / low)

    def over(self, factor: float) -> "Change":
        """Return the change of a cost that is `factor` times as large in the present run."""
        if self.ratio is None or self.interval is None:
            return self
        low, high = (factor * end for end in self.interval)
        return Change(ratio=factor * self.ratio, interval=(low, high), widest=self.widest)


def load_bound(
    others: float | None,
    cores: float | None,
    *,
    own: float | None = None,
    wanted: float | None = None,
) -> float:
    """Return the logarithm of the factor by which other processes slow a run at most.

    They keep `others` of `cores` busy, the run keeps `own` of them busy (1 if unknown) and could
    use `wanted` (all if unknown). Where no core is free, the run may have waited for all that the
    others took; and as two cores may be two threads of one, even its own may have been slower.
    Unknown counts as no load.
    """
    if not cores or not others:
        return 0.0
    own = own or 1.0
    free = max(0.0, cores - own - others)
    alone = min(own + max(0.0, others - free), max(own, wanted or cores))
    return math.log(alone / own * (1 + others / cores))


def change_of_steps(
    before: Sequence[Mapping[int, float]],
    now: Mapping[int, float],
    *,
    scatter: Scatter = APART,
    drift: MachineDrift = MachineDrift(),
) -> Change:
    """Return the change of seconds by step number. Only steps that all runs timed are compared.

    Steps of one number have the same batch where the script fixes its seed.
    """
    shared = sorted(now.keys() & set.intersection(*({*run} for run in before)))
    runs = [[run[number] for number in shared] for run in (now, *before)]
    if any(not (math.isfinite(time) and time > 0) for run in runs for time in run):
        return Change(why="a step took no time that could be measured")
    if len(shared) < FEWEST:
        why = f"both runs timed {len(shared)} steps of the same number, {FEWEST} are needed"
        return Change(why=why)
    mine, *others = ([math.log(typical(block)) for block in _blocks(run)] for run in runs)
    ratios = [
        log - statistics.fmean(logs)
        for log, logs in zip(mine, zip(*others, strict=True), strict=True)
    ]
    within = statistics.variance(ratios) / len(ratios)
    return _change([statistics.fmean(run) for run in others], ratios, within, scatter, drift)


def change_of_values(
    before: Sequence[float],
    now: float,
    *,
    scatter: Scatter = APART,
    drift: MachineDrift = MachineDrift(),
) -> Change:
    """Return the change of a figure that each run has once, such as its start or its memory."""
    if not all(math.isfinite(value) and value > 0 for value in (now, *before)):
        return Change(why="it is no figure above 0 in each run")
    logs = [math.log(value) for value in before]
    return _change(logs, [math.log(now) - statistics.fmean(logs)], 0.0, scatter, drift)


def change_of_counts(before: Sequence[tuple[int, int]], now: tuple[int, int]) -> Change:
    """Return the change of (times, steps): how often something happened in so many steps.

    What happens once in many steps may have happened once more or less. Nothing in a baseline
    counts as less than once in its steps.
    """
    runs = [now, *before]
    if any(steps < 1 for _, steps in runs):
        return Change(why="no step was made in one of the runs")
    if not any(times for times, _ in runs):
        return Change(ratio=1.0, interval=(1.0, 1.0), widest="steps")
    most = max((times + 1) / steps for times, steps in before)
    least = min(max(times - 1, 1) / steps for times, steps in before)
    usual = statistics.fmean(max(times, 1) / steps for times, steps in before)
    times, steps = now
    interval = (max(0, times - 1) / steps / most, (times + 1) / steps / least)
    return Change(ratio=times / steps / usual, interval=interval, widest="steps")


def _blocks(times: Sequence[float]) -> list[Sequence[float]]:
    """Return up to BLOCKS runs of consecutive times, of equal length but for one."""
    number = min(BLOCKS, len(times))
    ends = [round(n * len(times) / number) for n in range(number + 1)]
    return [times[a:b] for a, b in pairwise(ends)]


def _change(
    baselines: Sequence[float],
    ratios: Sequence[float],
    within: float,
    scatter: Scatter,
    drift: MachineDrift,
) -> Change:
    """Return the change from log ratios; `within` is the variance of their mean."""
    centre = statistics.fmean(ratios)
    # A pair of runs has twice the variance of one run.
    pairs = [math.sqrt(2) * value for value in baselines]
    scatter = scatter.more(pairs, statistics.fmean(pairs))
    between = scatter.sd**2 / 2 * (1 + 1 / len(baselines))
    half = student(scatter.freedom, RISK) * math.sqrt(between + within)
    low, high = centre - half - drift.up, centre + half + drift.down
    parts = {"steps": within, "processes": between, "machine": max(drift.up, drift.down) ** 2}
    return Change(
        ratio=math.exp(centre),
        interval=(math.exp(low), math.exp(high)),
        widest=max(parts, key=lambda name: parts[name]),
    )
