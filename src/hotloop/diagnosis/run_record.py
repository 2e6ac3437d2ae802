"""What the record of a run of hotloop train says, as the case that the doctor's rules judge.

A record has every step with its phases, validations, saves and readings, and the wall time by row.
It has no loaders, batches or module: those are looked at before a run (`hotloop doctor RECIPE`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.values import typed
from hotloop.core.case.case import TRAIN, Case
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.steps_and_loaders import EvaluationSpan, Save, Steps
from hotloop.core.errors import DataError
from hotloop.core.events import steps
from hotloop.core.hardware import Hardware
from hotloop.core.storage.rank_logs import EXCHANGE, ranks_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.events import Event, StepTrace
    from hotloop.core.plan import Plan
    from hotloop.core.storage.rank_logs import RankBalance
    from hotloop.core.storage.rundir import RunDir

__all__ = ["case_of_run"]

_EVENTS: Final = 40_000  # of steps that are kept of a long log, the older ones as sums
_MOST: Final = 2000  # steps whose times are given, the last ones
_PHASES: Final = {
    "data": "data wait",
    "forward": "forward",
    "backward": "backward",
    EXCHANGE: "exchange",  # of several ranks only
    "update": "optimizer",
}
_STATE: Final = ("model", "optimizer", "scheduler", "rng", "epoch")  # of every checkpoint
_KINDS: Final = (("evaluate", "eval"), ("save", "save"))  # rows, and events that have their time
_LEFT: Final = (
    "loaders, batches and the model: they are not in a run's record; hotloop doctor RECIPE "
    "key=value looks at them before a run",
    "where in the code time goes: a run's record has phases, and no stacks",
)


def case_of_run(run: RunDir) -> Case:
    """Return what is known of a run of hotloop train. Raises DataError where it made no step."""
    record: dict[str, Any] = run.read()
    events = run.events(most=_EVENTS)
    made = steps(events)
    if not made:
        raise DataError(f"{run.path} has no step in its log yet: there is nothing to judge")
    plan, ranks = run.plan(), ranks_of(run, record)
    hardware, last = Hardware.from_json(record["hardware"]), made[-1]
    rows = -(-int(record["data"].get("rows", {}).get("valid", 0)) // plan.micro_batch)
    return Case(
        hardware=hardware,
        script=f"{TRAIN} {record['recipe']}",
        arguments=tuple(
            f"{key}={typed(value)}"
            for key, value in record["config"].items()
            if record["origins"].get(key) == "command line"
        ),
        wall=_wall(events, made),
        steps=replace(
            _steps(made, _accumulation(plan, ranks), record.get("flops_per_token"), ranks),
            guesses=(guesses,) if type(guesses := record.get("guesses")) is int else (),
        ),
        stopped=None if record["status"] == "complete" else str(record.get("reason", "running")),
        planned_steps=record["steps"],
        epochs=last.epoch + 1,
        evaluations=tuple(
            EvaluationSpan(at=e["t"] - e["wall"], seconds=e["wall"], step=e["step"], batches=rows)
            for e in _of_kind(events, "eval")
        ),
        saves=_saves(run, events),
        process=_process(ranks),
        readings=_readings(_of_kind(events, "reading"), hardware),
        techniques={
            e["technique"]: e["how"] for e in record["effects"] if e["word"] == "in effect"
        },
        requested={
            key: str(value) for key, value in record["config"].items() if _is_asked(record, key)
        },
        not_checked=(
            *_LEFT,
            *(ranks.gaps if ranks else ()),
            *(str(event["text"]) for event in events if "skipped" in event),
        ),
    )


def _process(ranks: RankBalance | None) -> ProcessFacts:
    """Return the group with the figures of its ranks, their waits for others apart."""
    if ranks is None:
        return ProcessFacts()
    each = ranks.each
    found: dict[str, Sequence[float | None]] = {
        "memory": [rank.memory for rank in each],
        "step": [rank.step for rank in each],
        "tokens": [rank.tokens for rank in each],
        **{
            row: [rank.own.get(phase, 0.0) if rank.own else None for rank in each]
            for phase, row in _PHASES.items()
            if phase != EXCHANGE
        },
        "communication": [rank.exchange for rank in each],
    }
    known = {name: tuple(v for v in values if v is not None) for name, values in found.items()}
    return ProcessFacts(
        world=ranks.world,
        backend=ranks.backend,
        ranks={
            name: values for name, values in known.items() if values and len(values) == len(each)
        },
        ranked=() if ranks.whole else tuple(rank.number for rank in each),
        hosts=ranks.hosts,
    )


def _accumulation(plan: Plan, ranks: RankBalance | None) -> int:
    """Return the micro batches of a rank's step; the newest session may have other ranks."""
    world = 1 if ranks is None else ranks.world
    whole = plan.micro_batch * plan.accumulation * plan.ranks
    return plan.over(world, whole).accumulation


def _saves(run: RunDir, events: Sequence[Event]) -> tuple[Save, ...]:
    return tuple(
        Save(
            at=e["t"] - e["wall"],
            seconds=e["wall"],
            step=e["step"],
            bytes=e["bytes"],
            path=str(run.checkpoints),
            kinds=_STATE,
        )
        for e in _of_kind(events, "save")
    )


def _is_asked(record: Mapping[str, Any], key: str) -> bool:
    return str(record["origins"].get(key, "default")) not in ("default", "auto")


def _of_kind(events: Sequence[Event], kind: str) -> list[Any]:
    return [event for event in events if event["kind"] == kind]


def _wall(events: Sequence[Event], made: Sequence[StepTrace]) -> dict[str, float]:
    """Return seconds by row, of all processes that came to their end; a killed one wrote none."""
    rows: dict[str, float] = {}
    for event in events:
        if event["kind"] == "end":
            of_process: Any = event["wall"]
            for name, seconds in of_process.items():
                rows[name] = rows.get(name, 0.0) + seconds
    phases = _phases(made)
    if not rows:  # killed, or it still runs: what its steps say
        rows = {row: sum(e["wall"] for e in _of_kind(events, kind)) for row, kind in _KINDS}
        rows["data wait"] = phases["data wait"]
        rows["step"] = sum(each.wall for each in made) - phases["data wait"]
    inside = rows.pop("step")
    inner = ("forward", "backward", "exchange", "optimizer")
    named = {name: phases[name] for name in inner if name in phases and not rows.get(name)}
    share = min(1.0, inside / max(sum(named.values()), 1e-9))
    rows |= {name: share * seconds for name, seconds in named.items()}
    rest = inside - share * sum(named.values()) + rows.pop("other", 0.0)
    return {**rows, "after step": rest}


def _phases(made: Iterable[StepTrace]) -> dict[str, float]:
    found = dict.fromkeys(_PHASES.values(), 0.0)
    for step in made:
        for phase, row in _PHASES.items():
            found[row] += step.phases.get(phase, 0.0)
    if not found[_PHASES[EXCHANGE]]:  # one process has nobody to wait for
        del found[_PHASES[EXCHANGE]]
    return found


def _steps(
    made: Sequence[StepTrace], accumulation: int, flops: float | None, ranks: RankBalance | None
) -> Steps:
    """Return the steps; the first of each process, which set things up, are not timed.

    What a micro batch holds is that of the newest session where ranks may have come or gone.
    """
    timed = [each for each in made if each.nth > 1][-_MOST:]
    began = max(at for at, each in enumerate(made) if each.nth == 1)
    mine = made if ranks is None else made[began:]
    tokens = sorted(each.tokens / each.steps for each in mine)[len(mine) // 2]
    rows = _phases(made)
    return Steps(
        count=made[-1].step,
        wall=tuple(each.wall / each.steps for each in timed),
        rows={
            row: tuple(each.phases.get(phase, 0.0) / each.steps for each in timed)
            for phase, row in _PHASES.items()
            if row in rows
        },
        numbers=tuple(each.step for each in timed),
        backwards=float(accumulation),
        samples=mine[0].samples / accumulation,
        tokens=tokens / accumulation,
        losses=tuple((each.step, each.loss) for each in made[-_MOST:]),
        nonfinite=next((each.step for each in made if not math.isfinite(each.loss)), None),
        flops=None if flops is None else flops * tokens,
    )


def _readings(events: Sequence[Any], hardware: Hardware) -> dict[str, tuple[float, ...]]:
    """Return readings by the names that rules know; unknown ones are left out."""
    memory, busy = "gpu_memory_bytes", "gpu_utilisation"
    if hardware.device != "cuda":
        memory, busy = "rss_bytes", "cpu_cores"
    cores = hardware.cores if hardware.device != "cuda" else 1.0
    found = {
        memory: tuple(e["memory_bytes"] for e in events if e["memory_bytes"] is not None),
        busy: tuple(
            e["utilisation"] * cores
            for e in events
            if e["utilisation"] is not None and cores is not None
        ),
    }
    return {name: values for name, values in found.items() if values}
