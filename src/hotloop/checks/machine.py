"""Checks of the machine: what stands between a run and what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.core.units import bytes_

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.hardware import Hardware

__all__ = ["busy_cores", "little_disk", "shared_card", "wrong_device"]

BUSY = 0.5  # cores that others use: less is the noise of a desktop
TAKEN = 0.2  # of the card's memory that others hold
LITTLE_DISK = 10 << 30  # bytes: some checkpoints of a 100 M parameter model with its optimizer


def wrong_device(hardware: Hardware) -> Finding | None:
    """Tell that a card is there which this torch cannot use."""
    driver = hardware.versions.get("driver")
    if hardware.device != "cpu" or driver is None:
        return None
    return Finding(
        rule="G26 wrong_device",
        claim=f"there is an NVIDIA driver ({driver}), but torch "
        f"{hardware.versions.get('torch', '')} sees no card: the CPU is used",
        severity="critical",
        remedies=[
            Remedy(
                text="install a CUDA build of torch (https://pytorch.org/get-started/locally/), "
                "or look at nvidia-smi and CUDA_VISIBLE_DEVICES",
                effort="option",
            )
        ],
    )


def busy_cores(hardware: Hardware, busy: float) -> Finding | None:
    """Tell that other processes compute here; `busy` is how many cores they use."""
    if busy < BUSY:
        return None
    cores = "unknown" if hardware.cores is None else f"{hardware.cores:g}"
    return Finding(
        rule="H12 cpu_starved",
        claim=f"other processes keep {busy:.1f} cores busy (this one may use {cores}): times "
        "measured now hold only while they do",
        severity="warn" if hardware.device == "cpu" else "note",
        remedies=[
            Remedy(text="look at top, and measure again when they are done", effort="option")
        ],
    )


def shared_card(hardware: Hardware, free_bytes: int | None) -> Finding | None:
    """Tell that other processes hold a part of the card's memory."""
    have = hardware.memory_bytes
    if hardware.device != "cuda" or have is None or free_bytes is None:
        return None
    if (taken := have - free_bytes) < TAKEN * have:
        return None
    return Finding(
        rule="G23 gpu_shared",
        claim=f"{bytes_(taken)} of the card's {bytes_(have)} are taken by other processes",
        severity="warn",
        remedies=[Remedy(text="look at nvidia-smi", effort="option")],
    )


def little_disk(folder: Path, free_bytes: int) -> Finding | None:
    """Tell that runs have little room."""
    if free_bytes >= LITTLE_DISK:
        return None
    return Finding(
        rule="R3 disk_room",
        claim=f"{bytes_(free_bytes)} are free at {folder}: checkpoints may not fit",
        severity="note",
        remedies=[Remedy(text="free some space, or put runs elsewhere: --out", effort="option")],
    )
