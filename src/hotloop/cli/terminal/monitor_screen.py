"""Prints the output of hotloop monitor: a screen that is redrawn in place, or plain lines.

A screen has rows of a label and a text that wraps; rows that exceed the terminal's height are
dropped by rank. No meaning rests on colour alone, and "unknown" is written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from hotloop.core.units import bytes_, count, duration
from hotloop.monitor.series import headline, name_of, shown
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import Console

    from hotloop.machine.nvml import GpuIdentity
    from hotloop.monitor.assess import Assessment
    from hotloop.monitor.run import RunReading, StepRate
    from hotloop.monitor.sample import Held, MachineSample, ReadingSampler
    from hotloop.monitor.series import SeriesStats

__all__ = ["line", "screen", "summary"]

LABEL, NARROW = 8, 70  # columns of the labels; columns below which the summary is a list
UNKNOWN = "unknown"
MOST_HOLDERS, MOST_CORES, MOST_NOTES = 3, 64, 3
SPARK = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row. Rows with the highest rank are dropped first if the screen is too low."""

    label: str
    text: Text
    rank: int = 0


def screen(
    sample: MachineSample,
    sampler: ReadingSampler,
    assessment: Assessment,
    console: Console,
    *,
    title: str,
) -> Table:
    """Return the screen, no higher than the terminal."""
    rows = [_Row(label="", text=Text(f"hotloop monitor: {title}", "bold"), rank=7)]
    if sampler.run is not None:
        rows += _run(sample, assessment)
    rows += _gpus(sample, sampler)
    rows += _host(sample, sampler, console)
    rows += [
        _Row(label="note", text=Text(visible(str(note)), "yellow"), rank=4 + n)
        for n, note in enumerate(assessment.notes[:MOST_NOTES])
    ]
    while len(rows) > 1 and _height(rows, console) >= console.height:
        rows.remove(max(rows, key=lambda row: row.rank))
    return _grid(rows)


def _grid(rows: Sequence[_Row]) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(Text(row.label, "bold"), row.text)
    return grid


def _height(rows: Sequence[_Row], console: Console) -> int:
    return len(console.render_lines(_grid(rows), pad=False))


def _run(sample: MachineSample, assessment: Assessment) -> Iterator[_Row]:
    run = sample.run
    if run is None:
        yield _Row(label="run", text=Text(f"{UNKNOWN}: {visible(sample.trouble or '')}", "yellow"))
        return
    text = Text(_doing(run), "green" if run.idle is None and run.running else "yellow")
    yield _Row(label="run", text=text.append(f"  {_progress(run)}", "default"))
    why = run.idle if run.running else run.why
    if why is not None:
        yield _Row(label="why idle" if run.running else "why", text=Text(visible(why)))
    if run.pace is not None:
        rates = f"{count(run.pace.steps_per_s)} steps/s  {_tokens(run, run.pace)}"
        if assessment.share is not None:
            rates += f"  {assessment.share:.0%} of the ceiling ({assessment.throughput})"
        loss = "" if run.loss is None else f"  loss {run.loss:.4f}"
        yield _Row(label="rate", text=Text(rates + loss), rank=1)
        if any(run.pace.shares.values()):
            shares = (f"{name} {share:.0%}" for name, share in run.pace.shares.items())
            of = f"of the last {run.pace.of_steps} steps"
            yield _Row(label="step", text=Text(f"{'  '.join(shares)}  {of}"), rank=1)
    if run.saved_step is not None and run.saved_ago is not None:
        ago = f"checkpoint of step {run.saved_step:,}, {duration(run.saved_ago)} ago"
        yield _Row(label="saved", text=Text(ago), rank=3)


def _tokens(run: RunReading, pace: StepRate) -> str:
    whose = f" (rank 0 of {run.ranks})" if run.ranks > 1 else ""
    return f"{count(pace.tokens_per_s)} tokens/s{whose}"


def _doing(run: RunReading) -> str:
    return run.phase or run.state


def _progress(run: RunReading) -> str:
    of = "" if run.steps is None else f" of {run.steps:,}"
    left = "" if run.seconds_left is None else f"  left {duration(run.seconds_left)}"
    return f"step {run.step:,}{of}{left}"


def _gpus(sample: MachineSample, sampler: ReadingSampler) -> Iterator[_Row]:
    if not sampler.gpus:
        yield _Row(label="GPU", text=Text(f"{UNKNOWN}: {sampler.no_gpus}"), rank=2)
    for gpu in sampler.gpus:
        yield from _gpu(sample, gpu)


def _gpu(sample: MachineSample, gpu: GpuIdentity) -> Iterator[_Row]:
    def get(name: str) -> float | None:
        return sample.values.get(f"gpu{gpu.index}_{name}")

    def reading(name: str) -> str:
        value = get(name)
        return UNKNOWN if value is None else shown(name, value)

    watts, limit = get("power_w"), get("power_limit_w")
    power = "" if watts is None or not limit else f" ({watts / limit:.0%})"
    text = (
        f"in use {reading('utilisation_percent')}  power {reading('power_w')} of "
        f"{reading('power_limit_w')}{power}  {reading('temperature_c')}"
    )
    yield _Row(label=f"GPU {gpu.index}", text=Text(text))
    reasons = sample.slowed.get(gpu.index)
    slowed = f"  slowed by {', '.join(reasons)}" if reasons else ""
    clock = f"clock {reading('clock_mhz')} of {reading('max_clock_mhz')}"
    yield _Row(label="", text=Text(clock + slowed, "yellow" if reasons else ""), rank=2)
    memory = UNKNOWN if gpu.memory_bytes is None else bytes_(gpu.memory_bytes)
    whose = _holders(sample.held.get(gpu.index))
    yield _Row(label="", text=Text(f"memory {reading('memory_bytes')} of {memory}{whose}"), rank=1)
    bus = f"PCIe {_plain(get('pcie_generation'))} x{_plain(get('pcie_width'))}"
    sent, got = reading("pcie_sent_bytes_per_s"), reading("pcie_received_bytes_per_s")
    yield _Row(label="", text=Text(f"{bus}  sent {sent}  received {got}"), rank=4)


def _plain(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f}"


def _holders(held: Sequence[Held] | None) -> str:
    if held is None:
        return "; by whom is unknown"
    texts = [
        f"{visible(holder.name or 'process')} {holder.pid}{' (watched)' if holder.watched else ''} "
        f"{UNKNOWN if holder.memory_bytes is None else bytes_(holder.memory_bytes)}"
        for holder in held[:MOST_HOLDERS]
    ]
    if len(held) > MOST_HOLDERS:
        texts.append(f"{len(held) - MOST_HOLDERS} more")
    return f": {', '.join(texts)}" if texts else ", no process computes"


def _host(sample: MachineSample, sampler: ReadingSampler, console: Console) -> Iterator[_Row]:
    values, machine = sample.values, sampler.machine

    def reading(name: str) -> str:
        return shown(name, values[name]) if name in values else UNKNOWN

    cores = [v for name, v in values.items() if name.startswith("cpu_core")]
    usable = UNKNOWN if machine.cores is None else f"{machine.cores:g}"
    spark = f"  {_spark(cores, console)}" if 0 < len(cores) <= MOST_CORES else ""
    text = f"{reading('cpu_percent')} of {len(cores) or UNKNOWN} cores, {usable} usable{spark}"
    if values.get("cpu_throttled_percent"):
        text += f"  held back by its quota {reading('cpu_throttled_percent')}"
    yield _Row(label="cpu", text=Text(f"{text}  busiest {reading('cpu_busiest_core_percent')}"))
    if sampler.tree is not None:
        n = values.get("process_count", 0.0)
        many = f"{n:.0f} process{'es' * (n != 1)}"
        text = f"{reading('process_cpu_cores')}  {reading('process_rss_bytes')} in {many}"
        yield _Row(label="process", text=Text(f"{text}, id {sampler.tree.pid}"), rank=1)
    memory = machine.host_memory_bytes
    all_ = UNKNOWN if memory is None else bytes_(memory)
    yield _Row(label="ram", text=Text(f"{reading('ram_used_bytes')} of {all_}"), rank=2)
    read, written = reading("disk_read_bytes_per_s"), reading("disk_written_bytes_per_s")
    yield _Row(label="disk", text=Text(f"read {read}  written {written}"), rank=5)


def _spark(cores: Sequence[float], console: Console) -> str:
    if console.options.ascii_only:
        return " ".join(f"{core:.0f}" for core in cores)
    top = len(SPARK) - 1
    return "".join(SPARK[min(top, int(core / 100 * len(SPARK)))] for core in cores)


def line(sample: MachineSample, sampler: ReadingSampler) -> str:
    """Return a sample as one plain line."""
    run, fields = sample.run, [duration(sample.at)]
    if sampler.run is not None:
        fields.append(UNKNOWN if run is None else f"{_doing(run)} {_progress(run)}")
        if run is not None and run.idle is not None:
            fields.append(f"({visible(run.idle)})")
        if run is not None and run.pace is not None:
            fields.append(_tokens(run, run.pace))
    for gpu in sampler.gpus:
        names = ("utilisation_percent", "power_w", "temperature_c", "memory_bytes")
        keys = [f"gpu{gpu.index}_{name}" for name in names]
        readings = [shown(key, sample.values[key]) for key in keys if key in sample.values]
        fields.append(f"GPU {gpu.index} {' '.join(readings) or UNKNOWN}")
    for word, key in (
        ("cpu", "cpu_percent"),
        ("process", "process_cpu_cores"),
        ("rss", "process_rss_bytes"),
        ("ram", "ram_used_bytes"),
    ):
        if key in sample.values:
            fields.append(f"{word} {shown(key, sample.values[key])}")
    return "  ".join(fields)


def summary(
    stats: Mapping[str, SeriesStats],
    assessment: Assessment,
    console: Console,
    *,
    ended: str,
    unknown: Mapping[str, str],
) -> None:
    """Print mean, lowest, highest and 95th percentile of each reading, and the assessment."""
    console.print(Text(f"ended: {visible(ended)}", "bold"))
    known = {name: one for name, one in stats.items() if headline(name)}
    if console.width < NARROW:
        for name, s in known.items():
            console.print(Text(name_of(name), "bold"))
            console.print(Text(f"  mean {shown(name, s.mean)}  p95 {shown(name, s.p95)}"))
            console.print(Text(f"  min {shown(name, s.low)}  max {shown(name, s.high)}"))
    else:
        table = Table(box=None, pad_edge=False)
        table.add_column("reading")
        for title in ("mean", "min", "max", "p95", "n"):
            table.add_column(title, justify="right")
        for name, s in known.items():
            figures = (shown(name, v) for v in (s.mean, s.low, s.high, s.p95))
            table.add_row(name_of(name), *figures, f"{s.n:,}")
        console.print(table)
    for name, why in unknown.items():
        console.print(Text(f"{name_of(name)} is unknown: {visible(why)}"))
    console.print(Text("throughput: ").append(assessment.throughput, "bold"))
    console.print(Text(f"  {assessment.because}"))
    for note in assessment.notes:
        console.print(Text(f"{visible(note.what)}: ", "yellow").append(visible(note.because), ""))
