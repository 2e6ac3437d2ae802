"""Formats numbers for people: those of core.units, and the progress line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.progress import Progress

__all__ = ["bytes_", "count", "duration", "progress_line"]


def progress_line(progress: Progress, width: int) -> str:
    """Return the progress line; the least important fields are dropped if it is too wide."""
    unknown = "unknown"
    memory = unknown if progress.memory_bytes is None else bytes_(progress.memory_bytes)
    busy = unknown if progress.utilisation is None else f"{progress.utilisation:.0%}"
    left = unknown if progress.seconds_left is None else duration(progress.seconds_left)
    if progress.steady_from is not None:
        left = f"compiling: judge speed from step {progress.steady_from}"
    # Rates are the least important if there are losses of parts.
    rates = 8 if progress.parts else 0
    part_losses = " ".join(f"{name} {loss:.3g}" for name, loss in _short(progress.parts).items())
    fields = [  # (text, rank: the highest goes first)
        (f"step {progress.step}/{progress.steps}", 0),
        (f"loss {progress.loss:.4f}", 1),
        *([(part_losses, 4)] if part_losses else []),
        (f"lr {progress.learning_rate:.1e}", 7),
        (f"{progress.steps_per_s:.3g} it/s", 2 + rates),
        (f"{count(progress.samples_per_s)} samples/s", 8 + rates),
        (f"{count(progress.tokens_per_s)} tokens/s", 4 + rates),
        (f"mem {memory}", 5),
        (f"util {busy}", 6),
        (f"left {left}", 3),
    ]
    while len(line := "  ".join(text for text, _ in fields)) >= width and len(fields) > 1:
        fields.remove(max(fields, key=lambda field: field[1]))
    return line


def _short(losses: Mapping[str, float]) -> dict[str, float]:
    """Return losses by the shortest prefixes of their names that are unique, 3 letters or more."""
    letters = 3
    while len({name[:letters] for name in losses}) < len(losses):
        letters += 1
    return {name[:letters]: loss for name, loss in losses.items()}
