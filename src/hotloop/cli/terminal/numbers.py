"""Numbers as people read them: those of core.units, and the progress line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.progress import Progress

__all__ = ["bytes_", "count", "duration", "progress_line"]


def progress_line(at: Progress, width: int) -> str:
    """Return the progress line; the least needed fields go first where the width is short."""
    unknown = "unknown"
    memory = unknown if at.memory_bytes is None else bytes_(at.memory_bytes)
    busy = unknown if at.utilisation is None else f"{at.utilisation:.0%}"
    left = unknown if at.seconds_left is None else duration(at.seconds_left)
    if at.steady_from is not None:
        left = f"compiling: judge speed from step {at.steady_from}"
    # Beside the losses of parts, rates say least.
    rates = 8 if at.parts else 0
    parts = " ".join(f"{name} {loss:.3g}" for name, loss in _short(at.parts).items())
    fields = [  # (text, rank: the highest goes first)
        (f"step {at.step}/{at.steps}", 0),
        (f"loss {at.loss:.4f}", 1),
        *([(parts, 4)] if parts else []),
        (f"lr {at.learning_rate:.1e}", 7),
        (f"{at.steps_per_s:.3g} it/s", 2 + rates),
        (f"{count(at.samples_per_s)} samples/s", 8 + rates),
        (f"{count(at.tokens_per_s)} tokens/s", 4 + rates),
        (f"mem {memory}", 5),
        (f"util {busy}", 6),
        (f"left {left}", 3),
    ]
    while len(line := "  ".join(text for text, _ in fields)) >= width and len(fields) > 1:
        fields.remove(max(fields, key=lambda field: field[1]))
    return line


def _short(parts: Mapping[str, float]) -> dict[str, float]:
    """Return losses by the first letters of their names, as many as tell them apart."""
    letters = 3
    while len({name[:letters] for name in parts}) < len(parts):
        letters += 1
    return {name[:letters]: loss for name, loss in parts.items()}
