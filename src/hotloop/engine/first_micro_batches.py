"""Times the first micro batches of a run under two settings of the process."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from hotloop import techniques
from hotloop.engine.apply_plan import nothing_stays, prepare, undo
from hotloop.engine.step import to_device
from hotloop.machine.clock import clock
from hotloop.session.accumulation_windows import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.accumulation_windows import AccumulationWindows
    from hotloop.session.job import Job
    from hotloop.session.session import Session
    from hotloop.techniques.base import Paired

__all__ = ["paired_steps", "settled"]

SHARE: Final = 0.02  # share of a run's micro batches that measuring may cost
FEWEST, MOST = 3, 15  # pairs of which the median is taken


def settled(
    job: Job, plan: Plan, hardware: Hardware, feed: AccumulationWindows, steps: int
) -> Plan:
    """Return the plan with the choices that only a measurement can make.

    A resumed run then makes the same choices. `steps` are the optimizer steps of the whole run.
    With several ranks, only rank 0 measures; the others return `plan`, and must get rank 0's.
    """
    if feed.rank > 0:
        return plan
    open_ids = [use.id for use in plan.techniques if techniques.get(use.id).settle is not None]
    rest = plan.minus("compile")  # compiling takes longer than all measurements
    for id in open_ids:
        rest = rest.minus(id)
    paired = paired_steps(job, rest, hardware, feed, steps)
    for use in plan.techniques:
        technique = techniques.get(use.id)
        if technique.settle is not None and technique.blocked(hardware, plan) is None:
            plan = plan.plus(use.id, **technique.settle(paired, **dict(use.choice)))
    return plan


def paired_steps(
    job: Job, plan: Plan, hardware: Hardware, feed: AccumulationWindows, steps: int
) -> Paired:
    """Return a function that times forward and backward passes of a run's first micro batches.

    The plan's techniques are in effect meanwhile. Both settings run each micro batch, taking turns
    to be first, and each shape is new to both, so a library's preparation for a shape counts as it
    does in the run. The function returns None if the run is too short to measure.
    """

    def paired(new: Callable[[], object], old: Callable[[], object]) -> float | None:
        pairs = min(MOST, int(SHARE * steps * plan.accumulation / 2))
        if pairs < FEWEST:
            return None
        session, _ = prepare(job, plan, hardware, {})
        try:
            with nothing_stays(session):
                batches = _batches(feed, session)
                _seconds(session, next(batches), old)  # first allocations
                return statistics.median(
                    _ratio(session, next(batches), new, old, is_even=position % 2 == 0)
                    for position in range(pairs)
                )
        finally:
            undo(session)

    return paired


def _batches(feed: AccumulationWindows, session: Session) -> Iterator[Mapping[str, Any]]:
    """Yield the tensors of a run's micro batches, from the first one on."""
    position = Position()
    while True:
        for batch in feed.window(position, session.micro_batch):
            yield to_device(batch, session.device)
        position = feed.after(position)


def _ratio(
    session: Session,
    tensors: Mapping[str, Any],
    new: Callable[[], object],
    old: Callable[[], object],
    *,
    is_even: bool,
) -> float:
    """Return the rate under `new` over that under `old`, which runs first if `is_even`."""
    taken = {}
    for setting in (old, new) if is_even else (new, old):
        taken[setting] = _seconds(session, tensors, setting)
    return taken[old] / max(taken[new], 1e-9)


def _seconds(session: Session, tensors: Mapping[str, Any], setting: Callable[[], object]) -> float:
    setting()
    began = clock()
    session.forward(tensors).backward()  # type: ignore[no-untyped-call]
    taken = clock() - began
    session.model.zero_grad(set_to_none=True)
    return taken
