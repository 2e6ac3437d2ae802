"""Groups readings into charts, which the page and the picture draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.monitor.sample import MachineSample

__all__ = ["Plot", "plots"]

MIB, GIB = float(1 << 20), float(1 << 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One chart: at most two curves over the seconds of watching."""

    id: str
    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]  # label -> (seconds, value)
    top: float | None = None  # value that the axis must reach


def plots(samples: Sequence[MachineSample], gpus: Sequence[int]) -> list[Plot]:
    """Return the charts that have at least one reading."""
    candidates = [
        *_run(samples),
        *(p for gpu in gpus for p in _gpu(samples, gpu)),
        *_host(samples),
    ]
    return [plot for plot in candidates if plot.lines]


def _run(samples: Sequence[MachineSample]) -> Iterator[Plot]:
    yield _plot(samples, "tokens", "Throughput", "tokens/s", {"tokens": "run_tokens_per_s"})
    waits = {"waiting for data": "run_data_wait_percent"}
    title = "Part of a step spent waiting for data"
    yield _plot(samples, "waits", title, "per cent", waits, top=100.0)


def _gpu(samples: Sequence[MachineSample], gpu: int) -> Iterator[Plot]:
    def plot(id: str, title: str, unit: str, names: Mapping[str, str], **more: float) -> Plot:
        keys = {label: f"gpu{gpu}_{name}" for label, name in names.items()}
        return _plot(samples, f"gpu{gpu}-{id}", f"GPU {gpu}: {title}", unit, keys, **more)

    yield plot("busy", "in use", "per cent", {"in use": "utilisation_percent"}, top=100.0)
    yield plot("power", "power", "W", {"power": "power_w", "limit": "power_limit_w"})
    yield plot("clock", "clock", "MHz", {"clock": "clock_mhz", "highest": "max_clock_mhz"})
    yield plot("heat", "temperature", "\N{DEGREE SIGN}C", {"temperature": "temperature_c"})
    yield plot("memory", "memory", "GiB", {"in use": "memory_bytes"}, scale=GIB)
    sent = {"sent": "pcie_sent_bytes_per_s", "received": "pcie_received_bytes_per_s"}
    yield plot("bus", "bus", "MiB/s", sent, scale=MIB)


def _host(samples: Sequence[MachineSample]) -> Iterator[Plot]:
    cores = {"all cores": "cpu_percent", "busiest core": "cpu_busiest_core_percent"}
    yield _plot(samples, "cpu", "Cores in use", "per cent", cores, top=100.0)
    used = {"processes": "process_cpu_cores"}
    yield _plot(samples, "process", "Cores the watched processes use", "cores", used)
    memory = {"host": "ram_used_bytes", "watched processes": "process_rss_bytes"}
    yield _plot(samples, "ram", "Memory", "GiB", memory, scale=GIB)
    disk = {"read": "disk_read_bytes_per_s", "written": "disk_written_bytes_per_s"}
    yield _plot(samples, "disk", "Disk", "MiB/s", disk, scale=MIB)


def _plot(
    samples: Sequence[MachineSample],
    id: str,
    title: str,
    unit: str,
    names: Mapping[str, str],
    *,
    scale: float = 1.0,
    top: float | None = None,
) -> Plot:
    lines = {
        label: [(s.at, s.values[name] / scale) for s in samples if name in s.values]
        for label, name in names.items()
    }
    known = {label: points for label, points in lines.items() if points}
    return Plot(id=id, title=title, unit=unit, lines=known, top=top)
