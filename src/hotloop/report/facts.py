"""What a report knows of a run: read once from its folder, as frozen values. Unknown is None."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError, PlanError
from hotloop.core.hardware import DTYPES, Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.storage.rank_logs import ranks_of
from hotloop.core.storage.rundir import RunDir
from hotloop.report.history import Rate, RunHistory, history, rates

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.core.plan import Plan
    from hotloop.core.storage.rank_logs import RankBalance
    from hotloop.report.history import Step

__all__ = ["Facts", "TechniqueRow", "read_facts"]

LAGGED = "lagged-loss-read"  # where it is in effect, only whole log intervals can be timed
MOST_SOURCES = 20  # files that are listed by name
MOST_STEPS = 40_000  # events of steps that are kept of a log


@dataclass(frozen=True, slots=True, kw_only=True)
class TechniqueRow:
    """A technique of the plan and what came of it. Unknown is None."""

    name: str  # with its choices
    origin: str | None  # who asked
    reason: str | None
    word: str | None  # in effect, not needed here, refused
    how: str | None  # how it was read back, or why not

    @property
    def id(self) -> str:
        """The name without the choices."""
        return self.name.partition("(")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One run."""

    path: Path  # absolute
    resume_command: str
    recipe: str | None
    status: str | None
    reason: str | None  # of the status
    created: str | None  # UTC, ISO 8601
    planned_steps: int | None
    loss_unit: str | None
    score: str | None  # the figure that the best model has most of; None: nothing says so
    precision: str | None  # dtype of the matrix products
    flops_per_token: float | None  # of the model, forward and backward
    settings: Mapping[str, str]  # values as JSON
    origins: Mapping[str, str]
    about: Mapping[str, str]  # model, data, batch, length, memory: a sentence each
    data: Mapping[str, str]
    hardware: Hardware | None
    plan: Plan | None
    techniques: tuple[TechniqueRow, ...]
    history: RunHistory  # of several ranks what the first of them wrote
    ranks: RankBalance | None  # None: one process made it
    stride: int  # steps between two moments at which the device is known to be done
    rates: Sequence[Rate]  # throughput of all ranks, a reading for each `stride` steps
    gaps: tuple[str, ...]  # what could not be read

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def throughput(self) -> Measurement | None:
        """Tokens per second after the warm-up, a reading for each of `rates`."""
        readings = tuple(rate.tokens_per_s for rate in self.rates if rate.steady)
        return Measurement(unit="tokens/s", readings=readings) if readings else None

    @property
    def wall(self) -> dict[str, float]:
        """Wall time by row over all processes, seconds."""
        rows: dict[str, float] = {}
        for process in self.history.processes:
            for name, seconds in process.rows.items():
                rows[name] = rows.get(name, 0.0) + seconds
        return rows

    @property
    def peak_memory(self) -> float | None:
        """The highest reading, bytes."""
        known = (reading.memory_bytes for reading in self.history.readings)
        return max((memory for memory in known if memory is not None), default=None)

    @property
    def peak_flops(self) -> Measurement | None:
        """FLOP/s of the device in the precision of this run."""
        if self.hardware is None or self.precision not in DTYPES:
            return None
        return self.hardware.peak_flops(self.precision)

    @property
    def mfu(self) -> float | None:
        """Model FLOP/s over the peak of all ranks' devices, 0..1, at the median throughput."""
        speed, peak = self.throughput, self.peak_flops
        if speed is None or peak is None or self.flops_per_token is None or self.shares_device:
            return None
        devices = 1 if self.ranks is None else self.ranks.world
        return speed.median * self.flops_per_token / (devices * peak.median)

    @property
    def shares_device(self) -> bool:
        """Whether ranks share one device, so that nobody knows what the peak of all of them is."""
        return self.ranks is not None and (self.hardware is None or self.hardware.device != "cuda")

    @property
    def best(self) -> tuple[float, int] | None:
        """The lowest validation loss and its step."""
        return min(((each.loss, each.step) for each in self.history.validations), default=None)

    @property
    def judged_by(self) -> str | None:
        """The figure of the validations that the best model has most of; None: it is the loss."""
        metric = self.score or self.settings.get("metric", "")
        is_there = any(metric in each.figures for each in self.history.validations)
        return metric if is_there else None

    @property
    def best_score(self) -> tuple[float, int] | None:
        """The highest value of `judged_by`, and its first step."""
        name = self.judged_by
        if name is None:
            return None
        scored = [each for each in self.history.validations if name in each.figures]
        best = max(scored, key=lambda each: each.figures[name])
        return best.figures[name], best.step


def read_facts(path: Path) -> Facts:
    """Read a run folder.

    Raises UsageError when it is none, DataError when its record or its events are damaged. A plan
    or a description of the hardware that cannot be read is a gap.
    """
    run = RunDir.open(path)
    record, gaps = run.read(), []
    hardware = plan = None
    try:
        hardware = Hardware.from_json(record.get("hardware"))
    except DataError as error:
        gaps.append(f"the hardware of this run cannot be read: {error}")
    try:
        plan = run.plan()
    except (DataError, PlanError) as error:
        gaps.append(f"the plan of this run cannot be read: {error}")
    settings, techniques = _flat(record.get("config")), _techniques(plan, record)
    past, stride = history(run.events(void=True, most=MOST_STEPS)), _stride(techniques, settings)
    ranks = ranks_of(run, record)
    return Facts(
        path=path.absolute(),
        resume_command=RunDir(path.absolute()).resume_command,
        recipe=_text(record.get("recipe")),
        status=_text(record.get("status")),
        reason=_text(record.get("reason")),
        created=_text(record.get("created")),
        planned_steps=_whole(record.get("steps")),
        loss_unit=_text(record.get("loss_unit")),
        score=_text(record.get("judged_by")),
        precision=_text(record.get("precision")),
        flops_per_token=_positive(record.get("flops_per_token")),
        settings=settings,
        origins=_flat(record.get("origins")),
        about=_flat(record.get("facts")),
        data=_data(record.get("data")),
        hardware=hardware,
        plan=plan,
        techniques=techniques,
        history=past,
        ranks=ranks,
        stride=stride,
        rates=rates(_of_all(past.steps, ranks), stride=stride),
        gaps=tuple(gaps),
    )


def _of_all(made: Sequence[Step], ranks: RankBalance | None) -> Sequence[Step]:
    """Return steps with the tokens of all ranks; of several ranks those that all of them wrote."""
    if ranks is None:
        return made
    return [
        replace(step, trace=replace(step.trace, tokens=ranks.tokens[step.trace.step]))
        for step in made
        if step.trace.step in ranks.tokens
    ]


def _stride(techniques: Sequence[TechniqueRow], settings: Mapping[str, str]) -> int:
    lagged = any(each.id == LAGGED and each.word == "in effect" for each in techniques)
    every = settings.get("training.log_every", "")
    return max(1, int(every)) if lagged and re.fullmatch(r"[0-9]{1,9}", every) else 1


def _techniques(plan: Plan | None, record: Mapping[str, object]) -> tuple[TechniqueRow, ...]:
    """Return a row for each technique that was planned, asked for or put in effect."""
    effects = {_id(row.get("technique")): row for row in _rows(record.get("effects"))}
    choices = {_id(row.get("what")): row for row in _rows(record.get("choices"))}
    planned = {use.id: str(use) for use in plan.techniques} if plan else {}
    found = []
    for id in {**planned, **choices, **effects}:
        effect, choice = effects.get(id, {}), choices.get(id, {})
        name = _text(effect.get("technique")) or planned.get(id) or _text(choice.get("what")) or id
        found.append(
            TechniqueRow(
                name=name,
                origin=_text(choice.get("origin")) or _text(effect.get("origin")),
                reason=_text(choice.get("reason")),
                word=_text(effect.get("word")),
                how=_text(effect.get("how")),
            )
        )
    return tuple(sorted(found, key=attrgetter("name")))


def _id(name: object) -> str:
    return str(name).partition("(")[0]


def _data(about: object) -> dict[str, str]:
    """Return the data's facts, the sources a line each."""
    if not isinstance(about, Mapping):
        return {}
    rows = _rows(about.get("sources"))
    shown = {f"source {row.get('name')}": _source(row) for row in rows[:MOST_SOURCES]}
    if len(rows) > MOST_SOURCES:
        shown["more sources"] = f"{len(rows) - MOST_SOURCES:,}"
    rest = {key: value for key, value in about.items() if key not in ("sources", "schema")}
    return {**shown, **{str(key).replace("_", " "): _counted(rest[key]) for key in rest}}


def _source(row: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {_counted(value)}" for key, value in row.items() if key != "name")


def _counted(value: object) -> str:
    if value == []:
        return "none"
    return f"{value:,}" if type(value) is int else _said(value)


def _rows(value: object) -> list[Mapping[str, object]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _flat(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): _said(item) for key, item in value.items()}


def _said(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _positive(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e300:
        return None
    return float(value)
