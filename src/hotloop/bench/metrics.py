"""Names the figures of a rung and their units, for tables, targets and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hotloop.core.errors import UsageError, did_you_mean
from hotloop.core.units import bytes_, count, duration

__all__ = ["ALIASES", "METRICS", "Metric", "metric"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure."""

    name: str
    what: str  # with its unit
    unit: str = ""  # how a value is written: "" a number, "B" bytes, "s" seconds, "%" a share, "C"

    def shown(self, value: float) -> str:
        """Return a value as people read it."""
        match self.unit:
            case "B":
                return bytes_(value)
            case "s":
                return duration(value)
            case "%":
                return f"{value:.1%}"
            case "C":
                return f"{value:.0f} C"
        return count(value)


METRICS: Final = {
    entry.name: entry
    for entry in (
        Metric(name="it_per_s", what="optimizer steps a second"),
        Metric(name="samples_per_s", what="samples a second"),
        Metric(name="tokens_per_s", what="tokens a second, all"),
        Metric(name="targets_per_s", what="tokens a second that carry loss"),
        Metric(name="gpu_util", what="share of time in which a kernel ran (NVML)", unit="%"),
        Metric(name="cpu_util", what="share of the cores that the process kept busy", unit="%"),
        Metric(name="mfu", what="model FLOP/s over the device's peak", unit="%"),
        Metric(name="of_ceiling", what="model FLOP/s over the measured product rate", unit="%"),
        Metric(name="vram", what="peak memory of the GPU, bytes", unit="B"),
        Metric(name="ram", what="peak memory of the processes, bytes", unit="B"),
        Metric(name="temperature_c", what="highest temperature of the GPU, C", unit="C"),
        Metric(name="start_s", what="seconds until step 1, without compiling", unit="s"),
        Metric(name="compile_s", what="seconds of compiling", unit="s"),
        Metric(name="epoch_s", what="seconds of an epoch, validated and saved", unit="s"),
    )
}
ALIASES: Final = {
    "gpu_utilisation": "gpu_util",
    "gpu_utilization": "gpu_util",
    "loss_tokens_per_s": "targets_per_s",
    "memory": "vram",
    "steps_per_s": "it_per_s",
}


def metric(name: str) -> Metric:
    """Return a figure by name; raise UsageError for an unknown name."""
    figure = METRICS.get(ALIASES.get(name, name))
    if figure is None:
        near = did_you_mean(name, [*METRICS, *ALIASES])
        raise UsageError(f"no figure is called {name!r}{near} (there are: {', '.join(METRICS)})")
    return figure
