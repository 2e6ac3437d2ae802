"""Numbers as people read them: those of core.units, and the progress line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import bytes_, count, duration

if TYPE_CHECKING:
    from hotloop.training.messages import Progress

__all__ = ["bytes_", "count", "duration", "progress_line"]


def progress_line(at: Progress, width: int) -> str:
    """Return the progress line; the least needed fields go first where the width is short."""
    unknown = "unknown"
    memory = unknown if at.memory_bytes is None else bytes_(at.memory_bytes)
    busy = unknown if at.utilisation is None else f"{at.utilisation:.0%}"
    left = unknown if at.seconds_left is None else duration(at.seconds_left)
    if at.steady_from is not None:
        left = f"compiling: judge speed from step {at.steady_from}"
    fields = [  # (text, rank: the highest goes first)
        (f"step {at.step}/{at.steps}", 0),
        (f"loss {at.loss:.4f}", 1),
        (f"lr {at.learning_rate:.1e}", 7),
        (f"{at.steps_per_s:.3g} it/s", 2),
        (f"{count(at.samples_per_s)} samples/s", 8),
        (f"{count(at.tokens_per_s)} tokens/s", 4),
        (f"mem {memory}", 5),
        (f"util {busy}", 6),
        (f"left {left}", 2),
    ]
    fields[2:2] = [(f"{name} {loss:.4f}", 3) for name, loss in at.parts.items()]
    while len(line := "  ".join(text for text, _ in fields)) >= width and len(fields) > 1:
        fields.remove(max(fields, key=lambda field: field[1]))
    return line
