"""What findings.json keeps of a run so that a later run can be compared with it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence  # noqa: TC003 - the codec reads the annotations
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hotloop.core.case.case import ONCE
from hotloop.core.codec import from_json
from hotloop.core.errors import DataError
from hotloop.core.finding import SCHEMA, Kind, Severity
from hotloop.core.hardware import Hardware  # noqa: TC001 - the codec reads the annotations
from hotloop.core.measurement import Measurement

if TYPE_CHECKING:
    from hotloop.core.case.case import Case

__all__ = ["ComparedFinding", "RecordedRun", "RunFacts", "facts_of", "recorded"]

_ASIDE = ("not_worth_it", "refuted", "machine")  # lists of findings.json beside its `findings`


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """The section `run` of findings.json: what figures depend on, and figures of the whole run.

    Units are seconds and bytes; unknown is None.
    """

    script: str  # without its folder
    arguments: tuple[str, ...]
    hardware: Hardware
    world: int = 1
    threads: int | None = None  # of torch
    workers: int = 0  # processes of the training loaders
    machine_cores: int | None = None  # that the operating system counts
    own_cores: float | None = None  # that the processes of the run kept busy, median
    other_cores: float | None = None  # that other processes kept busy
    reference: Mapping[str, float] = field(default_factory=dict)  # seconds of fixed work
    steps: tuple[int, ...] = ()  # the number of each reading of `step_time`
    samples: float | None = None  # of an optimizer step
    tokens: float | None = None  # of an optimizer step, padding included
    start: float | None = None  # to the first step: start, imports, data, compiling
    peak_bytes: float | None = None
    peak_of: str = "process"  # the resident memory of the process, or the "GPU" memory of tensors
    waits: float | None = None  # of the host for the device, or where there is none places for it
    counted_steps: int = 0  # optimizer steps over which `waits` were counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFinding:
    """A finding as far as a comparison needs it."""

    rule: str
    claim: str
    severity: Severity
    kind: Kind | None
    share: float | None
    asked_for: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run, as findings.json keeps it."""

    name: str  # of the file or folder, or "now"
    facts: RunFacts
    step_time: Measurement | None
    findings: Sequence[ComparedFinding]
    known: Sequence[str]  # rules that said something anywhere in the report, as often as they did

    @property
    def times(self) -> dict[int, float]:
        """Return the seconds of each timed step by its number."""
        readings = () if self.step_time is None else self.step_time.readings
        return dict(zip(self.facts.steps, readings, strict=True))


def facts_of(case: Case) -> RunFacts:
    """Return the facts of an observed run."""
    process, readings, steps = case.process, case.readings, case.steps
    on_gpu = process.allocator.get("peak")
    peak = on_gpu or max(readings.get("rss_bytes", ()), default=None)
    cores = readings.get("cpu_cores", ())
    parts = steps.backwards or 1.0
    return RunFacts(
        script=Path(case.script).name,
        arguments=case.arguments,
        hardware=case.hardware,
        world=process.world,
        threads=process.threads,
        workers=sum(loader.workers for loader in case.training_loaders),
        machine_cores=process.machine_cores,
        own_cores=statistics.median(cores) if cores else None,
        other_cores=process.other_cores,
        reference=process.reference,
        steps=steps.numbers if len(steps.numbers) == len(steps.wall) else (),
        samples=None if steps.samples is None else steps.samples * parts,
        tokens=None if steps.tokens is None else steps.tokens * parts,
        start=sum(map(case.row, ONCE)) - case.row("after training") if steps.count else None,
        peak_bytes=peak,
        peak_of="GPU" if on_gpu else "process",
        waits=sum(sync.per_step for sync in case.syncs) if steps.count else None,
        counted_steps=steps.count,
    )


def recorded(raw: Any, *, name: str) -> RecordedRun:
    """Return the run of findings.json as `to_json` made it; errors name it `name`."""
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA or "findings" not in raw:
        raise DataError(
            f"{name} is no findings.json of schema {SCHEMA}: expected the file that hotloop doctor "
            f"--json writes, or a run folder; got {raw!r:.60}"
        )
    if "run" not in raw:
        raise DataError(
            f"{name} cannot be a baseline: an older version of hotloop wrote it, or it is not of a "
            "script. It lacks the machine, the arguments and the load of its run. Write it again: "
            "hotloop doctor --json FILE train.py"
        )
    facts = from_json(RunFacts, raw["run"], place=f"{name}: run")
    time = raw.get("step_time")
    step_time = None if time is None else Measurement.from_json(time, place=f"{name}: step_time")
    if step_time is not None and len(facts.steps) != step_time.n:
        raise DataError(
            f"{name}: run.steps has {len(facts.steps)} numbers for the {step_time.n} readings of "
            "step_time: was the file edited?"
        )
    findings = [_finding(entry, f"{name}: findings") for entry in raw["findings"]]
    aside = [_finding(e, f"{name}: {part}") for part in _ASIDE for e in raw.get(part, ())]
    causes = [line.partition(":")[0] for e in raw["findings"] for line in e.get("because", ())]
    return RecordedRun(
        name=name,
        facts=facts,
        step_time=step_time,
        findings=findings,
        known=[*(finding.rule for finding in [*findings, *aside]), *causes],
    )


def _finding(entry: Any, place: str) -> ComparedFinding:
    fits = isinstance(entry, dict) and all(isinstance(entry.get(k), str) for k in ("rule", "claim"))
    if not fits or entry.get("severity") not in get_args(Severity):
        raise DataError(f"{place}: expected a finding, got {entry!r:.60}")
    names = ("rule", "claim", "severity", "kind", "share")
    fields = {name: entry.get(name) for name in names}
    return from_json(ComparedFinding, {**fields, "asked_for": bool(entry.get("asked_for"))})
