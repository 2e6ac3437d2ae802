"""The shape of a technique. A technique is a value; there is nothing to subclass."""

from __future__ import annotations

import enum
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan, Value

__all__ = [
    "HEADINGS",
    "HostKind",
    "Numerics",
    "Paired",
    "Stage",
    "Technique",
    "anywhere",
    "keep_undo",
    "only_on",
]

# Times a run's first micro batches under two settings of the process: (new, old) -> the ratio of
# the rate under `new` to that under `old`; None if the run is too short to spend steps on timing.
Paired: TypeAlias = "Callable[[Callable[[], object], Callable[[], object]], float | None]"

HEADINGS = ("What:", "Helps when:", "Does not help when:", "Numbers:", "Measured:", "Source:")


class Numerics(enum.IntEnum):
    """How far a technique may change the numbers; `tune` takes a limit."""

    BITWISE = 0  # losses and gradients are identical, bit for bit
    ROUNDING = 1  # same mathematics, different rounding, within `tolerance` and `cosine`
    EQUIVALENT = 2  # another order of the samples: the same in distribution
    TRAINING = 3  # different mathematics; only a longer run can show whether it is as good


class Stage(enum.IntEnum):
    """When a technique is applied: by stage, then in the order of techniques.ALL."""

    PROCESS = 0  # global switches
    LOADER = 1
    MODEL = 2  # modules are changed, the forward pass is wrapped
    SHARD = 3
    OPTIMIZER = 4  # the optimizer exists from here on
    STEP = 5  # slots of the engine's loop
    COMPILE = 6  # last, because it compiles the result of all other stages


class HostKind(enum.Enum):
    """The kind of host that may apply a technique: `hotloop train` or a script."""

    ENGINE = "engine"
    SCRIPT = "script"


def anywhere(hardware: Hardware, plan: Plan) -> str | None:
    """Return None: the technique works on every machine."""
    del hardware, plan
    return None


def only_on(device: str, what: str) -> Callable[[Hardware, Plan], str | None]:
    """Return the gate of a technique for one kind of device; `what` begins the reason."""
    return lambda hardware, _: (
        None if hardware.device == device else f"{what}, and this is a {hardware.device} device"
    )


def keep_undo(session: Any, id: str, back: Sequence[Callable[[], object]]) -> int:
    """Let a session undo a technique by calling each of `back`; return how many there are."""

    def back_out() -> None:
        for undo in back:
            undo()

    if back:
        session.undo[id] = back_out
    return len(back)


@dataclass(frozen=True, slots=True, kw_only=True)
class Technique:
    """One way to train faster or smaller. Its file's docstring is its page in the docs."""

    id: str
    title: str
    stage: Stage
    numerics: Numerics
    # (session, **choice) -> the number of changes; 0 means no effect. The session is a Session, a
    # ScriptSession or either (a TechniqueTarget), depending on `hosts`.
    apply: Callable[..., int]
    read_back: Callable[[Any], str | None]  # what is in effect now; None if nothing is
    nothing: str  # why `apply` may find nothing to change; shown if that happens
    blocked: Callable[[Hardware, Plan], str | None] = anywhere  # why it can't run here, or None
    choices: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)  # first is default
    excludes: frozenset[str] = frozenset()
    late: bool = False  # can be read back only after a script's first step
    pays_from: int = 1  # epoch; 2 if the first epoch costs as much as without the technique
    # For choices that need a measurement: (paired, **choice) -> the choice that is written into the
    # run's plan, so that a resumed run does the same. `paired` is a `Paired`.
    settle: Callable[..., Mapping[str, Value]] | None = None
    # The choice for a trial of `tune`, if it is not the default: whatever `apply` would decide by
    # timing is in effect in the trial, and the timing of the trial's own steps decides.
    tried: Mapping[str, Value] = field(default_factory=dict)
    # The part of `apply` that determines what is saved for the backward pass, (model, **choice).
    # The memory forecast of a plan uses it.
    on_model: Callable[..., object] | None = None
    # (parameter, **choice) -> bytes of its optimizer state on the device, if the technique replaces
    # the optimizer. The memory forecast of a plan uses it.
    state_bytes: Callable[..., int] | None = None
    hosts: frozenset[HostKind] = frozenset(HostKind)
    # Limits of ROUNDING in float32: at least ten times the largest deviation that
    # benchmarks/rounding.py measured (results/rounding-cpu.json), or its own benchmark.
    tolerance: float = 0.0  # largest relative deviation of the losses of the first 10 steps
    cosine: float = 1.0  # least cosine of each tensor's first-step gradient with the plain run's
    redraws: bool = False  # dropout draws its masks in another shape, so losses differ by them
    regroups: bool = False  # an optimizer step has another number of backward passes

    @property
    def page(self) -> str:
        """Return its page in the docs: the docstring of the file that defines `apply`."""
        return sys.modules[self.apply.__module__].__doc__ or ""
