"""Assesses the samples: throughput as a share of the measured ceiling, and notable readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hotloop.core.hardware import Hardware
    from hotloop.monitor.run import RunReading
    from hotloop.monitor.series import SampleHistory, SeriesStats

__all__ = ["Assessment", "MonitorNote", "assess"]

# Shares of the FLOP/s that this device reaches in matrix products. The first and the last are those
# of the doctor's rule G25 (below 30 % something is left, half is what well-tuned training reaches).
BOUNDS = ((0.30, "problem"), (0.40, "acceptable"), (0.50, "good"))
BEST = "excellent"
WHY = (
    "share of the FLOP/s measured here in large matrix products: below 30 % problem, below 40 % "
    "acceptable, below 50 % good, from 50 % on excellent; 30 % and 50 % are those of rule G25 "
    "(hotloop explain G25), 40 % stands between"
)
COOL_C, LOW_POWER, WORKING = 60.0, 0.40, 0.50  # of the power limit
BUSY, IDLE = 90.0, 50.0  # per cent of the time
OFTEN = 0.10  # of the samples
OTHERS = 0.5  # cores
FULL = 0.95  # of a memory
STEPPING = ("training", "waiting for data")
SIZES = ((1e12, "TFLOP"), (1e9, "GFLOP"), (1e6, "MFLOP"))
WAITS = 10.0  # per cent of the step, D1's warning


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorNote:
    """A notable reading, the evidence, and its threshold."""

    what: str
    because: str
    threshold: str

    def __str__(self) -> str:
        return f"{self.what}: {self.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """The assessment of the watched time."""

    throughput: str  # problem, acceptable, good, excellent, unknown
    because: str
    thresholds: str
    share: float | None = None  # of the ceiling, 0..1
    notes: Sequence[MonitorNote] = ()


def assess(
    stats: Mapping[str, SeriesStats],
    history: SampleHistory,
    *,
    run: RunReading | None,
    machine: Hardware,
    gpus: Mapping[int, int | None],
) -> Assessment:
    """Assess the watched time. `gpus` maps the index of each GPU to its memory in bytes."""
    share, because = _share(stats, run)
    word = "unknown"
    if share is not None:
        word = next((word for bound, word in BOUNDS if share < bound), BEST)
    notes = [
        *(note for index, memory in gpus.items() for note in _gpu(stats, history, index, memory)),
        *_host(stats, machine),
        *_run(stats, history, run),
    ]
    return Assessment(
        throughput=word, because=because, thresholds=WHY, share=share, notes=tuple(notes)
    )


def _share(stats: Mapping[str, SeriesStats], run: RunReading | None) -> tuple[float | None, str]:
    """Return the share of the ceiling with its arithmetic, or None with the reason."""
    if run is None:
        return None, "only a run of hotloop train says how many tokens it makes"
    speed, cost = stats.get("run_tokens_per_s"), run.cost
    if speed is None:
        return None, "no two steps were seen while it ran"
    if cost is None or cost.flops_per_token is None:
        return None, "the run does not say what a token costs"
    if cost.ceiling is None:
        how = "train with --measure-peak to have it measured"
        return None, f"no ceiling was measured for {cost.precision} on this machine: {how}"
    reached = speed.mean * cost.flops_per_token
    return reached / cost.ceiling, (
        f"{count(speed.mean)} tokens/s x {_flop(cost.flops_per_token)} = {_flop(reached)}/s, "
        f"{reached / cost.ceiling:.0%} of the {_flop(cost.ceiling)}/s measured in "
        f"{cost.precision} matrix products"
    )


def _flop(number: float) -> str:
    size, unit = next((s for s in SIZES if number >= s[0]), SIZES[-1])
    return f"{number / size:.3g} {unit}"


def _gpu(
    stats: Mapping[str, SeriesStats], history: SampleHistory, index: int, memory: int | None
) -> Iterator[MonitorNote]:
    def mean(name: str) -> float | None:
        known = stats.get(f"gpu{index}_{name}")
        return None if known is None else known.mean

    busy, watts, limit = mean("utilisation_percent"), mean("power_w"), mean("power_limit_w")
    degrees, used = mean("temperature_c"), stats.get(f"gpu{index}_memory_bytes")
    power = None if watts is None or not limit else watts / limit
    gpu = f"GPU {index}"
    if power is not None and degrees is not None and power < LOW_POWER and degrees < COOL_C:
        yield MonitorNote(
            what=f"{gpu} is cool and draws little",
            because=f"{degrees:.0f} \N{DEGREE SIGN}C at {watts:.0f} of {limit:.0f} W "
            f"({power:.0%} of its limit): evidence that it is mostly idle, whatever its "
            "utilisation says",
            threshold=f"below {LOW_POWER:.0%} of the power limit and {COOL_C:.0f} degrees",
        )
    elif power is not None and busy is not None and busy >= BUSY and power < WORKING:
        yield MonitorNote(
            what=f"{gpu} is busy without doing much",
            because=f"some kernel runs {busy:.0f} % of the time, at {power:.0%} of its power: "
            "small kernels, or waiting for its memory (hotloop explain G22)",
            threshold=f"utilisation from {BUSY:.0f} % on below {WORKING:.0%} of the power limit",
        )
    if busy is not None and busy < IDLE:
        core = stats.get("cpu_busiest_core_percent")
        full = core is not None and core.mean >= BUSY
        yield MonitorNote(
            what=f"{gpu} waits",
            because=f"no kernel runs {100 - busy:.0f} % of the time; "
            + ("one core is full meanwhile: the host is too slow for it; " if full else "")
            + "hotloop doctor finds for what it waits",
            threshold=f"utilisation below {IDLE:.0f} %; a core from {BUSY:.0f} % on is full",
        )
    yield from _link(stats, index)
    for (number, why), n in history.slowed.items():
        if number == index and n >= OFTEN * history.seen:
            capped = why == "sw_power_cap"
            yield MonitorNote(
                what=f"{gpu} {'is at its power limit' if capped else 'slows itself down'}",
                because=f"{why}, in {n} of {history.seen} samples"
                + (", as a busy GPU often is" if capped else "")
                + " (hotloop explain G21)",
                threshold=f"in {OFTEN:.0%} of the samples or more",
            )
    if used is not None and memory and used.high >= FULL * memory:
        yield MonitorNote(
            what=f"{gpu} is nearly out of memory",
            because=f"{bytes_(used.high)} of {bytes_(memory)} were in use",
            threshold=f"{FULL:.0%} of the memory",
        )


def _link(stats: Mapping[str, SeriesStats], index: int) -> Iterator[MonitorNote]:
    """Compare the best PCIe link seen with the best possible one, as an idle GPU lowers it."""
    names = ("pcie_generation", "pcie_width", "pcie_generation_max", "pcie_width_max")
    best = [stats[key].high for name in names if (key := f"gpu{index}_{name}") in stats]
    if len(best) == len(names) and (best[0] < best[2] or best[1] < best[3]):
        yield MonitorNote(
            what=f"the bus of GPU {index} runs below its speed",
            because=f"PCIe {best[0]:.0f} x{best[1]:.0f}, it could be {best[2]:.0f} "
            f"x{best[3]:.0f} (hotloop explain G24)",
            threshold="the highest that was seen below the highest that GPU and slot can",
        )


def _host(stats: Mapping[str, SeriesStats], machine: Hardware) -> Iterator[MonitorNote]:
    cpu, most = stats.get("cpu_percent"), stats.get("cpu_throttled_percent")
    ram, memory = stats.get("ram_used_bytes"), machine.host_memory_bytes
    cores = sum(name.startswith("cpu_core") for name in stats)
    own = stats.get("process_cpu_cores")
    if cpu is not None and cpu.mean >= BUSY:
        busy = cpu.mean / 100 * cores
        if own is None or busy - own.mean >= OTHERS:
            less = "" if own is None else f", the watched processes use {own.mean:.1f} of them"
            yield MonitorNote(
                what="the cores are full",
                because=f"{busy:.1f} of {cores} are busy{less}: whatever needs one, such as a "
                "loader, takes it from another",
                threshold=f"{BUSY:.0f} % on average, {OTHERS} cores of it by other processes",
            )
    if most is not None and most.mean >= 100 * OFTEN:
        yield MonitorNote(
            what="the container's CPU quota is used up",
            because=f"processes were held back in {most.mean:.0f} % of its periods: fewer threads "
            "or workers, or a larger quota",
            threshold=f"in {OFTEN:.0%} of the periods or more",
        )
    if ram is not None and memory and ram.high >= FULL * memory:
        yield MonitorNote(
            what="the host is nearly out of memory",
            because=f"{bytes_(ram.high)} of {bytes_(memory)} were in use",
            threshold=f"{FULL:.0%} of the memory",
        )


def _run(
    stats: Mapping[str, SeriesStats], history: SampleHistory, run: RunReading | None
) -> Iterator[MonitorNote]:
    if run is not None and run.ranks > 1:
        yield MonitorNote(
            what=f"speed and phases are those of rank 0, one of {run.ranks}",
            because="each rank counts its own tokens and its own time "
            "(hotloop report and hotloop doctor compare all of them)",
            threshold="more than one rank",
        )
    waits = stats.get("run_data_wait_percent")
    if waits is not None and waits.mean >= WAITS:
        yield MonitorNote(
            what="the loop waits for data",
            because=f"{waits.mean:.0f} % of the step (hotloop explain D1)",
            threshold=f"{WAITS:.0f} % of the step, as rule D1 warns",
        )
    for phase, n in history.phases.items():
        if phase not in STEPPING and n >= OFTEN * history.seen:
            yield MonitorNote(
                what=f"{n / history.seen:.0%} of the time was no training",
                because=f"it was {phase}, in {n} of {history.seen} samples",
                threshold=f"in {OFTEN:.0%} of the samples or more",
            )
