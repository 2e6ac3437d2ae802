"""Trials that are told how fast they are and how they end, and a target that has them."""

import itertools
from contextlib import nullcontext
from dataclasses import dataclass, field

from hotloop.core.plan import Plan
from hotloop.tuning.lane import Entry
from hotloop.tuning.trial_process import TrialReport

__all__ = ["BASE", "LOSSES", "Fake", "Spec", "Target"]

BASE = Plan(micro_batch=1)
LOSSES = [3.0, 2.5, 2.0, 1.5]


@dataclass(kw_only=True)
class Spec:
    """How a trial of some techniques does."""

    step: float = 0.1  # seconds
    jitter: float = 0.0  # of the step, by turns so many times more and less
    losses: list = field(default_factory=lambda: LOSSES)
    late: float = 1.0
    effects: dict = field(default_factory=dict)
    ends: BaseException | None = None
    first: float = 1.0  # seconds of the first step
    peak: int = 1
    compiled: float | None = None  # seconds of `first` in which code is compiled


class Fake:
    """A trial; its time is that of the clock of its target."""

    has_workers = False

    def __init__(self, target, spec):
        self.target, self.spec, self.made, self.blocks = target, spec, 0, 0
        self.peak_bytes = spec.peak
        target.alive.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        if self in self.target.alive:
            self.target.alive.remove(self)

    def first(self, *, seconds):
        return self._made(1, self.spec.first)

    def keep_memory(self):
        self.target.kept.append(self.spec)

    def block(self, steps, *, seconds):
        if self.spec.ends is not None:
            raise self.spec.ends
        self.blocks += 1
        sign = 1 if self.blocks % 4 < 2 else -1
        return self._made(steps, steps * self.spec.step * (1 + self.spec.jitter) ** sign)

    def _made(self, steps, seconds):
        self.target.now += seconds
        self.made += steps
        spec = self.spec
        evidence = {"late": [spec.late] * steps}
        if self.made > 8:
            evidence |= {
                "losses": spec.losses,
                "norms": [1.0],
                "tensors": {"0.0": 1.0},
                "samples": {"0.0": [1.0, 2.0]},
            }
        more = {"effects": spec.effects, "evidence": evidence, "epochs": 9, "peak": None}
        if spec.compiled is not None:
            more["compile"] = spec.compiled
        return TrialReport(seconds=seconds, made=steps, at=self.made, more=more)


class Target:
    """`of` says how each plan does: by the ids of its techniques."""

    baseline = BASE
    reordered = None

    def __init__(self, of=None, *, room=None, lanes=2):
        self.of = {(): Spec(), **(of or {})}
        self.now, self.alive, self.runs, self.no_room = 0.0, [], [], room
        self.kept = []  # how those do that were told to keep their memory
        self.side_by_side = lanes

    def entry(self, plan, *, epochs, needs):
        def start():
            ids = tuple(use.id for use in plan.techniques)
            self.runs.append(ids)
            spec = self.of[ids]
            return Fake(self, next(spec) if isinstance(spec, itertools.chain) else spec)

        return Entry(plan=plan, start=start, epochs=epochs, needs=tuple(needs))

    def alone(self):
        return self.entry(self.baseline, epochs=0, needs=())

    @property
    def total(self):
        return None

    def room(self, trial):
        return self.no_room

    def still(self, plan):
        ids = ("still", *(use.id for use in plan.techniques))
        if ids not in self.of:
            return None
        return Entry(plan=plan, start=lambda: Fake(self, self.of[ids]))

    def nudged(self, size, seed):
        if ("nudged", size) not in self.of:
            return None
        return Entry(plan=BASE, start=lambda: Fake(self, self.of["nudged", size]))

    def forking(self):
        return nullcontext(self)

    def lanes(self, trial):
        return self.side_by_side
