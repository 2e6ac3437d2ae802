import json
from pathlib import Path

from hotloop import techniques
from hotloop.checkup import look
from hotloop.core.hardware import Hardware
from hotloop.probe.free import Free

GIB = 1 << 30
T4 = Hardware(device="cuda", name="Tesla T4", memory_bytes=15 * GIB, capability=(7, 5), cores=4)
FREE = Free(memory_bytes=14 * GIB, host_memory_bytes=8 * GIB, busy_cores=0.0)


def test_each_format_and_technique_is_usable_or_says_why_not(tmp_path):
    found = look(hardware=T4, free=FREE, here=tmp_path)
    assert found.precisions["fp32"] is None
    assert found.precisions["fp16"] is None
    assert "compute capability 8.0" in found.precisions["bf16"]
    assert set(found.precisions) == {"fp32", "tf32", "bf16", "fp16", "flash attention"}
    assert list(found.techniques) == [technique.id for technique in techniques.ALL]
    assert found.techniques["autocast-fp16"] is None
    assert found.techniques["autocast-bf16"] == found.precisions["bf16"]


def test_what_stands_in_the_way_is_found(tmp_path):
    taken = Free(memory_bytes=4 * GIB, host_memory_bytes=8 * GIB, busy_cores=2.0)
    found = look(hardware=T4, free=taken, here=tmp_path)
    rules = {finding.rule.split()[0] for finding in found.diagnosis.findings}
    assert {"G23", "H12"} <= rules
    assert "G26" not in rules


def test_the_disk_of_a_folder_that_is_not_there_is_that_of_its_parent(tmp_path):
    found = look(hardware=T4, free=FREE, here=tmp_path / "not" / "yet")
    folder, free = found.disks["runs"]
    assert folder == tmp_path
    assert free > 0
    assert not (tmp_path / "not").exists()


def test_it_is_written_as_findings_json(tmp_path):
    found = look(hardware=T4, free=FREE, here=tmp_path)
    written = json.loads(json.dumps(found.to_json()))
    assert written["schema"] == 1
    assert Hardware.from_json(written["hardware"]) == T4
    assert written["free"]["memory_bytes"] == 14 * GIB
    assert written["steps"] == 0
    assert any("nothing was timed" in text for text in written["not_checked"])


def test_this_machine_can_be_looked_at():
    found = look()
    assert found.hardware.versions["torch"]
    assert found.free.host_memory_bytes > 0
    assert found.disks["runs"][0] == Path.cwd()
