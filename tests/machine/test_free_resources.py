from types import SimpleNamespace

import psutil
import pytest

from hotloop.core.codec import to_json
from hotloop.core.hardware import Hardware
from hotloop.machine.free_resources import free_now
from hotloop.machine.threads import Load

MEM = SimpleNamespace(cuda=SimpleNamespace(mem_get_info=lambda: (3 << 30, 10 << 30)))


def looks():
    """Two looks, 2 s apart, of which others used 3 CPU seconds."""
    seen = [Load(at=0.0, everyone=10.0, own=4.0), Load(at=2.0, everyone=14.0, own=5.0)]
    return lambda: seen.pop(0)


def free(hardware: Hardware):
    return free_now(hardware, torch=MEM, look=looks(), wait=lambda seconds: None)


def test_cores_that_others_use_leave_this_process_out():
    assert free(Hardware(device="cpu", name="x")).busy_cores == pytest.approx(1.5)


def test_a_cpu_has_the_hosts_memory_and_no_more_than_its_limit():
    host = psutil.virtual_memory().available
    seen = free(Hardware(device="cpu", name="x"))
    assert seen.memory_bytes == seen.host_memory_bytes == pytest.approx(host, rel=0.2)
    limited = free(Hardware(device="cpu", name="x", host_memory_bytes=1000))
    assert limited.memory_bytes == limited.host_memory_bytes == 1000


def test_a_gpu_has_memory_of_its_own():
    seen = free(Hardware(device="cuda", name="x", host_memory_bytes=1000))
    assert (seen.memory_bytes, seen.host_memory_bytes) == (3 << 30, 1000)
    assert free(Hardware(device="mps", name="x")).memory_bytes is None


def test_it_is_written_as_json():
    keys = to_json(free(Hardware(device="cpu", name="x"))).keys()
    assert set(keys) == {
        "memory_bytes",
        "host_memory_bytes",
        "busy_cores",
        "shm_bytes",
        "shm_free_bytes",
    }
