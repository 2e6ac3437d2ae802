"""Checks of the machine: what stands between a run and what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.finding import Finding, Remedy
from hotloop.core.units import bytes_

if TYPE_CHECKING:
    from pathlib import Path

    from hotloop.core.hardware import Hardware
    from hotloop.machine.disk_rate import DiskSpeed
    from hotloop.machine.free_resources import Free
    from hotloop.machine.torch_build import TorchBuild

__all__ = [
    "busy_cores",
    "little_disk",
    "little_memory",
    "shared_card",
    "slow_disk",
    "small_shm",
    "spill_risk",
    "untested_versions",
    "why_spills",
    "wrong_build",
    "wrong_device",
]

BUSY = 0.5  # cores that others use: less is the noise of a desktop
TAKEN = 0.2  # of the card's memory that others hold
LITTLE_DISK = 10 << 30  # bytes: some checkpoints of a 100 M parameter model with its optimizer
LITTLE_MEMORY = 2 << 30  # bytes: torch and its libraries take about a quarter of it
SLOW_DISK = 100e6  # bytes/s: a checkpoint of 1 GB then takes 10 s
SMALL_SHM, TINY_SHM = 1 << 30, 256 << 20  # bytes; Docker gives 64 MiB
TORCH, PYTHON, NEXT_PYTHON = (2, 9), (3, 11), (3, 15)  # pyproject.toml
# The driver a CUDA version needs: https://docs.nvidia.com/deploy/cuda-compatibility/ (2026-11).
DRIVERS = {11: 450, 12: 525, 13: 580}
INSTALL = "https://pytorch.org/get-started/locally/"


def wrong_device(hardware: Hardware, build: TorchBuild) -> Finding | None:
    """Tell that a card is there which this torch cannot use."""
    driver = hardware.versions.get("driver")
    if hardware.device != "cpu" or build.card_here is None:
        return None
    if build.cuda is None:
        remedy = f"install a CUDA build of torch ({INSTALL})"
    elif driver and _first(driver) < (need := DRIVERS.get(_first(build.cuda), 0)):
        remedy = f"CUDA {build.cuda} needs a driver from {need} on, this one is {driver}: update it"
    else:
        remedy = "look at nvidia-smi and CUDA_VISIBLE_DEVICES"
    return Finding(
        rule="G26 wrong_device",
        claim=f"an NVIDIA card seems to be here ({build.card_here}), but torch "
        f"{hardware.versions.get('torch', '')} sees no card: the CPU is used",
        severity="critical",
        remedies=[Remedy(text=remedy, effort="option")],
    )


def wrong_build(hardware: Hardware, build: TorchBuild) -> Finding | None:
    """Tell that the installed torch has no kernels for this card."""
    capability = hardware.capability
    why = build.why_not(capability) if capability is not None else None
    if why is None:
        return None
    return Finding(
        rule="R13 wrong_build",
        claim=f"torch {hardware.versions.get('torch', '')} does not fit the card: {why}",
        severity="critical",
        remedies=[Remedy(text=f"install a build for this card ({INSTALL})", effort="option")],
    )


def untested_versions(hardware: Hardware) -> Finding | None:
    """Tell that Python or torch is outside the range hotloop is tested with."""
    python, torch = (_version(hardware.versions.get(name)) for name in ("python", "torch"))
    said = []
    if torch is not None and torch < TORCH:
        said.append(f"torch {hardware.versions['torch']} is older than {_dotted(TORCH)}")
    if python is not None and not PYTHON <= python < NEXT_PYTHON:
        said.append(f"Python {hardware.versions['python']} is not {_dotted(PYTHON)} to 3.14")
    if not said:
        return None
    return Finding(
        rule="R12 untested_versions",
        claim=f"{' and '.join(said)}: hotloop is not tested with it",
        severity="warn",
        remedies=[Remedy(text="pip install -U torch, in a new environment", effort="option")],
    )


def spill_risk(hardware: Hardware) -> Finding | None:
    """Tell that a full card does not end the run here, but slows it down."""
    why = why_spills(hardware)
    if why is None:
        return None
    return Finding(
        rule="G17 sysmem_spill",
        claim=f"a run that needs more memory than the card has will not stop but crawl: {why}",
        severity="note",
        remedies=[
            Remedy(
                text='NVIDIA control panel: "CUDA - Sysmem Fallback Policy" to "Prefer No Sysmem '
                'Fallback"',
                effort="option",
            ),
            Remedy(text="hotloop train ... training.memory_fraction=0.9 stops before that"),
        ],
    )


def why_spills(hardware: Hardware) -> str | None:
    """Return why the driver may put the card's memory into the host's, or None: it does not.

    Source: https://nvidia.custhelp.com/app/answers/detail/a_id/5490 (2026-11).
    """
    system = hardware.versions.get("platform", "").lower()
    if hardware.device != "cuda" or not any(n in system for n in ("windows", "microsoft", "wsl")):
        return None
    return "the Windows driver, under WSL too, puts the rest into the host's memory"


def small_shm(free: Free) -> Finding | None:
    """Tell that loader processes have little memory to hand over batches in."""
    size = free.shm_bytes
    if size is None or size >= SMALL_SHM:
        return None
    return Finding(
        rule="D21 shm",
        claim=f"/dev/shm has {bytes_(size)}: worker processes hand over batches in it, and end "
        'with "bus error" or "no space left" when it is full',
        severity="warn" if size < TINY_SHM else "note",
        remedies=[
            Remedy(text="docker run --shm-size=8g, or --ipc=host", effort="option"),
            Remedy(
                text='torch.multiprocessing.set_sharing_strategy("file_system")',
                effort="code edit",
            ),
        ],
    )


def little_memory(hardware: Hardware, free: Free) -> Finding | None:
    """Tell that the host has little memory left."""
    if free.host_memory_bytes >= LITTLE_MEMORY:
        return None
    whole = hardware.host_memory_bytes
    of = f" of {bytes_(whole)}" if whole is not None else ""
    return Finding(
        rule="R4 little_memory",
        claim=f"{bytes_(free.host_memory_bytes)}{of} of host memory are free",
        severity="warn",
        remedies=[Remedy(text="end what else runs, or use fewer workers", effort="option")],
    )


def slow_disk(folder: Path, speed: DiskSpeed) -> Finding | None:
    """Tell that checkpoints and data will wait for the disk."""
    known = {"write": speed.write, "read": speed.read}
    slow = {how: rate for how, rate in known.items() if rate is not None and rate < SLOW_DISK}
    if not slow:
        return None
    said = " and ".join(f"{how}s {bytes_(rate)}/s" for how, rate in slow.items())
    return Finding(
        rule="R5 slow_disk",
        claim=f"the disk {said} at {folder} ({bytes_(speed.size)}, measured once)",
        severity="note",
        remedies=[Remedy(text="a local disk for data and runs: --out", effort="option")],
    )


def _first(version: str) -> int:
    number = version.partition(".")[0]
    return int(number) if number.isdecimal() else 0


def _version(text: str | None) -> tuple[int, int] | None:
    numbers = (text or "").split("+")[0].split(".")[:2]
    if len(numbers) < 2 or not all(number.isdecimal() for number in numbers):
        return None
    return int(numbers[0]), int(numbers[1])


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


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
