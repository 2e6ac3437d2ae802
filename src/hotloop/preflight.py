"""What is checked before step 1, so that a run of days does not fail at hour three."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.errors import DataError, WriteError
from hotloop.core.files import Disk, free_bytes, make_folder, probe_folder
from hotloop.core.units import bytes_
from hotloop.training.store import listing

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.hardware import Hardware
    from hotloop.probe.memory import Forecast
    from hotloop.training.feed import Feed

__all__ = ["check_disk", "check_feed", "memory_sentence"]

HEAD_ROOM = 0.9  # of the memory may be forecast: workspaces and fragments are not in it


def check_feed(feed: Feed) -> None:
    """Raise DataError when an epoch would have no step."""
    if feed.steps_per_epoch < 1:
        raise DataError(
            f"{len(feed.samples)} samples are fewer than one batch of {feed.batch_size}, and "
            "data.drop_last=true leaves nothing; lower training.batch_size or use more data"
        )


def check_disk(folder: Path, checkpoint_bytes: int, keep: int, disk: Disk) -> None:
    """Prove that the folder can be written, and that keep+2 checkpoints have room.

    One more than is kept is on disk while it is written, and one is the best; those that are
    there already count. WriteError.
    """
    make_folder(folder)
    probe_folder(folder, disk=disk)
    there = sum(stored.bytes or 0 for stored in listing(folder))
    needed, free = (keep + 2) * checkpoint_bytes - there, free_bytes(folder)
    if free < needed:
        raise WriteError(
            f"{folder} has {bytes_(free)} free, but needs {bytes_(needed)} for {keep + 2} "
            f"checkpoints of {bytes_(checkpoint_bytes)} (training.keep={keep}, the best and one in "
            "the making); free some space, name another folder with --out, or lower training.keep"
        )


def memory_sentence(forecast: Forecast, hardware: Hardware) -> tuple[str, bool]:
    """Return (what the forecast says, whether it fits with head-room)."""
    peak, have = forecast.peak_bytes, hardware.memory_bytes
    text = (
        f"{bytes_(peak)} forecast (parameters {bytes_(forecast.parameters_bytes)}, "
        f"optimizer {bytes_(forecast.optimizer_bytes)}, "
        f"activations {bytes_(forecast.activations_bytes)})"
    )
    if have is None:
        return f"{text}; the memory of {hardware.name} is unknown", True
    fits = peak <= HEAD_ROOM * have
    return f"{text} of {bytes_(have)}" + ("" if fits else ": too much"), fits
