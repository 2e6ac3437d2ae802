"""The shape of a technique. A technique is a value; there is nothing to subclass."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Value

__all__ = ["HEADINGS", "HostKind", "Numerics", "Paired", "Stage", "Technique", "anywhere"]

# Times a run's first micro batches under two settings of the process: (new, old) -> the rate under
# `new` in that under `old`; None where the run is too short to spend any of it on measuring.
Paired: TypeAlias = "Callable[[Callable[[], object], Callable[[], object]], float | None]"

HEADINGS = ("What:", "Helps when:", "Does not help when:", "Numbers:", "Measured:", "Source:")


class Numerics(enum.IntEnum):
    """What a technique may change about the numbers. `tune` says how far it may go."""

    BITWISE = 0  # losses and gradients are identical, bit for bit
    ROUNDING = 1  # same mathematics, other rounding: within `tolerance` and `cosine`
    TRAINING = 2  # other mathematics: only a longer run can say whether it is as good


class Stage(enum.IntEnum):
    """When a technique is applied: in this order, then in the order of techniques.ALL."""

    PROCESS = 0  # global switches
    LOADER = 1
    MODEL = 2  # modules are changed, the forward pass is wrapped
    SHARD = 3
    OPTIMIZER = 4  # the optimizer exists from here on
    STEP = 5  # slots of the engine's loop
    COMPILE = 6  # last: it looks at everything before


class HostKind(enum.Enum):
    """Who may call a technique."""

    ENGINE = "engine"
    SCRIPT = "script"


def anywhere(hardware: Hardware, plan: Plan) -> str | None:
    """Answer None: nothing stands in the way on any machine."""
    del hardware, plan
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One way to train faster or smaller. Its file's docstring is its page in the docs."""

    id: str
    title: str
    page: str
    stage: Stage
    numerics: Numerics
    # (session, **choice) -> how many things changed; 0: no effect. The session is a Session or a
    # ScriptSession, by the hosts it is for; a Subject is what both have.
    apply: Callable[..., int]
    read_back: Callable[[Any], str | None]  # what is in effect now, or None if it is not
    nothing: str  # why `apply` may find nothing to change, said when it does
    blocked: Callable[[Hardware, Plan], str | None] = anywhere  # why it can't run here, or None
    choices: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # first is default
    excludes: frozenset[str] = frozenset()
    late: bool = False  # a script's first step must be over before it can be read back
    pays_from: int = 1  # epoch: 2 where the first one costs as much as without it
    # What only measuring can decide: (paired, **choice) -> the choice with which a run's plan is
    # written, so that a resumed run does the same. `paired` is a `Paired`.
    settle: Callable[..., Mapping[str, Value]] | None = None
    # The choice of a trial, where it is not the default: what `apply` would decide by timing is in
    # effect there, and the trial's own steps decide.
    tried: Mapping[str, Value] = field(default_factory=dict)
    # The part of `apply` that decides what the backward pass keeps, (model, **choice), for the
    # memory forecast of a plan.
    on_model: Callable[..., object] | None = None
    hosts: frozenset[HostKind] = frozenset(HostKind)
    # What ROUNDING may do in float32 at most: ten times the largest deviation, or more, that
    # benchmarks/rounding.py found (results/rounding-cpu.json).
    tolerance: float = 0.0  # relative, on the losses of the first 10 steps
    cosine: float = 1.0  # of each tensor's first-step gradient with that of the plain run
