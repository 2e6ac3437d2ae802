import pytest

from hotloop.machine.detect import host
from hotloop.monitor.host import HostReading


class Machine:
    """A fake /proc and /sys/fs/cgroup, and a clock."""

    def __init__(self, root):
        self.proc, self.cgroup, self.seconds = root / "proc", root / "cgroup", 0.0
        self.add("proc/self/cgroup", "0::/\n")

    def add(self, path, text):
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def host(self, memory):
        return HostReading(
            memory=memory, proc=self.proc, cgroup=self.cgroup, now=lambda: self.seconds
        )


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def test_this_machine_tells_its_cores_and_memory():
    here = host()
    found = HostReading(memory=here.host_memory_bytes).read()
    cores = [value for name, value in found.items() if name.startswith("cpu_core")]
    assert cores
    assert all(0 <= value <= 100 for value in cores)
    assert found["cpu_busiest_core_percent"] == max(cores)
    assert 0 < found["ram_used_bytes"] < here.host_memory_bytes


def test_in_a_container_its_own_memory_is_read_without_the_file_cache(machine):
    machine.add("cgroup/memory.max", "8000\n")
    machine.add("cgroup/memory.current", "5000\n")
    machine.add("cgroup/memory.stat", "anon 3000\ninactive_file 1500\n")
    assert machine.host(8000).read()["ram_used_bytes"] == 3500
    assert machine.host(9000).read()["ram_used_bytes"] > 8000, "the limit is not this group's"


def test_an_older_control_group_is_read_as_well(machine):
    machine.add("proc/self/cgroup", "4:memory:/\n")
    machine.add("cgroup/memory/memory.limit_in_bytes", "8000\n")
    machine.add("cgroup/memory/memory.usage_in_bytes", "5000\n")
    machine.add("cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n")
    assert machine.host(8000).read()["ram_used_bytes"] == 4000


def test_how_often_a_quota_held_processes_back_is_told(machine):
    machine.add("cgroup/cpu.stat", "nr_periods 100\nnr_throttled 10\n")
    host = machine.host(None)
    machine.add("cgroup/cpu.stat", "nr_periods 110\nnr_throttled 14\n")
    machine.seconds = 1.0
    assert host.read()["cpu_throttled_percent"] == 40


def test_without_a_quota_nothing_is_said_about_one(machine):
    machine.add("cgroup/cpu.stat", "nr_periods 0\nnr_throttled 0\n")
    assert "cpu_throttled_percent" not in machine.host(None).read()


def test_disks_tell_bytes_a_second(machine):
    host = machine.host(None)
    machine.seconds = 2.0
    found = host.read()
    if "disk_read_bytes_per_s" in found:  # a container may show no disk
        assert found["disk_read_bytes_per_s"] >= 0
        assert found["disk_written_bytes_per_s"] >= 0
