"""What this machine can do for a training run, and what stands in the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.core.env import ENV
from hotloop.core.finding import Diagnosis, ranked
from hotloop.core.hardware import DTYPES
from hotloop.core.plan import Plan
from hotloop.core.storage.files import free_bytes
from hotloop.diagnosis.checks import machine
from hotloop.jobs.forecast.limits import nearest_folder
from hotloop.machine.clock import clock
from hotloop.machine.detect import detect
from hotloop.machine.disk_rate import DiskSpeed, measure_disk
from hotloop.machine.free_resources import Free, free_now
from hotloop.machine.torch_build import TorchBuild, torch_build
from hotloop.rules import judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.hardware import Hardware

__all__ = ["MachineCheck", "look"]

NOT_CHECKED = (
    "speed of the device: nothing was timed there; hotloop doctor RECIPE times its first steps",
    "heat, clocks and the link between card and host",
    "more than one card: hotloop trains on the first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """What was found. A reason stands for what is not usable; None is usable."""

    hardware: Hardware
    free: Free
    precisions: Mapping[str, str | None]  # name -> why not
    techniques: Mapping[str, str | None]  # id -> why not
    disks: Mapping[str, tuple[Path, int]]  # what for -> (folder, bytes free)
    speed: DiskSpeed  # of the cache's disk
    build: TorchBuild
    diagnosis: Diagnosis

    def to_json(self) -> dict[str, object]:
        """Return findings.json, with what the machine has."""
        return {
            **self.diagnosis.to_json(),
            "hardware": self.hardware.to_json(),
            "free": self.free.to_json(),
            "precisions": dict(self.precisions),
            "techniques": dict(self.techniques),
            "disks": {
                name: {"folder": str(folder), "free_bytes": free}
                for name, (folder, free) in self.disks.items()
            },
            "disk_speed": self.speed.to_json(),
            "torch_build": self.build.to_json(),
        }


def look(
    *,
    hardware: Hardware | None = None,
    free: Free | None = None,
    here: Path | None = None,
    speed: DiskSpeed | None = None,
    build: TorchBuild | None = None,
) -> MachineCheck:
    """Look at this machine. All arguments are seams; `here` is the folder runs would go to."""
    began = clock()
    hardware = hardware or detect()
    free = free or free_now(hardware)
    folders = {"runs": nearest_folder(here or Path.cwd()), "cache": nearest_folder(ENV.cache)}
    disks = {name: (folder, free_bytes(folder)) for name, folder in folders.items()}
    speed = speed or measure_disk(folders["cache"])
    build = build or torch_build(driver=hardware.versions.get("driver"))
    found = [
        machine.wrong_device(hardware, build),
        machine.wrong_build(hardware, build),
        machine.untested_versions(hardware),
        machine.spill_risk(hardware),
        machine.small_shm(free),
        machine.little_memory(hardware, free),
        machine.slow_disk(folders["cache"], speed),
        machine.busy_cores(hardware, free.busy_cores),
        machine.shared_card(hardware, free.memory_bytes),
        machine.little_disk(*disks["runs"]),
    ]
    return MachineCheck(
        hardware=hardware,
        free=free,
        precisions={name: _why_no(name, hardware) for name in (*DTYPES, "flash attention")},
        techniques={
            technique.id: technique.blocked(hardware, Plan(micro_batch=1).plus(technique.id))
            for technique in techniques.ALL
        },
        disks=disks,
        speed=speed,
        build=build,
        diagnosis=Diagnosis(
            findings=ranked(judged(finding) for finding in found if finding is not None),
            wall={},
            steps=0,
            step_time=None,
            not_checked=NOT_CHECKED,
            own_time=clock() - began,
        ),
    )


def _why_no(name: str, hardware: Hardware) -> str | None:
    asks = {
        "tf32": hardware.why_no_tf32,
        "bf16": hardware.why_no_bf16,
        "fp16": hardware.why_no_fp16,
        "flash attention": hardware.why_no_flash,
    }
    return asks[name]() if name in asks else None
