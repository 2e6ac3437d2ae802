"""Builds the case of a run of hotloop train from its record.

A record has every step with its phases, validations, saves and readings, and the wall time by row.
It has no loaders, batches or module; `hotloop doctor RECIPE` inspects those before a run.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.schema import typed
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

_EVENTS: Final = 40_000  # step events kept of a long log; older ones are summed
_MOST: Final = 2000  # last steps whose times are given
_PHASES: Final = {
    "data": "data wait",
    "forward": "forward",
    "backward": "backward",
    EXCHANGE: "exchange",  # with several ranks only
    "update": "optimizer",
}
_STATE: Final = ("model", "optimizer", "scheduler", "rng", "epoch")  # of every checkpoint
_KINDS: Final = (("evaluate", "eval"), ("save", "save"))  # row, kind of the event with its time
_LEFT: Final = (
    "loaders, batches and the model: they are not in a run's record; hotloop doctor RECIPE "
    "key=value looks at them before a run",
    "where in the code time goes: a run's record has phases, and no stacks",
)


def case_of_run(run: RunDir) -> Case:
    """Return the case of a run of hotloop train. Raises DataError if it made no step."""
    record: dict[str, Any] = run.read()
    events = run.events(most=_EVENTS)
    traces = steps(events)
    if not traces:
        raise DataError(f"{run.path} has no step in its log yet: there is nothing to judge")
    plan, ranks = run.plan(), ranks_of(run, record)
    hardware, last = Hardware.from_json(record["hardware"]), traces[-1]
    rows = -(-int(record["data"].get("rows", {}).get("valid", 0)) // plan.micro_batch)
    return Case(
        hardware=hardware,
        script=f"{TRAIN} {record['recipe']}",
        arguments=tuple(
            f"{key}={typed(value)}"
            for key, value in record["config"].items()
            if record["origins"].get(key) == "command line"
        ),
        wall=_wall(events, traces),
        steps=replace(
            _steps(traces, _accumulation(plan, ranks), record.get("flops_per_token"), ranks),
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
            key: str(value) for key, value in record["config"].items() if _is_requested(record, key)
        },
        not_checked=(
            *_LEFT,
            *(ranks.gaps if ranks else ()),
            *(str(event["text"]) for event in events if "skipped" in event),
        ),
    )


def _process(ranks: RankBalance | None) -> ProcessFacts:
    """Return the process group with the figures of its ranks; waits for other ranks are apart."""
    if ranks is None:
        return ProcessFacts()
    members = ranks.each
    figures: dict[str, Sequence[float | None]] = {
        "memory": [rank.memory for rank in members],
        "step": [rank.step for rank in members],
        "tokens": [rank.tokens for rank in members],
        **{
            row: [rank.own.get(phase, 0.0) if rank.own else None for rank in members]
            for phase, row in _PHASES.items()
            if phase != EXCHANGE
        },
        "communication": [rank.exchange for rank in members],
    }
    known = {name: tuple(v for v in values if v is not None) for name, values in figures.items()}
    return ProcessFacts(
        world=ranks.world,
        backend=ranks.backend,
        ranks={
            name: values for name, values in known.items() if values and len(values) == len(members)
        },
        ranked=() if ranks.whole else tuple(rank.number for rank in members),
        hosts=ranks.hosts,
    )


def _accumulation(plan: Plan, ranks: RankBalance | None) -> int:
    """Return the micro batches of a rank's step; the newest session may have another world size."""
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


def _is_requested(record: Mapping[str, Any], key: str) -> bool:
    return str(record["origins"].get(key, "default")) not in ("default", "auto")


def _of_kind(events: Sequence[Event], kind: str) -> list[Any]:
    return [event for event in events if event["kind"] == kind]


def _wall(events: Sequence[Event], traces: Sequence[StepTrace]) -> dict[str, float]:
    """Return seconds by row, summed over the sessions that ended; a killed one wrote none."""
    rows: dict[str, float] = {}
    for event in events:
        if event["kind"] == "end":
            of_process: Any = event["wall"]
            for name, seconds in of_process.items():
                rows[name] = rows.get(name, 0.0) + seconds
    phases = _phases(traces)
    if not rows:  # killed or still running: sum the steps
        rows = {row: sum(e["wall"] for e in _of_kind(events, kind)) for row, kind in _KINDS}
        rows["data wait"] = phases["data wait"]
        rows["step"] = sum(trace.wall for trace in traces) - phases["data wait"]
    inside = rows.pop("step")
    inner = ("forward", "backward", "exchange", "optimizer")
    named = {name: phases[name] for name in inner if name in phases and not rows.get(name)}
    share = min(1.0, inside / max(sum(named.values()), 1e-9))
    rows |= {name: share * seconds for name, seconds in named.items()}
    rest = inside - share * sum(named.values()) + rows.pop("other", 0.0)
    return {**rows, "after step": rest}


def _phases(traces: Iterable[StepTrace]) -> dict[str, float]:
    seconds = dict.fromkeys(_PHASES.values(), 0.0)
    for step in traces:
        for phase, row in _PHASES.items():
            seconds[row] += step.phases.get(phase, 0.0)
    if not seconds[_PHASES[EXCHANGE]]:  # a single process has no exchange
        del seconds[_PHASES[EXCHANGE]]
    return seconds


def _steps(
    traces: Sequence[StepTrace], accumulation: int, flops: float | None, ranks: RankBalance | None
) -> Steps:
    """Return the steps; the first step of each session, which includes the set-up, is not timed.

    With several ranks, samples and tokens of a micro batch are those of the newest session, as the
    world size may have changed.
    """
    timed = [trace for trace in traces if trace.nth > 1][-_MOST:]
    began = max(index for index, trace in enumerate(traces) if trace.nth == 1)
    session_traces = traces if ranks is None else traces[began:]
    tokens = sorted(trace.tokens / trace.steps for trace in session_traces)[
        len(session_traces) // 2
    ]
    rows = _phases(traces)
    return Steps(
        count=traces[-1].step,
        wall=tuple(trace.wall / trace.steps for trace in timed),
        rows={
            row: tuple(trace.phases.get(phase, 0.0) / trace.steps for trace in timed)
            for phase, row in _PHASES.items()
            if row in rows
        },
        numbers=tuple(trace.step for trace in timed),
        backwards=float(accumulation),
        samples=session_traces[0].samples / accumulation,
        tokens=tokens / accumulation,
        losses=tuple((trace.step, trace.loss) for trace in traces[-_MOST:]),
        nonfinite=next((trace.step for trace in traces if not math.isfinite(trace.loss)), None),
        flops=None if flops is None else flops * tokens,
    )


def _readings(events: Sequence[Any], hardware: Hardware) -> dict[str, tuple[float, ...]]:
    """Return the readings by the names that rules use, without empty ones."""
    memory, busy = "gpu_memory_bytes", "gpu_utilisation"
    if hardware.device != "cuda":
        memory, busy = "rss_bytes", "cpu_cores"
    cores = hardware.cores if hardware.device != "cuda" else 1.0
    readings = {
        memory: tuple(e["memory_bytes"] for e in events if e["memory_bytes"] is not None),
        busy: tuple(
            e["utilisation"] * cores
            for e in events
            if e["utilisation"] is not None and cores is not None
        ),
    }
    return {name: values for name, values in readings.items() if values}
