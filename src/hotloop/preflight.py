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
    from hotloop.recipes.sections import Training
    from hotloop.training.feed import Feed

__all__ = [
    "check_disk",
    "check_feed",
    "long_validation",
    "memory_sentence",
    "nearest_folder",
    "room_needed",
]

HEAD_ROOM = 0.9  # of the memory may be forecast: workspaces and fragments are not in it
STEP_OVER_FORWARD = 3  # forward and backward in forwards: the backward has twice the products
LONG_VALIDATION = 0.2  # of the training between two validations


def check_feed(feed: Feed) -> None:
    """Raise DataError when an epoch would have no step."""
    if feed.steps_per_epoch < 1:
        raise DataError(
            f"{len(feed.samples)} samples are fewer than one batch of {feed.batch_size}, and "
            "data.drop_last=true leaves nothing; lower training.batch_size or use more data"
        )


def check_disk(folder: Path, checkpoint_bytes: int, keep: int, disk: Disk) -> None:
    """Prove that the folder can be written, and that keep+2 checkpoints have room.

    Checkpoints that are there already count. WriteError.
    """
    make_folder(folder)
    probe_folder(folder, disk=disk)
    there = sum(stored.bytes or 0 for stored in listing(folder))
    needed, free = room_needed(checkpoint_bytes, keep) - there, free_bytes(folder)
    if free < needed:
        raise WriteError(
            f"{folder} has {bytes_(free)} free, but needs {bytes_(needed)} for {keep + 2} "
            f"checkpoints of {bytes_(checkpoint_bytes)} (training.keep={keep}, the best and one in "
            "the making); free some space, name another folder with --out, or lower training.keep"
        )


def nearest_folder(path: Path) -> Path:
    """Return the folder, or the nearest one above it that is there: its disk is the same."""
    whole = path.absolute()
    return next(folder for folder in (whole, *whole.parents) if folder.is_dir())


def room_needed(checkpoint_bytes: int, keep: int) -> int:
    """Return the bytes of disk a run takes: one checkpoint is in the making, and one the best."""
    return (keep + 2) * checkpoint_bytes


def long_validation(training: Training, feed: Feed, validation: int) -> str | None:
    """Return why validating costs a large part of the training between two validations, or None.

    `validation` is the number of samples there are. What is counted are forward passes.
    """
    every = training.eval_every_steps or feed.steps_per_epoch * (training.eval_every_epochs or 1)
    micro = training.batch_size // training.accumulation
    read = validation if training.eval_batches is None else training.eval_batches * micro
    share = min(read, validation) / (STEP_OVER_FORWARD * every * feed.batch_size)
    if share <= LONG_VALIDATION:
        return None
    fewer = max(1, int(LONG_VALIDATION * STEP_OVER_FORWARD * every * feed.batch_size / micro))
    return (
        f"each validation will cost about {share:.0%} of the training between two of them; "
        f"training.eval_batches={fewer} makes that {LONG_VALIDATION:.0%}"
    )


def memory_sentence(forecast: Forecast, hardware: Hardware) -> tuple[str, bool]:
    """Return (what the forecast says, whether it fits with head-room)."""
    peak, have = forecast.peak_bytes, hardware.memory_bytes
    text = (
        f"{bytes_(peak)} forecast (parameters {bytes_(forecast.parameters_bytes)}, "
        f"optimizer {bytes_(forecast.optimizer_bytes)}, "
        f"activations {bytes_(forecast.activations_bytes)}"
        + (f"; kept from {forecast.made})" if forecast.made else ")")
    )
    if have is None:
        return f"{text}; the memory of {hardware.name} is unknown", True
    fits = peak <= HEAD_ROOM * have
    return f"{text} of {bytes_(have)}" + ("" if fits else ": too much"), fits
