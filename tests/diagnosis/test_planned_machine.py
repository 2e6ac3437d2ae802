"""What is said of a machine before a run: of facts that were read of it, or made up."""

from pathlib import Path

from tests.judging import finding

from hotloop.core.hardware import Hardware
from hotloop.diagnosis.machine import planned_on
from hotloop.machine.disk_rate import DiskSpeed
from hotloop.machine.free_resources import Free
from hotloop.machine.torch_build import TorchBuild

GIB = 1 << 30
CPU = Hardware(device="cpu", name="a CPU", cores=2)
GPU = Hardware(device="cuda", name="a GPU", memory_bytes=10 * GIB)
FAST = DiskSpeed(size=1, write=1e9, read=1e9)
FITS = TorchBuild()


def on(device="cpu", capability=None, **versions):
    return Hardware(device=device, name="x", capability=capability, versions=versions)


def case(hardware=CPU, build=FITS, speed=FAST, disk=20 * GIB, **free):
    """The case of a machine alone."""
    known = {"memory_bytes": GIB, "host_memory_bytes": 8 * GIB, "busy_cores": 0.0} | free
    disks = {"runs": (Path("/runs"), disk), "cache": (Path("/cache"), 0)}
    return planned_on(hardware, Free(**known), disks, speed, build)


def test_a_gpu_that_is_not_used_is_critical():
    here = TorchBuild(gpu_here="a driver (535.104.05)")
    found = finding("G26", case(on(driver="535.104.05", torch="2.13.0+cpu"), here))
    assert found.severity == "critical"
    assert "535.104.05" in found.claim
    assert "2.13.0+cpu" in found.claim
    assert "install a CUDA build" in found.remedies[0].text
    assert finding("G26", case(CPU, TorchBuild())) is None
    assert finding("G26", case(on("cuda"), here)) is None


def test_a_driver_that_is_too_old_for_the_builds_cuda_is_named():
    build = TorchBuild(cuda="13.0", gpu_here="a driver (535.104.05)")
    found = finding("G26", case(on(driver="535.104.05"), build))
    assert "CUDA 13.0 needs a driver from 580 on" in found.remedies[0].text
    found = finding("G26", case(on(driver="580.10"), build))
    assert "CUDA_VISIBLE_DEVICES" in found.remedies[0].text


def test_a_build_without_kernels_for_the_gpu_is_critical():
    build = TorchBuild(cuda="13.0", arches=("sm_80", "sm_90"))
    found = finding("R13 wrong_build", case(on("cuda", (7, 5)), build))
    assert (found.rule, found.severity) == ("R13 wrong_build", "critical")
    assert "sm_75" in found.claim
    assert finding("R13 wrong_build", case(on("cuda", (8, 6)), build)) is None
    assert finding("R13 wrong_build", case(CPU, build)) is None


def test_versions_outside_the_tested_range_are_said():
    assert finding("R12 untested_versions", case(on(torch="2.13.0+cpu", python="3.11.7"))) is None
    old = finding("R12 untested_versions", case(on(torch="2.8.1", python="3.12.0")))
    assert old.rule == "R12 untested_versions"
    assert "older than 2.9" in old.claim
    assert (
        "3.15.0"
        in finding("R12 untested_versions", case(on(torch="2.13.0", python="3.15.0"))).claim
    )
    assert finding("R12 untested_versions", case(on(torch="2.13.0", python="3.14.2"))) is None
    assert finding("R12 untested_versions", case(on(torch="unknown"))) is None


def test_memory_can_spill_under_windows_and_wsl_only():
    wsl = "Linux-5.15.90.1-microsoft-standard-WSL2-x86_64"
    assert "crawl" in finding("G17", case(on("cuda", platform=wsl))).claim
    assert finding("G17", case(on("cuda", platform="Windows-11-10.0"))).severity == "note"
    assert finding("G17", case(on("cuda", platform="Linux-6.8-x86_64"))) is None
    assert finding("G17", case(on("cpu", platform=wsl))) is None


def test_little_shared_memory_is_said():
    found = finding("D21", case(shm_bytes=64 << 20))
    assert found.severity == "warn"
    assert "64 MiB" in found.claim
    assert finding("D21", case(shm_bytes=512 << 20)).severity == "note"
    assert finding("D21", case(shm_bytes=8 * GIB)) is None
    assert finding("D21", case()) is None


def test_little_free_memory_is_said():
    found = finding("R4 little_memory", case(host_memory_bytes=GIB))
    assert found.rule == "R4 little_memory"
    assert "1 GiB" in found.claim
    assert finding("R4 little_memory", case()) is None


def test_a_slow_disk_is_said_with_what_was_measured():
    slow = DiskSpeed(size=64 << 20, write=20 << 20, read=500 << 20)
    found = finding("R5 slow_disk", case(speed=slow))
    assert found.rule == "R5 slow_disk"
    assert "writes 20 MiB/s at /cache (64 MiB, measured once)" in found.claim
    assert "read" not in found.claim
    assert finding("R5 slow_disk", case(speed=DiskSpeed(size=1, write=1e9, read=1e9))) is None
    assert finding("R5 slow_disk", case(speed=DiskSpeed(size=1, why_not="full"))) is None


def test_busy_cores_are_said():
    assert finding("H12", case(CPU, busy_cores=0.4)) is None
    assert finding("H12", case(CPU, busy_cores=1.5)).severity == "warn"
    assert "1.5 cores busy (this one may use 2)" in finding("H12", case(CPU, busy_cores=1.5)).claim
    assert finding("H12", case(GPU, busy_cores=1.5)).severity == "note"


def test_memory_that_others_hold_is_said():
    assert finding("G23", case(GPU, memory_bytes=9 * GIB)) is None
    assert "3 GiB of the GPU's 10 GiB" in finding("G23", case(GPU, memory_bytes=7 * GIB)).claim
    assert finding("G23", case(GPU, memory_bytes=None)) is None
    assert finding("G23", case(CPU, memory_bytes=0)) is None


def test_a_full_disk_is_said():
    assert finding("R3 disk_room", case(disk=20 * GIB)) is None
    found = finding("R3 disk_room", case(disk=GIB))
    assert found.rule == "R3 disk_room"
    assert "1 GiB are free at /runs" in found.claim
