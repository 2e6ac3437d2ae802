"""Writes the record of a monitor as readable JSON: figures first, then a line for each sample.

Format history: schema 1 (2026-11) first.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from hotloop.core.codec import to_json
from hotloop.core.storage.files import write_file
from hotloop.monitor.sample import EXPECTED
from hotloop.monitor.series import headline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotloop.monitor.assess import Assessment
    from hotloop.monitor.run import RunReading
    from hotloop.monitor.sample import MachineSample, ReadingSampler
    from hotloop.monitor.series import SampleHistory

__all__ = ["SCHEMA", "About", "document", "save", "unknown"]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The subject of a record."""

    watched: str  # the machine, a process, a run
    began: str  # UTC, ISO 8601
    seconds: float  # of watching
    interval: float  # seconds
    ended: str | None  # why watching ended; None: it goes on
    cpu_percent: float  # cost of sampling, of one core


def document(
    about: About, history: SampleHistory, sampler: ReadingSampler, assessment: Assessment
) -> dict[str, object]:
    """Return the record as JSON values, with the unknown readings and the reasons."""
    stats = history.stats()
    last = history.samples[-1] if history.samples else None
    return {
        "schema": SCHEMA,
        "kind": "monitor",
        "watched": about.watched,
        "began": about.began,
        "seconds": round(about.seconds, 3),
        "interval_s": about.interval,
        "samples_taken": history.seen,
        "ended": about.ended,
        "sampling_cpu_percent_of_one_core": round(about.cpu_percent, 3),
        "assessment": to_json(assessment),
        "run": None if last is None or last.run is None else _run(last.run),
        "run_phase_percent": {
            name: round(100 * n / history.seen, 1) for name, n in history.phases.items()
        },
        "trouble": None if last is None else last.trouble,
        "summary": {
            name: {
                "mean": _short(s.mean),
                "min": _short(s.low),
                "max": _short(s.high),
                "p95": _short(s.p95),
                "n": s.n,
            }
            for name, s in stats.items()
            if headline(name)
        },
        "unknown": unknown(sampler, set(stats)),
        "machine": {
            "host": sampler.machine.to_json(),
            "gpus": [
                {"index": c.index, "name": c.name, "memory_bytes": c.memory_bytes}
                for c in sampler.gpus
            ],
        },
        "samples": [_sample(sample) for sample in history.samples],
    }


def unknown(sampler: ReadingSampler, known: set[str]) -> dict[str, str]:
    """Return the readings that are unknown, with the reasons."""
    reasons = {} if sampler.no_gpus is None else {"gpu": sampler.no_gpus}
    for gpu in sampler.gpus:
        for name in EXPECTED:
            if (key := f"gpu{gpu.index}_{name}") not in known:
                reasons[key] = "the GPU, or this version of its driver, does not tell"
    if "disk_read_bytes_per_s" not in known:
        reasons["disk"] = "the system shows no disk here"
    return reasons


def save(path: Path, value: Mapping[str, object]) -> None:
    """Write a record atomically. Raises WriteError."""
    samples = value["samples"]
    assert isinstance(samples, list)
    text = json.dumps({**value, "samples": []}, indent=1, allow_nan=False)
    lines = ",\n".join(f"  {json.dumps(sample, allow_nan=False)}" for sample in samples)
    empty = '"samples": []'
    assert text.endswith(f"{empty}\n}}")
    whole = text.removesuffix(f"{empty}\n}}") + f'"samples": [\n{lines}\n ]\n}}\n'
    write_file(path, whole)


def _sample(sample: MachineSample) -> dict[str, object]:
    value: dict[str, object] = {"at_s": round(sample.at, 3)}
    value |= {name: _short(number) for name, number in sample.values.items()}
    for gpu, reasons in sample.slowed.items():
        value |= {f"gpu{gpu}_slowed_by": list(reasons)} if reasons else {}
    for gpu, held in sample.held.items():
        value[f"gpu{gpu}_held_by"] = [asdict(holder) for holder in held]
    if sample.run is not None and sample.run.running:
        value |= {"run_phase": sample.run.phase, "run_idle": sample.run.idle}
    return value


def _run(run: RunReading) -> dict[str, object]:
    speed, cost = run.pace, run.cost
    value: dict[str, object] = {
        "name": run.path.name,
        "what": run.what,
        "state": run.state,
        "why": run.why,
        "phase": run.phase,
        "idle": run.idle,
        "step": run.step,
        "steps": run.steps,
        "loss": run.loss,
        "left_s": run.seconds_left,
        "silent_s": run.silent,
        "saved_step": run.saved_step,
        "saved_ago_s": run.saved_ago,
        "precision": None if cost is None else cost.precision,
        "flop_per_token": None if cost is None else cost.flops_per_token,
        "ceiling_flop_per_s": None if cost is None else cost.ceiling,
    }
    if speed is not None:
        value["steps_per_s"], value["tokens_per_s"] = speed.steps_per_s, speed.tokens_per_s
        value["step_share_percent"] = {k: round(100 * v, 2) for k, v in speed.shares.items()}
        value["of_the_last_steps"] = speed.of_steps
    return {
        name: _short(number) if isinstance(number, float) else number
        for name, number in value.items()
    }


def _short(number: float) -> float:
    """Round a number to four significant digits, or to an integer from 1000 on."""
    return round(number) if abs(number) >= 1000 else float(f"{number:.4g}")
