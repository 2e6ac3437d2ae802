"""Prints the reports of hotloop doctor on a recipe, a machine or a log.

A report is the requested output, so it goes to stdout. No meaning rests on colour alone, and
70 columns are enough.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from hotloop.cli.terminal.diagnosis import Sheet
from hotloop.cli.terminal.lines import console_of
from hotloop.cli.terminal.train_screen import FILE_WIDTH, Screen
from hotloop.core.progress import ReadyToTrain
from hotloop.core.units import bytes_, count, duration, moment
from hotloop.report import sentences
from hotloop.rules.device.g17_sysmem_spill import why_spills

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from hotloop.core.finding import Diagnosis
    from hotloop.diagnosis.machine import MachineCheck
    from hotloop.diagnosis.recipe import RecipeCheck
    from hotloop.jobs.forecast.time_estimate import Estimate, Timing
    from hotloop.rules.training_log import Logged

__all__ = ["PreflightText"]


class PreflightText:
    """Prints the reports to one console."""

    def __init__(self, console: Console | None = None) -> None:
        self._out = console or console_of(sys.stdout, FILE_WIDTH)
        self._sheet = Sheet(self._out)

    def rehearsal(self, check: RecipeCheck) -> None:
        """Print the report on a recipe."""
        prepared, diagnosis = check.prepared, check.diagnosis
        hardware, name = prepared.hardware, prepared.request.recipe.name
        takes = "its first steps cannot be made"
        if check.estimate is not None:
            low, high = duration(check.estimate.low), duration(check.estimate.high)
            takes = f"about {duration(check.estimate.seconds)} ({low} to {high}) for "
            takes += f"{prepared.steps:,} steps"
        self._begin(f"{name}: {takes} on {hardware.name} ({hardware.device})", diagnosis)
        if check.timing is not None and check.estimate is not None:
            self._time(check.timing, check.estimate, check.prepared.job.loss_unit)
        self._sheet.say()
        Screen(console=self._out).notify(
            ReadyToTrain(
                path=check.folder,
                facts={"run": f"{check.folder} (not made)", **prepared.facts(), **check.facts()},
                choices=[(str(c.use), c.origin, c.reason) for c in prepared.decision.choices],
                effects=check.effects,
            )
        )
        self._end(diagnosis)

    def machine(self, check: MachineCheck) -> None:
        """Print the report on this machine."""
        hardware, free, diagnosis = check.hardware, check.free, check.diagnosis
        self._begin(f"{hardware.name} ({hardware.device})", diagnosis)
        self._sheet.say()
        usable = [id for id, why in check.techniques.items() if why is None]
        not_here = [id for id, why in check.techniques.items() if why is not None]
        cores = "unknown" if hardware.cores is None else f"{hardware.cores:g} for this process"
        rows = {
            "device": _device(check),
            "memory": f"{_size(hardware.memory_bytes)}, {_size(free.memory_bytes)} free",
            "host memory": f"{_size(hardware.host_memory_bytes)}, "
            f"{_size(free.host_memory_bytes)} free",
            "cores": f"{cores}; others use {free.busy_cores:.1f} now",
            **{name: _usable(why) for name, why in check.precisions.items()},
            "techniques": f"{len(usable)} of {len(check.techniques)} usable; not here: "
            f"{', '.join(not_here) or 'none'} (hotloop techniques says why)",
            **{
                f"disk, {name}": f"{bytes_(room)} free at {folder}"
                for name, (folder, room) in check.disks.items()
            },
            "disk speed": _disk_speed(check),
            "/dev/shm": _shm(check),
            "spill risk": why_spills(hardware) or "none: a full GPU raises out of memory",
            "torch build": _build(check),
            "versions": ", ".join(f"{k} {v}" for k, v in hardware.versions.items()),
        }
        if hardware.device == "cpu":
            rows.pop("host memory")
            rows.pop("spill risk")
        self._rows(rows)
        self._end(diagnosis)
        self._sheet.say("\nhotloop doctor RECIPE key=value checks a run, and how long it will take")

    def log(self, logged: Logged) -> None:
        """Print the report on a training log: the wall time that its records do not claim."""
        share = logged.hidden / logged.wall if logged.wall else 0.0
        records = f"{len(logged.intervals) + 1 + logged.breaks:,} records"
        runs = f" in {logged.breaks + 1} runs" if logged.breaks else ""
        claimed = f"{duration(logged.wall - logged.hidden)} of them in {logged.claim!r}"
        summary = (
            f"{duration(logged.wall)} between {records}{runs}, by {logged.moment!r}; {claimed}"
        )
        self._begin(
            f"{logged.path}: {share:.0%} of the wall time is hidden", logged.diagnosis, summary
        )
        self._end(logged.diagnosis)

    def _begin(self, title: str, diagnosis: Diagnosis, about: str | None = None) -> None:
        """Print the verdict in one line, its basis, and the findings."""
        self._sheet.say(title, style="bold")
        self._sheet.say(about or sentences.counted(diagnosis.findings))
        if diagnosis.unstable is not None:
            self._sheet.say(diagnosis.unstable, style="yellow")
        self._sheet.findings(diagnosis.findings)
        self._sheet.machine(diagnosis)

    def _end(self, diagnosis: Diagnosis) -> None:
        self._sheet.not_worth_it(diagnosis)
        self._sheet.lines("not checked", diagnosis.not_checked)

    def _time(self, timing: Timing, time: Estimate, unit: str) -> None:
        work, step = time.work, timing.step
        how = {
            "start": "imports, data, session",
            "compile": "the first, compiling calls" if time.rows["compile"] else "",
            "data wait": f"{work.steps:,} steps",
            "step": f"{work.steps:,} x {moment(step.median)}, n={step.n}",
            "evaluate": f"{work.validations:,} x {work.validation_batches:.4g} micro batches of "
            f"{moment(timing.validation.median)}, n={timing.validation.n}",
            "save": "not measured"
            if timing.save is None
            else f"{time.saves:.0f} x {moment(timing.save)}, n=1",
        }
        self._sheet.title("the run, forecast")
        table = Table(box=None, pad_edge=False)
        table.add_column("")
        for title in ("seconds", "share"):
            table.add_column(title, justify="right")
        table.add_column("measured on this machine", overflow="fold")
        for row, seconds in time.rows.items():
            table.add_row(row, f"{seconds:.2f}", f"{time.share(row):.1%}", how[row])
        span = "from and to: with the first and the third quartile of the steps"
        table.add_row("[bold]all[/]", f"[bold]{time.seconds:.2f}[/]", "100.0%", span)
        self._out.print(table)
        first, last = timing.losses
        self._sheet.say(
            f"{timing.made:,} steps were made, {count(1 / step.median)} a second: "
            f"loss {first:.4f} -> {last:.4f} {unit}"
        )

    def _rows(self, rows: Mapping[str, str]) -> None:
        table = Table(box=None, show_header=False, pad_edge=False)
        table.add_column("", no_wrap=True)
        table.add_column("", overflow="fold")
        for name, text in rows.items():
            table.add_row(f"[bold]{escape(name)}[/]", escape(text))
        self._out.print(table)


def _device(check: MachineCheck) -> str:
    hardware = check.hardware
    facts = [f"{hardware.count} x {hardware.name}" if hardware.count > 1 else hardware.name]
    if hardware.capability is not None:
        facts.append("compute capability " + ".".join(map(str, hardware.capability)))
    peak = hardware.peak_flops("bf16") or hardware.peak_flops("fp16")
    if peak is not None:
        facts.append(f"{count(peak.median)} FLOP/s in 16 bit ({peak.source})")
    return ", ".join(facts)


def _disk_speed(check: MachineCheck) -> str:
    speed, (folder, _) = check.speed, check.disks["cache"]
    rates = {"writes": speed.write, "reads": speed.read}
    texts = [f"{how} {bytes_(rate)}/s" for how, rate in rates.items() if rate is not None]
    if texts:
        texts = [f"{' and '.join(texts)} ({bytes_(speed.size)} at {folder}, measured once)"]
    return "; ".join([*texts, *([f"not measured: {speed.why_not}"] if speed.why_not else [])])


def _shm(check: MachineCheck) -> str:
    free = check.free
    if free.shm_bytes is None:
        return "none here"
    return f"{bytes_(free.shm_bytes)}, {_size(free.shm_free_bytes)} free"


def _build(check: MachineCheck) -> str:
    build, capability = check.build, check.hardware.capability
    if build.cuda is None:
        return f"ROCm {build.hip}" if build.hip else "without CUDA"
    text = f"CUDA {build.cuda} for {', '.join(build.arches) or 'unknown GPUs'}"
    if capability is None:
        return text
    return text + ("; this GPU is not among them" if build.why_not(capability) else "; fits")


def _size(size: int | None) -> str:
    return "unknown" if size is None else bytes_(size)


def _usable(why: str | None) -> str:
    return "usable" if why is None else f"not here: {why}"
