"""Checks the features of this machine for a training run, with reasons for missing ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop import techniques
from hotloop.core.case.case import Case
from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.planned_run import MachineState, PlannedRun
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.codec import to_json
from hotloop.core.env import ENV
from hotloop.core.finding import ranked
from hotloop.core.hardware import DTYPES
from hotloop.core.plan import Plan
from hotloop.core.storage.files import free_bytes
from hotloop.jobs.forecast.limits import nearest_folder
from hotloop.machine.clock import clock
from hotloop.machine.detect import detect
from hotloop.machine.disk_rate import DiskSpeed, measure_disk
from hotloop.machine.free_resources import Free, free_now
from hotloop.machine.torch_build import TorchBuild, torch_build
from hotloop.rules.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.finding import Diagnosis
    from hotloop.core.hardware import Hardware

__all__ = ["MachineCheck", "look", "planned_on"]

NOT_CHECKED = (
    "speed of the device: nothing was timed there; hotloop doctor RECIPE times its first steps",
    "heat, clocks and the link between GPU and host",
    "more than one GPU: hotloop trains on the first",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCheck:
    """The facts about this machine, with the reason why a feature is unusable, or None."""

    hardware: Hardware
    free: Free
    precisions: Mapping[str, str | None]  # name -> why not
    techniques: Mapping[str, str | None]  # id -> why not
    disks: Mapping[str, tuple[Path, int]]  # purpose -> (folder, free bytes)
    speed: DiskSpeed  # of the cache's disk
    build: TorchBuild
    diagnosis: Diagnosis

    def to_json(self) -> dict[str, object]:
        """Return findings.json, with the facts about the machine."""
        return {
            **self.diagnosis.to_json(),
            "hardware": self.hardware.to_json(),
            "free": to_json(self.free),
            "precisions": dict(self.precisions),
            "techniques": dict(self.techniques),
            "disks": {
                name: {"folder": str(folder), "free_bytes": free}
                for name, (folder, free) in self.disks.items()
            },
            "disk_speed": to_json(self.speed),
            "torch_build": to_json(self.build),
        }


def look(
    *,
    hardware: Hardware | None = None,
    free: Free | None = None,
    here: Path | None = None,
    speed: DiskSpeed | None = None,
    build: TorchBuild | None = None,
) -> MachineCheck:
    """Check this machine. All arguments are seams; `here` is the folder that runs would go to."""
    began = clock()
    hardware = hardware or detect()
    free = free or free_now(hardware)
    folders = {"runs": nearest_folder(here or Path.cwd()), "cache": nearest_folder(ENV.cache)}
    disks = {name: (folder, free_bytes(folder)) for name, folder in folders.items()}
    speed = speed or measure_disk(folders["cache"])
    build = build or torch_build(driver=hardware.versions.get("driver"))
    case = planned_on(hardware, free, disks, speed, build)
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
        diagnosis=_of_one_kind(diagnose(replace(case, own_time=clock() - began))),
    )


def _of_one_kind(diagnosis: Diagnosis) -> Diagnosis:
    """Return the diagnosis without a part for the machine: here all of it is."""
    both = ranked([*diagnosis.findings, *diagnosis.machine])
    return replace(diagnosis, findings=both, machine=())


def planned_on(
    hardware: Hardware,
    free: Free,
    disks: Mapping[str, tuple[Path, int]],
    speed: DiskSpeed,
    build: TorchBuild,
) -> Case:
    """Return the case of a machine without a run; `disks` has the keys `runs` and `cache`."""
    folder, room = disks["runs"]
    capability = hardware.capability
    return Case(
        hardware=hardware,
        script="",
        wall={},
        steps=Steps(count=0),
        process=ProcessFacts(other_cores=free.busy_cores),
        not_checked=NOT_CHECKED,
        planned=PlannedRun(
            folder=str(folder),
            free_bytes=room,
            gpu_here=build.gpu_here,
            torch_cuda=build.cuda,
            machine=MachineState(
                free_device_bytes=free.memory_bytes,
                free_host_bytes=free.host_memory_bytes,
                shm_bytes=free.shm_bytes,
                disk=str(disks["cache"][0]),
                disk_write=speed.write,
                disk_read=speed.read,
                disk_timed_bytes=speed.size,
                unfit_build=None if capability is None else build.why_not(capability),
            ),
        ),
    )


def _why_no(name: str, hardware: Hardware) -> str | None:
    checks = {
        "tf32": hardware.why_no_tf32,
        "bf16": hardware.why_no_bf16,
        "fp16": hardware.why_no_fp16,
        "flash attention": hardware.why_no_flash,
    }
    return checks[name]() if name in checks else None
