"""The facts of a run, read once from its folder as frozen values; None is unknown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError, PlanError
from hotloop.core.events import finite
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

LAGGED = "lagged-loss-read"  # if it is in effect, only whole log intervals can be timed
MOST_SOURCES = 20  # most files listed by name
MOST_STEPS = 40_000  # most step events kept of a log


@dataclass(frozen=True, slots=True, kw_only=True)
class TechniqueRow:
    """A technique of the plan and its outcome. None is unknown."""

    name: str  # with its options
    origin: str | None  # who requested it
    reason: str | None
    word: str | None  # in effect, not needed here, refused
    how: str | None  # how it was read back, or why not

    @property
    def id(self) -> str:
        """The name without the options."""
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
    score: str | None  # the figure that selects the best model (highest wins), or None
    precision: str | None  # dtype of the matrix products
    flops_per_token: float | None  # of the model, forward and backward
    settings: Mapping[str, str]  # values as JSON
    origins: Mapping[str, str]
    about: Mapping[str, str]  # model, data, batch, length, memory: a sentence each
    data: Mapping[str, str]
    hardware: Hardware | None
    plan: Plan | None
    techniques: tuple[TechniqueRow, ...]
    history: RunHistory  # of rank 0, if there are several ranks
    ranks: RankBalance | None  # None: the run had one process
    stride: int  # steps between two moments at which host and device are synchronised
    rates: Sequence[Rate]  # throughput of all ranks, one reading per `stride` steps
    gaps: tuple[str, ...]  # what could not be read

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.path.name

    @property
    def throughput(self) -> Measurement | None:
        """Tokens per second after the warm-up, one reading per entry of `rates`."""
        readings = tuple(rate.tokens_per_s for rate in self.rates if rate.steady)
        return Measurement(unit="tokens/s", readings=readings) if readings else None

    @property
    def wall(self) -> dict[str, float]:
        """Wall time by row, summed over all processes, in seconds."""
        rows: dict[str, float] = {}
        for process in self.history.processes:
            for name, seconds in process.rows.items():
                rows[name] = rows.get(name, 0.0) + seconds
        return rows

    @property
    def peak_memory(self) -> float | None:
        """The highest memory reading, in bytes."""
        known = (reading.memory_bytes for reading in self.history.readings)
        return max((memory for memory in known if memory is not None), default=None)

    @property
    def peak_flops(self) -> Measurement | None:
        """Peak FLOP/s of the device in the precision of this run; None if unknown."""
        if self.hardware is None or self.precision not in DTYPES:
            return None
        return self.hardware.peak_flops(self.precision)

    @property
    def mfu(self) -> float | None:
        """Model FLOP/s at the median throughput over the peak of all devices, 0..1."""
        speed, peak = self.throughput, self.peak_flops
        if speed is None or peak is None or self.flops_per_token is None or self.shares_device:
            return None
        devices = 1 if self.ranks is None else self.ranks.world
        return speed.median * self.flops_per_token / (devices * peak.median)

    @property
    def shares_device(self) -> bool:
        """Whether several ranks may share one device, so that their joint peak is unknown."""
        return self.ranks is not None and (self.hardware is None or self.hardware.device != "cuda")

    @property
    def best(self) -> tuple[float, int] | None:
        """The lowest validation loss and its step."""
        return min(((v.loss, v.step) for v in self.history.validations), default=None)

    @property
    def judged_by(self) -> str | None:
        """The validation figure that selects the best model (highest wins); None: the loss."""
        metric = self.score or self.settings.get("metric", "")
        is_there = any(metric in validation.figures for validation in self.history.validations)
        return metric if is_there else None

    @property
    def best_score(self) -> tuple[float, int] | None:
        """The highest value of `judged_by` and the first step that reached it."""
        name = self.judged_by
        if name is None:
            return None
        scored = [v for v in self.history.validations if name in v.figures]
        best = max(scored, key=lambda v: v.figures[name])
        return best.figures[name], best.step


def read_facts(path: Path) -> Facts:
    """Read a run folder.

    Raises UsageError if the folder is not a run folder, and DataError if its record or its events
    are damaged. An unreadable plan or hardware description is listed in `gaps`.
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
        planned_steps=steps if type(steps := record.get("steps")) is int else None,
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
        rates=rates(_with_all_tokens(past.steps, ranks), stride=stride),
        gaps=tuple(gaps),
    )


def _with_all_tokens(steps: Sequence[Step], ranks: RankBalance | None) -> Sequence[Step]:
    """Return the steps that all ranks logged, with the tokens of all ranks."""
    if ranks is None:
        return steps
    return [
        replace(step, trace=replace(step.trace, tokens=ranks.tokens[step.trace.step]))
        for step in steps
        if step.trace.step in ranks.tokens
    ]


def _stride(techniques: Sequence[TechniqueRow], settings: Mapping[str, str]) -> int:
    lagged = any(row.id == LAGGED and row.word == "in effect" for row in techniques)
    every = settings.get("training.log_every", "")
    return max(1, int(every)) if lagged and re.fullmatch(r"[0-9]{1,9}", every) else 1


def _techniques(plan: Plan | None, record: Mapping[str, object]) -> tuple[TechniqueRow, ...]:
    """Return a row for each technique that was planned, requested or in effect."""
    effects = {_id(row.get("technique")): row for row in _rows(record.get("effects"))}
    choices = {_id(row.get("what")): row for row in _rows(record.get("choices"))}
    planned = {use.id: str(use) for use in plan.techniques} if plan else {}
    rows = []
    for id in {**planned, **choices, **effects}:
        effect, choice = effects.get(id, {}), choices.get(id, {})
        name = _text(effect.get("technique")) or planned.get(id) or _text(choice.get("what")) or id
        rows.append(
            TechniqueRow(
                name=name,
                origin=_text(choice.get("origin")) or _text(effect.get("origin")),
                reason=_text(choice.get("reason")),
                word=_text(effect.get("word")),
                how=_text(effect.get("how")),
            )
        )
    return tuple(sorted(rows, key=attrgetter("name")))


def _id(name: object) -> str:
    return str(name).partition("(")[0]


def _data(about: object) -> dict[str, str]:
    """Return the facts of the data, with one line per source."""
    if not isinstance(about, Mapping):
        return {}
    rows = _rows(about.get("sources"))
    sources = {f"source {row.get('name')}": _source(row) for row in rows[:MOST_SOURCES]}
    if len(rows) > MOST_SOURCES:
        sources["more sources"] = f"{len(rows) - MOST_SOURCES:,}"
    fields = {key: value for key, value in about.items() if key not in ("sources", "schema")}
    return {**sources, **{str(key).replace("_", " "): _counted(fields[key]) for key in fields}}


def _source(row: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {_counted(value)}" for key, value in row.items() if key != "name")


def _counted(value: object) -> str:
    if value == []:
        return "none"
    return f"{value:,}" if type(value) is int else _as_text(value)


def _rows(value: object) -> list[Mapping[str, object]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _flat(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return {str(key): _as_text(item) for key, item in value.items()}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _positive(value: object) -> float | None:
    number = finite(value)
    return number if number is not None and number > 0 else None
