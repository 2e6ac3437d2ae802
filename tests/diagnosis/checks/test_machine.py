from pathlib import Path

from hotloop.core.hardware import Hardware
from hotloop.diagnosis.checks import machine
from hotloop.machine.disk_rate import DiskSpeed
from hotloop.machine.free_resources import Free
from hotloop.machine.torch_build import TorchBuild

GIB = 1 << 30
CPU = Hardware(device="cpu", name="a CPU", cores=2)
CARD = Hardware(device="cuda", name="a card", memory_bytes=10 * GIB)


def on(device="cpu", capability=None, **versions):
    return Hardware(device=device, name="x", capability=capability, versions=versions)


def free(**changes):
    return Free(**{"memory_bytes": GIB, "host_memory_bytes": 8 * GIB, "busy_cores": 0.0} | changes)


def test_a_card_that_is_not_used_is_critical():
    here = TorchBuild(card_here="a driver (535.104.05)")
    found = machine.wrong_device(on(driver="535.104.05", torch="2.13.0+cpu"), here)
    assert found.severity == "critical"
    assert "535.104.05" in found.claim
    assert "2.13.0+cpu" in found.claim
    assert "install a CUDA build" in found.remedies[0].text
    assert machine.wrong_device(CPU, TorchBuild()) is None
    assert machine.wrong_device(on("cuda"), here) is None


def test_a_driver_that_is_too_old_for_the_builds_cuda_is_named():
    build = TorchBuild(cuda="13.0", card_here="a driver (535.104.05)")
    found = machine.wrong_device(on(driver="535.104.05"), build)
    assert "CUDA 13.0 needs a driver from 580 on" in found.remedies[0].text
    found = machine.wrong_device(on(driver="580.10"), build)
    assert "CUDA_VISIBLE_DEVICES" in found.remedies[0].text


def test_a_build_without_kernels_for_the_card_is_critical():
    build = TorchBuild(cuda="13.0", arches=("sm_80", "sm_90"))
    found = machine.wrong_build(on("cuda", (7, 5)), build)
    assert (found.rule, found.severity) == ("R13 wrong_build", "critical")
    assert "sm_75" in found.claim
    assert machine.wrong_build(on("cuda", (8, 6)), build) is None
    assert machine.wrong_build(CPU, build) is None


def test_versions_outside_the_tested_range_are_said():
    assert machine.untested_versions(on(torch="2.13.0+cpu", python="3.11.7")) is None
    old = machine.untested_versions(on(torch="2.8.1", python="3.12.0"))
    assert old.rule == "R12 untested_versions"
    assert "older than 2.9" in old.claim
    assert "3.15.0" in machine.untested_versions(on(torch="2.13.0", python="3.15.0")).claim
    assert machine.untested_versions(on(torch="2.13.0", python="3.14.2")) is None
    assert machine.untested_versions(on(torch="unknown")) is None


def test_memory_can_spill_under_windows_and_wsl_only():
    wsl = "Linux-5.15.90.1-microsoft-standard-WSL2-x86_64"
    assert "crawl" in machine.spill_risk(on("cuda", platform=wsl)).claim
    assert machine.spill_risk(on("cuda", platform="Windows-11-10.0")).severity == "note"
    assert machine.spill_risk(on("cuda", platform="Linux-6.8-x86_64")) is None
    assert machine.spill_risk(on("cpu", platform=wsl)) is None


def test_little_shared_memory_is_said():
    found = machine.small_shm(free(shm_bytes=64 << 20))
    assert found.severity == "warn"
    assert "64 MiB" in found.claim
    assert machine.small_shm(free(shm_bytes=512 << 20)).severity == "note"
    assert machine.small_shm(free(shm_bytes=8 * GIB)) is None
    assert machine.small_shm(free()) is None


def test_little_free_memory_is_said():
    found = machine.little_memory(CPU, free(host_memory_bytes=GIB))
    assert found.rule == "R4 little_memory"
    assert "1 GiB" in found.claim
    assert machine.little_memory(CPU, free()) is None


def test_a_slow_disk_is_said_with_what_was_measured():
    slow = DiskSpeed(size=64 << 20, write=20 << 20, read=500 << 20)
    found = machine.slow_disk(Path("/cache"), slow)
    assert found.rule == "R5 slow_disk"
    assert "writes 20 MiB/s at /cache (64 MiB, measured once)" in found.claim
    assert "read" not in found.claim
    assert machine.slow_disk(Path("/cache"), DiskSpeed(size=1, write=1e9, read=1e9)) is None
    assert machine.slow_disk(Path("/cache"), DiskSpeed(size=1, why_not="full")) is None


def test_busy_cores_are_said():
    assert machine.busy_cores(CPU, 0.4) is None
    assert machine.busy_cores(CPU, 1.5).severity == "warn"
    assert "1.5 cores busy (this one may use 2)" in machine.busy_cores(CPU, 1.5).claim
    assert machine.busy_cores(CARD, 1.5).severity == "note"


def test_memory_that_others_hold_is_said():
    assert machine.shared_card(CARD, 9 * GIB) is None
    assert "3 GiB of the card's 10 GiB" in machine.shared_card(CARD, 7 * GIB).claim
    assert machine.shared_card(CARD, None) is None
    assert machine.shared_card(CPU, 0) is None


def test_a_full_disk_is_said():
    assert machine.little_disk(Path("/runs"), 20 * GIB) is None
    found = machine.little_disk(Path("/runs"), GIB)
    assert found.rule == "R3 disk_room"
    assert "1 GiB are free at /runs" in found.claim
