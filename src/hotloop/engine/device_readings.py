"""Reads memory and utilisation during a run, and warns if memory spills."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.progress import Note
from hotloop.core.units import bytes_, many
from hotloop.machine.detect import readings
from hotloop.machine.memory_spill import spilled

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.hardware import Hardware
    from hotloop.core.progress import Notify, Readings

__all__ = ["idle_told", "peak_told", "reader", "watched"]


def reader(hardware: Hardware) -> Callable[[], Readings]:
    """Return a function that reads memory (bytes) and utilisation (0..1).

    They are those of the device, or of this process on a CPU.
    """
    device, cores = hardware.device, hardware.cores

    def read() -> Readings:
        now = readings(device)
        if device == "cpu":
            busy = now["cpu_percent"]
            share = None if busy is None or not cores else busy / 100 / cores
            return {"memory_bytes": now["rss_bytes"], "utilisation": share}
        busy = now["device_percent"]
        return {
            "memory_bytes": now["device_bytes"],
            "utilisation": None if busy is None else busy / 100,
        }

    return read


def peak_told(
    hardware: Hardware, forecast: int, now: Callable[[str], Readings] = readings
) -> str | None:
    """Return a sentence on a GPU's peak memory and its `forecast` (bytes); None if unknown."""
    read = now("cuda") if hardware.device == "cuda" else {}
    if not (peak := read.get("device_peak_bytes")):
        return None
    reserved = read.get("device_reserved_peak_bytes")
    held = f"; torch reserved {bytes_(reserved)}" if reserved else ""
    return (
        f"memory: at most {bytes_(peak)} of tensors, {bytes_(forecast)} were forecast "
        f"({forecast / peak - 1:+.0%}){held}"
    )


def idle_told(hardware: Hardware, used_sum: float, count: int, seconds: float) -> str | None:
    """Return a sentence on how long a GPU was idle in `seconds` of steps; None if unknown.

    `used_sum` adds up `count` readings of its use, 0..1. The wall time is the host's: while the
    GPU has work queued, its rows say nothing of the GPU.
    """
    if hardware.device != "cuda" or not count:
        return None
    used = used_sum / count
    return (
        f"the wall time is the host's; the GPU was busy {used:.0%} of the time "
        f"({many(count, 'reading')}), so that it was idle for about {seconds * (1 - used):.3g} s "
        f"of the {seconds:.3g} s of steps"
    )


def watched(
    hardware: Hardware, read: Callable[[], Readings], notify: Notify
) -> Callable[[], Readings]:
    """Return a function that reads as `read` does, and warns once if memory spills to the host."""
    is_told = False

    def look() -> Readings:
        nonlocal is_told
        now = read()
        if not is_told and (why := spilled(hardware, now["memory_bytes"], now["utilisation"])):
            notify(Note(text=why, warning=True))
            is_told = True
        return now

    return look
