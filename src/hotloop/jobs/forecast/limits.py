"""Checks before step 1, so that a run of days does not fail at hour three."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from hotloop.core.errors import DataError, WriteError
from hotloop.core.hardware import HEAD_ROOM
from hotloop.core.storage.files import (
    Disk,
    check_folder,
    free_bytes,
    make_folder,
    probe_folder,
    remove_folder,
    write_folder,
)
from hotloop.core.units import bytes_, many, moment
from hotloop.engine.checkpoint.folders import listing
from hotloop.engine.checkpoint_policy import BEST_BUDGET
from hotloop.machine.clock import clock
from hotloop.machine.memory_spill import spills

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hotloop.config.common import Training
    from hotloop.core.hardware import Hardware
    from hotloop.jobs.forecast.memory_forecast import Forecast
    from hotloop.session.accumulation_windows import AccumulationWindows

__all__ = [
    "budget",
    "check_disk",
    "check_feed",
    "long_validation",
    "memory_sentence",
    "nearest_folder",
    "room_needed",
    "save_cost",
    "save_seconds",
    "saving",
    "too_much",
]

STEP_OVER_FORWARD = 3  # cost of forward and backward in forwards: the backward has twice the FLOPs
LONG_VALIDATION = 0.2  # of the training between two validations
TRIAL, BLOCK = 16 << 20, 1 << 20  # bytes of the largest file written to time a save; of one block


def check_feed(feed: AccumulationWindows) -> None:
    """Raise DataError if an epoch would have no optimizer step."""
    if feed.steps_per_epoch < 1:
        raise DataError(
            f"{len(feed.samples)} samples are fewer than one batch of {feed.batch_size}, and "
            "data.drop_last=true leaves nothing; lower training.batch_size or use more data"
        )


def check_disk(folder: Path, checkpoint_bytes: int, keep: int, disk: Disk) -> None:
    """Raise WriteError unless the folder is writable and has room for keep+2 checkpoints.

    The space of existing checkpoints counts as available.
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
    """Return the folder or its nearest existing parent, which lies on the same disk."""
    whole = path.absolute()
    return next(folder for folder in (whole, *whole.parents) if folder.is_dir())


def room_needed(checkpoint_bytes: int, keep: int) -> int:
    """Return the bytes on disk of `keep` checkpoints, the best one and one being written."""
    return (keep + 2) * checkpoint_bytes


def long_validation(training: Training, feed: AccumulationWindows, validation: int) -> str | None:
    """Return a warning if one validation costs more than 20 % of the training before it, or None.

    `validation` is the number of validation samples. Costs are counted in forward passes.
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


def saving(training: Training) -> str:
    """Return a sentence that says when checkpoints are saved, and so how much a crash can cost."""
    steps = training.save_every_steps
    often = [] if steps is None else [f"every {steps} steps"]
    often += [f"every {training.save_every:g} s"]
    return f"{', '.join(['after step 1', *often])}, and at the end: a crash loses no more than that"


def save_seconds(
    folder: Path, size: int, *, kept: int, now: Callable[[], float] = clock
) -> float | None:
    """Return the seconds until a checkpoint of `size` bytes is durable in `folder`, from a trial.

    Times above 16 MiB are extrapolated. Each save also verifies the `kept` stored checkpoints.
    Returns None if the trial cannot be written. `now` returns seconds; tests replace it.
    """
    try:
        seconds = _tried(folder, min(size, TRIAL), kept, now)
        if size <= TRIAL:
            return seconds
        empty = _tried(folder, 0, kept, now)
    except (WriteError, OSError):
        return None
    return empty + max(0.0, seconds - empty) * size / TRIAL


def _tried(folder: Path, size: int, kept: int, now: Callable[[], float]) -> float:
    path = folder / f".tmp-save-speed-{secrets.token_hex(4)}"  # a name that `files.sweep` removes
    block = secrets.token_bytes(BLOCK)  # random: it cannot be compressed away
    whole, rest = divmod(size, BLOCK)
    few = {name: [b""] for name in ("optimizer", "rng", "state")}  # each is synced
    began = now()
    write_folder(path, {"model": [*[block] * whole, block[:rest]], **few})
    try:
        written = now()
        check_folder(path)
        return written - began + (kept + 1) * (now() - written)
    finally:
        remove_folder(path)


def save_cost(training: Training, steps: int, *, size: int, seconds: float) -> str:
    """Return a sentence on the cost of saving, at `size` bytes and `seconds` per checkpoint."""
    saves = training.fixed_saves(steps)
    by_time = min(1.0, seconds / training.save_every)
    bests = "and each new best at once"
    if training.best_cooldown != 0:
        apart = training.best_cooldown or seconds / BEST_BUDGET
        bests = f"of new bests at most {min(1.0, seconds / apart):.0%}"
    return (
        f"{bytes_(size)} each, durable after {moment(seconds)}: {many(saves, 'save')} by steps "
        f"x {moment(seconds)} = {moment(saves * seconds)}; by time at most {by_time:.1%} of the "
        f"run, {bests}; {training.keep} are kept, and the best"
    )


def too_much(hardware: Hardware) -> str:
    """Return a sentence that says what to expect if the forecast does not fit."""
    if spills(hardware):
        return (
            "expect it to spill: the driver puts what does not fit into the host's memory, without "
            "an error, and steps take many times as long. Raise training.accumulation, or forbid "
            "it in the NVIDIA control panel (CUDA - Sysmem Fallback Policy)"
        )
    return "expect an out of memory; hotloop then halves the micro batch and goes on"


def budget(forecast: Forecast) -> dict[str, int]:
    """Return the parts of the peak, {name: bytes}; empty parts are left out."""
    weights = forecast.parameters_bytes - forecast.buffers_bytes
    adapters = forecast.trained_bytes if forecast.trained_bytes < weights else 0
    logits = forecast.logits_bytes or 0
    sizes = {
        "weights": weights - adapters,
        "adapters": adapters,  # or any other trained weights beside frozen ones
        "gradients": forecast.gradients_bytes,
        "optimizer": forecast.optimizer_bytes,
        "activations": forecast.activations_bytes - logits,
        "logits": logits,
        "buffers": forecast.buffers_bytes,
    }
    return {name: size for name, size in sizes.items() if size}


def memory_sentence(forecast: Forecast, hardware: Hardware) -> tuple[str, bool]:
    """Return (the forecast as a sentence, whether it fits with head-room)."""
    peak, have = forecast.peak_bytes, hardware.memory_bytes
    sizes = ", ".join(f"{name} {bytes_(size)}" for name, size in budget(forecast).items())
    origin = f"; kept from {forecast.made}" if forecast.made else ""
    text = f"{bytes_(peak)} forecast ({sizes}{origin})"
    if have is None:
        return f"{text}; the memory of {hardware.name} is unknown", True
    fits = peak <= HEAD_ROOM * have
    return f"{text} of {bytes_(have)}" + ("" if fits else ": too much"), fits
