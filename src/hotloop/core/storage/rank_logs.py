"""Compares the ranks of a run: the time of each for its own part of a step, from its own log.

Only the newest session counts, with the steps that all ranks have there, without the warm-up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hotloop.core.errors import DataError
from hotloop.core.events import finite, steady, steps
from hotloop.core.measurement import typical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.core.events import Event, StepTrace
    from hotloop.core.storage.rundir import RunDir

__all__ = ["EXCHANGE", "Rank", "RankBalance", "ranks_of"]

EXCHANGE: Final = "exchange"  # the phase in which a rank waits for the others
_EVENTS: Final = 40_000  # step events that are kept of a long log; older ones are merged
_STEPS: Final = 2000  # the last steps, whose times count
_WORLD: Final = 65_536  # ranks: a record with more is not valid
_NAMED: Final = 8  # ranks that are named in a message
_LONGEST: Final = 1e9  # seconds: a longer time is not valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """The times of one rank for a step. Unknown is None."""

    number: int
    host: str | None  # name of its machine
    step: float | None  # seconds, its waits included
    own: Mapping[str, float] = field(default_factory=dict)  # phase -> seconds, without waits
    exchange: float | None  # seconds of waiting for other ranks and for communication
    tokens: float  # of its own part of a step
    memory: float | None  # bytes, the highest reading


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBalance:
    """A run of several ranks."""

    world: int
    backend: str | None
    hosts: tuple[str, ...]  # of each rank; empty: unknown
    each: tuple[Rank, ...]  # the ranks that could be compared, by number
    steps: int  # that were compared
    tokens: Mapping[int, int]  # step -> sum of all ranks; empty if one is missing
    gaps: tuple[str, ...]  # a sentence each: what could not be compared

    @property
    def whole(self) -> bool:
        """Whether every rank could be compared."""
        return len(self.each) == self.world


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """The newest session of one rank."""

    after: int  # the step it began after
    steps_made: Mapping[int, StepTrace]
    steady: frozenset[int]  # steps
    memory: float | None


def ranks_of(run: RunDir, record: Mapping[str, object]) -> RankBalance | None:
    """Return the ranks of a run with this record; None if one process made it.

    A missing or damaged log is a gap, and so is a rank without a step to compare.
    """
    group = record.get("ranks")
    world = group.get("world") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or type(world) is not int or not 2 <= world <= _WORLD:
        return None
    logs, gaps = _logs(run, world)
    common = frozenset.intersection(*(log.steady for log in logs.values())) if logs else frozenset()
    numbers = sorted(common)[-_STEPS:]
    if logs and not numbers:
        gaps.append("the ranks were not compared: their logs have no step after the warm-up alike")
        logs = {}
    hosts, backend = _hosts(group.get("hosts"), world), group.get("backend")
    untimed = _untimed(logs, numbers, record)
    ranks = tuple(
        _rank(number, log, numbers, hosts, timed=untimed is None) for number, log in logs.items()
    )
    gaps += [untimed] if untimed is not None else []
    unread = [rank.number for rank in ranks if rank.memory is None]
    if unread:
        gaps.append(f"memory was not compared: {_named(unread, world)} wrote no reading of it")
    return RankBalance(
        world=world,
        backend=backend if isinstance(backend, str) else None,
        hosts=hosts,
        each=ranks,
        steps=len(numbers),
        tokens=_tokens(logs) if len(logs) == world else {},
        gaps=tuple(gaps),
    )


def _logs(run: RunDir, world: int) -> tuple[dict[int, _Log], list[str]]:
    """Return the ranks' logs of rank 0's newest session, and the gaps."""
    logs: dict[int, _Log] = {}
    gaps, missing, silent = list[str](), list[int](), list[int]()
    for number in range(world):
        if not run.events_file(number).exists():
            missing.append(number)
            continue
        try:
            events = run.events(number, most=_EVENTS)
            gaps += [str(event["text"]) for event in events if "skipped" in event]
            log = _log(events)
        except (DataError, OverflowError) as error:
            gaps.append(f"{_named([number], world)} cannot be read: {error}")
            continue
        # If a rank wrote nothing since the group was restarted, its newest session is an older one.
        if log is None or not log.steady or (0 in logs and log.after != logs[0].after):
            silent.append(number)
        else:
            logs[number] = log
    lost = "not compared, and what exchanging costs cannot be told"
    if missing:
        gaps.append(f"{_named(missing, world)} left no log (events-r{missing[0]}.jsonl): {lost}")
    if silent:
        what = "no step after the warm-up in the newest session"
        gaps.append(f"{_named(silent, world)} wrote {what}: {lost}")
    return (logs if 0 in logs else {}), gaps


def _log(events: Sequence[Event]) -> _Log | None:
    """Return the newest session in a rank's events, or None. Raises DataError."""
    begun = [index for index, event in enumerate(events) if event["kind"] == "session"]
    mine = events[begun[-1] :] if begun else []
    if not mine:
        return None
    after = mine[0]["step"]
    assert isinstance(after, int)  # read_events has checked that
    traces = [step for step in steps(mine) if _is_sound(step)]
    memory = (finite(event.get("memory_bytes")) for event in mine if event["kind"] == "reading")
    return _Log(
        after=after,
        steps_made={step.step: step for step in traces},
        steady=frozenset(step.step for step in steady(traces)),
        memory=max((size for size in memory if size is not None and size > 0), default=None),
    )


def _is_sound(step: StepTrace) -> bool:
    times = (step.wall, *step.phases.values())
    return all(0 <= seconds <= _LONGEST for seconds in times) and 0 <= step.tokens < 1 << 53


def _untimed(
    logs: Mapping[int, _Log], numbers: Sequence[int], record: Mapping[str, object]
) -> str | None:
    """Return why the times of these steps are not comparable, or None."""
    hardware = record.get("hardware")
    device = hardware.get("device") if isinstance(hardware, Mapping) else None
    clocks = {log.steps_made[number].clock for log in logs.values() for number in numbers}
    if device != "cuda" or clocks <= {"device"}:
        return None
    return (
        "the ranks' times were not compared: the host's clock timed these steps, and the host "
        "runs ahead of its GPU"
    )


def _rank(
    number: int, log: _Log, numbers: Sequence[int], hosts: Sequence[str], *, timed: bool
) -> Rank:
    traces = [log.steps_made[step] for step in numbers]
    phases = {phase for step in traces for phase in step.phases}
    times = {phase: typical([step.phases.get(phase, 0.0) for step in traces]) for phase in phases}
    exchange = times.pop(EXCHANGE, 0.0)
    return Rank(
        number=number,
        host=hosts[number] if hosts else None,
        step=typical([step.wall for step in traces]) if timed else None,
        own=times if timed else {},
        exchange=exchange if timed else None,
        tokens=typical([step.tokens for step in traces]),
        memory=log.memory,
    )


def _tokens(logs: Mapping[int, _Log]) -> dict[int, int]:
    shared = set.intersection(*(set(log.steps_made) for log in logs.values()))
    made = [log.steps_made for log in logs.values()]
    return {step: sum(steps[step].tokens for steps in made) for step in sorted(shared)}


def _hosts(value: object, world: int) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) != world:
        return ()
    return tuple(value) if all(isinstance(name, str) for name in value) else ()


def _named(numbers: Sequence[int], world: int) -> str:
    """Return "rank 1 of 4" or "ranks 1, 2 of 4"; of many ranks only the first."""
    names = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"rank{'s' * (len(numbers) > 1)} {names}{more} of {world}"
