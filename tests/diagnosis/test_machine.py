import json
from dataclasses import replace
from pathlib import Path

from hotloop import techniques
from hotloop.core.hardware import Hardware
from hotloop.diagnosis.machine import look
from hotloop.machine.disk_rate import DiskSpeed
from hotloop.machine.free_resources import Free
from hotloop.machine.torch_build import TorchBuild

GIB = 1 << 30
T4 = Hardware(device="cuda", name="Tesla T4", memory_bytes=15 * GIB, capability=(7, 5), cores=4)
FREE = Free(memory_bytes=14 * GIB, host_memory_bytes=8 * GIB, busy_cores=0.0)


SPEED = DiskSpeed(size=64 << 20, write=1e9, read=2e9)
BUILD = TorchBuild(cuda="13.0", arches=("sm_75", "sm_80"))


def machine(tmp_path, **changes):
    known = {"hardware": T4, "free": FREE, "here": tmp_path, "speed": SPEED, "build": BUILD}
    return look(**known | changes)


def test_each_format_and_technique_is_usable_or_says_why_not(tmp_path):
    found = machine(tmp_path)
    assert found.precisions["fp32"] is None
    assert found.precisions["fp16"] is None
    assert "compute capability 8.0" in found.precisions["bf16"]
    assert set(found.precisions) == {"fp32", "tf32", "bf16", "fp16", "flash attention"}
    assert list(found.techniques) == [technique.id for technique in techniques.ALL]
    assert found.techniques["autocast-fp16"] is None
    assert found.techniques["autocast-bf16"] == found.precisions["bf16"]


def test_what_stands_in_the_way_is_found(tmp_path):
    taken = Free(memory_bytes=4 * GIB, host_memory_bytes=8 * GIB, busy_cores=2.0)
    found = machine(tmp_path, free=taken)
    rules = {finding.rule.split()[0] for finding in found.diagnosis.findings}
    assert {"G23", "H12"} <= rules
    assert "G26" not in rules


def test_the_disk_of_a_folder_that_is_not_there_is_that_of_its_parent(tmp_path):
    found = machine(tmp_path / "not" / "yet")
    folder, free = found.disks["runs"]
    assert folder == tmp_path
    assert free > 0
    assert not (tmp_path / "not").exists()


def test_it_is_written_as_findings_json(tmp_path):
    found = machine(tmp_path)
    written = json.loads(json.dumps(found.to_json()))
    assert written["schema"] == 1
    assert Hardware.from_json(written["hardware"]) == T4
    assert written["free"]["memory_bytes"] == 14 * GIB
    assert written["steps"] == 0
    assert written["disk_speed"]["write"] == 1e9
    assert written["torch_build"]["arches"] == ["sm_75", "sm_80"]
    assert any("nothing was timed" in text for text in written["not_checked"])


def test_this_machine_can_be_looked_at():
    found = look()
    assert found.hardware.versions["torch"]
    assert found.free.host_memory_bytes > 0
    assert found.disks["runs"][0] == Path.cwd()


def test_what_does_not_fit_is_found_once_each(tmp_path):
    bad = Free(memory_bytes=14 * GIB, host_memory_bytes=GIB, busy_cores=0.0, shm_bytes=64 << 20)
    windows = replace(T4, versions={"platform": "Windows-11", "torch": "2.8.0", "python": "3.12.1"})
    found = machine(
        tmp_path,
        hardware=windows,
        free=bad,
        speed=DiskSpeed(size=64 << 20, write=1e6),
        build=TorchBuild(cuda="13.0", arches=("sm_90",)),
    )
    rules = [finding.rule.split()[0] for finding in found.diagnosis.findings]
    assert sorted(set(rules) - {"R3"}) == ["D21", "G17", "R12", "R13", "R4", "R5"]
    assert rules[0] == "R13"
