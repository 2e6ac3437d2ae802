"""Whether a plan trains like the baseline: compares losses, gradient norms and first gradients.

Equal losses are not enough: a kernel can be right forward and wrong backward. So the gradients of
the first step are compared with the baseline's as well, tensor by tensor.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hotloop.core.measurement import RISK, student

__all__ = ["Evidence", "Parity", "Promise", "Rounding", "agree", "noise", "rounding"]

SLACK = 3.0  # factor on the baseline's own noise, which was measured only once
SMALL = 1e-3  # of the largest tensor's gradient norm: rounding alone turns smaller ones
LOUD = 0.01  # noise of the baseline above which no comparison is made
WHOLE = 0.02  # a ratio this near to a whole number is not due to rounding
FEWEST_LATE = 20  # losses in a mean, if the training itself is different
NUDGES = 3  # runs of a nudged baseline
_ANYWHERE = 1.0  # a gradient that may differ by as much as its length may point anywhere
_BEYOND = student(NUDGES, RISK)  # their root mean squares that a rounding may reach


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What the first steps of a trial computed."""

    losses: Sequence[float] = ()  # of each backward pass
    norms: Sequence[float] = ()  # gradient norm at each optimizer step
    tensors: Mapping[str, float] = field(default_factory=dict)  # gradient norms at the first step
    samples: Mapping[str, Sequence[float]] = field(default_factory=dict)  # some of their elements
    late: Sequence[float] = ()  # losses of the timed steps
    draws: bool = False  # whether a step draws random numbers, as dropout does
    passes: Sequence[int] = ()  # how many of `losses` each optimizer step has; (): unknown
    late_passes: Sequence[int] = ()  # the same of `late`

    def by_step(self) -> "Evidence":
        """Return it with the losses of optimizer steps, each the sum over its backward passes.

        A loop that accumulates gradients gives each pass its share of the step's loss.
        """
        if not self.passes:
            return self
        losses, late = _sums(self.losses, self.passes), _sums(self.late, self.late_passes)
        return replace(self, losses=losses, late=late, passes=(), late_passes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """How far a plan may deviate from the baseline."""

    tolerance: float = 0.0  # relative, on losses and norms
    cosine: float = 1.0  # least cosine of each tensor's first gradient with the baseline's
    is_training: bool = False  # a different training: only the learning can be compared
    redraws: bool = False  # a step draws its random numbers differently
    regroups: bool = False  # an optimizer step has another number of backward passes


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """The relative deviation of the baseline from itself with another order of sums."""

    steps: float = 0.0  # its losses and gradient norms
    tensors: float = 0.0  # each tensor's gradient at the first step


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Whether the promise is kept; None: unknown."""

    kept: bool | None
    why: str  # a sentence without its full stop
    may_be_amplified: bool = False  # a training that amplifies roundings may be the reason


def noise(base: Evidence, again: Evidence) -> float:
    """Return the relative deviation of two runs of the baseline: 0 if they are equal."""
    return max(_apart(base.losses, again.losses)[0], _apart(base.norms, again.norms)[0])


def rounding(base: Evidence, again: Evidence) -> Rounding | None:
    """Compare the baseline with itself in another order of sums; None if they do not match."""
    counts = [(len(e.losses) > 0, len(e.norms), e.tensors.keys()) for e in (base, again)]
    alike = len(base.losses) == len(again.losses)
    losses = (base.losses, again.losses) if alike else (_means(base), _means(again))
    steps = max(_apart(base.norms, again.norms)[0], _apart(*losses)[0])
    if counts[0] != counts[1] or not steps <= LOUD:
        return None
    largest = max(base.tensors.values(), default=0.0)
    turns = [0.0]
    for name, norm in base.tensors.items():
        if norm >= SMALL * largest and norm > 0:
            cosine = _cosine(base.samples.get(name, ()), again.samples.get(name, ()))
            turns += [abs(again.tensors[name] - norm) / norm, _turn(cosine)]
    return Rounding(steps=steps, tensors=max(turns))


def _means(evidence: Evidence) -> list[float]:
    """Return the mean loss of each optimizer step, over its backward passes; [] if uneven."""
    per_step, remainder = divmod(len(evidence.losses), len(evidence.norms) or 1)
    if remainder or not per_step:
        return []
    return [
        math.fsum(evidence.losses[start : start + per_step]) / per_step
        for start in range(0, len(evidence.losses), per_step)
    ]


def _sums(losses: Sequence[float], passes: Sequence[int]) -> list[float]:
    """Return the sums of consecutive losses, `passes` of them each; those left over are no step."""
    ends = list(itertools.accumulate(passes, initial=0))
    return [math.fsum(losses[start:end]) for start, end in itertools.pairwise(ends)]


def _turn(cosine: float) -> float:
    """Return the relative difference of two vectors of equal norm, from their cosine."""
    return math.sqrt(max(0.0, 2 * (1 - cosine)))


def agree(
    base: Evidence,
    trial: Evidence,
    promise: Promise,
    *,
    noise: float = 0.0,
    order: Rounding | None = None,
    nudged: Sequence[Evidence] = (),
) -> Parity:
    """Check whether a trial keeps its promise. `noise` is the deviation of two baseline runs.

    A promise that is not bitwise also allows the baseline's own deviation in another `order` of
    sums, and what a rounding may grow to: the deviation of NUDGES runs of the baseline from
    `nudged` weights, which were changed at random by as much as the promise allows. A training may
    amplify such a change a thousandfold in a few steps; where those runs are further than LOUD from
    the baseline, its steps are not compared one by one.
    """
    if promise.regroups:
        base, trial = base.by_step(), trial.by_step()
    if not base.losses or not trial.losses:
        return _unknown("no loss was seen: nothing ran backward")
    if bad := [loss for loss in (*base.losses, *base.norms) if not math.isfinite(loss)]:
        return _unknown(f"a loss or gradient norm of the baseline is {bad[0]}")
    if bad := [loss for loss in (*trial.losses, *trial.norms) if not math.isfinite(loss)]:
        return _broken(f"a loss or gradient norm is {bad[0]}")
    if noise > LOUD:
        return _unknown(f"two runs as it is differ by {noise:.1e}: set a seed, then it can be told")
    if promise.redraws and trial.draws:
        why = "dropout draws other masks for other micro batches or ranks: tune without dropout"
        return _unknown(f"{why}, then use that plan with it")
    if promise.is_training:
        return _learns(base, trial, noise)
    if len(trial.losses) != len(base.losses):
        return _broken(
            f"{len(trial.losses)} backward passes instead of {len(base.losses)} in the same steps"
        )
    if len(trial.norms) != len(base.norms):
        return _broken(f"{len(trial.norms)} optimizer steps instead of {len(base.norms)}")
    order = order if order is not None and promise.tolerance > 0 else Rounding()
    allowed = max(promise.tolerance, SLACK * order.steps) + SLACK * noise
    for what, mine, theirs, moved in (
        ("losses", trial.losses, base.losses, [run.losses for run in nudged]),
        ("gradient norms", trial.norms, base.norms, [run.norms for run in nudged]),
    ):
        limits = _limits(theirs, moved, allowed)
        off = [_far(a, b) for a, b in zip(theirs, mine, strict=True)]
        if beyond := [index for index, limit in enumerate(limits) if not off[index] <= limit]:
            worst = max(beyond, key=lambda index: off[index])
            why = _differ(what, mine[worst], theirs[worst], worst, limits[worst])
            later = beyond[0] > 0 and promise.tolerance > 0
            return Parity(kept=False, why=why, may_be_amplified=later)
    if allowed == 0:  # then every loss must be equal, also in the timed steps
        far, index = _apart(base.late, trial.late)
        if far > 0:
            why = _differ("later losses", trial.late[index], base.late[index], index, allowed)
            return _broken(why)
    turn = max(_turn(promise.cosine), SLACK * order.tensors)
    if nudged and (worse := _learns_less(base, trial, nudged, noise)) is not None:
        return worse
    return _gradients(base, trial, turn, noise, allowed, nudged, promise)


def _limits(
    theirs: Sequence[float], nudged: Sequence[Sequence[float]], allowed: float
) -> list[float]:
    """Return how far each value may be off; what a nudge has grown to does not shrink again."""
    limits, most = [], 0.0
    for index, value in enumerate(theirs):
        off = [_far(value, run[index]) for run in nudged if index < len(run)]
        most = max(most, _root_mean_square(off))
        limits.append(math.inf if most > LOUD else max(allowed, _BEYOND * most))
    return limits


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values) / max(1, len(values)))


def _learns_less(
    base: Evidence, trial: Evidence, nudged: Sequence[Evidence], noise: float
) -> Parity | None:
    """Return how a trial learns less where its later steps cannot be compared; or None."""
    limits = _limits(base.losses, [run.losses for run in nudged], 0.0)
    learns = _learns(base, trial, noise) if limits[-1] == math.inf else None
    return learns if learns is not None and learns.kept is False else None


def _unknown(why: str) -> Parity:
    return Parity(kept=None, why=why)


def _broken(why: str) -> Parity:
    return Parity(kept=False, why=why)


def _gradients(
    base: Evidence,
    trial: Evidence,
    turn: float,
    noise: float,
    allowed: float,
    nudged: Sequence[Evidence],
    promise: Promise,
) -> Parity:
    """Compare the first gradients, tensor by tensor; `turn` is the largest relative difference."""
    if not base.tensors:
        return _unknown("no gradient was seen at the first step")
    if base.tensors.keys() != trial.tensors.keys():
        return _broken("other parameters have gradients than in the baseline")
    amplified, is_told = promise.tolerance > 0, False
    largest, worst = max(base.tensors.values()), 1.0
    for name, norm in base.tensors.items():
        if norm < SMALL * largest:
            continue
        far, cosine = _moved(base, trial, name)
        moves = [_moved(base, run, name) for run in nudged if name in run.tensors]
        by_norm = max(allowed, turn, _BEYOND * _root_mean_square([off for off, _ in moves]))
        by_turn = max(turn, _BEYOND * _root_mean_square([_turn(angle) for _, angle in moves]))
        worst = min(worst, cosine)
        is_told |= by_turn < _ANYWHERE
        if far > by_norm:
            why = f"the first gradient of tensor {name} has another norm ({far:.1e} apart)"
            return Parity(kept=False, why=why, may_be_amplified=amplified)
        # 1e-12: rounding of the cosine itself
        if cosine < 1 - by_turn**2 / 2 - SLACK * noise - 1e-12:
            why = f"the first gradient of tensor {name} points elsewhere (cosine {cosine:.6f})"
            return Parity(kept=False, why=why, may_be_amplified=amplified)
    if not is_told:
        return _unknown(
            f"first weights changed at random by {promise.tolerance:.1e} turn every gradient"
        )
    far, _ = _apart(base.losses, trial.losses)
    if far == 0 and worst >= 1 - 1e-12:
        n = len(base.losses) + (min(len(base.late), len(trial.late)) if allowed == 0 else 0)
        return Parity(kept=True, why=f"{n} losses equal bit for bit")
    told = f"allowed {allowed:.1e}"
    if nudged:
        moved = max(_apart(base.losses, run.losses)[0] for run in nudged)
        told = (
            f"first weights changed at random by {promise.tolerance:.1e} move them by {moved:.1e}"
        )
    return Parity(
        kept=True,
        why=f"{len(base.losses)} losses within {far:.1e} ({told}), first gradients at a cosine of "
        f"{worst:.9f} or more",
    )


def _moved(base: Evidence, run: Evidence, name: str) -> tuple[float, float]:
    """Return the relative change of a first gradient's norm, and its cosine with the baseline's."""
    cosine = _cosine(base.samples.get(name, ()), run.samples.get(name, ()))
    return _far(base.tensors[name], run.tensors[name]), cosine


def _differ(what: str, mine: float, theirs: float, index: int, allowed: float) -> str:
    """Describe how a value differs; a ratio near a whole number has a likely cause."""
    far = abs(mine - theirs) / max(abs(theirs), 1e-30)
    sentence = f"{what} differ: {mine:.6g} instead of {theirs:.6g} at the {_nth(index + 1)} "
    sentence += f"({far:.1e}, allowed {allowed:.1e})"
    large, small = max(abs(mine), abs(theirs)), min(abs(mine), abs(theirs))
    ratio = large / small if small else math.inf
    if math.isfinite(ratio) and round(ratio) >= 2 and abs(ratio - round(ratio)) < WHOLE * ratio:
        sentence += (
            f"; a ratio of {round(ratio)} is a sum taken for a mean, or scaled by accumulation"
        )
    return sentence


def _nth(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _learns(base: Evidence, trial: Evidence, noise: float) -> Parity:
    """Compare the mean loss of the same number of later steps."""
    n = min(len(base.late), len(trial.late))
    if n < FEWEST_LATE:
        return _unknown(f"only {n} later losses were seen, {FEWEST_LATE} are needed")
    theirs, mine = list(base.late[:n]), list(trial.late[:n])
    before, now = math.fsum(theirs) / n, math.fsum(mine) / n
    spread = math.sqrt(sum((loss - before) ** 2 for loss in theirs) / (n - 1) / n)
    allowed = 2 * math.sqrt(2) * spread + SLACK * noise * abs(before)
    comparison = f"mean loss of the same {n} steps {now:.4g} against {before:.4g} (+-{allowed:.2g})"
    if now > before + allowed:
        return _broken(f"it learns less: {comparison}")
    return Parity(kept=True, why=f"{comparison}; only a whole run can show more")


def _apart(theirs: Sequence[float], mine: Sequence[float]) -> tuple[float, int]:
    """Return the largest relative difference and its index."""
    worst, where = 0.0, 0
    for index, (a, b) in enumerate(zip(theirs, mine, strict=False)):
        far = _far(a, b)
        if far > worst or math.isnan(far):
            worst, where = far, index
    return worst, where


def _far(theirs: float, mine: float) -> float:
    return 0.0 if theirs == mine else abs(theirs - mine) / max(abs(theirs), 1e-30)


def _cosine(a: Sequence[float], b: Sequence[float]) -> float:
    if len(a) != len(b):
        return 0.0
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    sizes = math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(x * x for x in b))
    if sizes == 0:
        return 1.0 if list(a) == list(b) else 0.0
    return product / sizes
