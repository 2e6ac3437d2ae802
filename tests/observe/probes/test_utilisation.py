import os
import queue
import time
from types import SimpleNamespace

import pytest
from tests.golden.cases import healthy as case
from tests.golden.gpu import Module, fake_torch, hooks, module_on
from tests.machine.test_nvml import Nvml

from hotloop.core.case.steps_and_loaders import Loader as Seen
from hotloop.observe.probes.utilisation import EVERY, Readings


@pytest.fixture
def readings(tmp_path):
    made = Readings(hooks(), torch=fake_torch(), proc=tmp_path)
    yield made
    made.remove()


def read(readings, times):
    """Read as the thread does, at moments that are apart."""
    for _ in range(times):
        readings._read()
        time.sleep(0.002)


def test_processes_are_read_and_added(readings):
    read(readings, 4)
    found = readings.add_to(case()).readings
    assert len(found["rss_bytes"]) == 4
    assert len(found["cpu_cores"]) == 3
    assert found["rss_bytes"][0] > 1e6


def test_the_thread_reads_until_the_doors_are_taken_down(readings):
    readings.on_root_module(0, Module([]))
    time.sleep(2.5 * EVERY)
    readings._hooks.remove_all()
    assert not readings._runner.is_alive()
    assert readings._rows
    assert readings.fault is None


def test_a_failure_ends_the_readings_and_is_told(tmp_path):
    made = Readings(hooks(), torch=fake_torch(), proc=tmp_path)
    made._iterators = None  # something that cannot be read
    made.on_root_module(0, Module([]))
    time.sleep(2 * EVERY)
    made.remove()
    assert "AttributeError" in made.add_to(case()).not_checked[-1]


def test_children_are_found_in_procs_own_list(tmp_path, readings):
    me, child = os.getpid(), os.getppid()  # any process that lives
    for pid, below in ((me, f"{child} "), (child, "")):
        folder = tmp_path / f"{pid}/task/{pid}"
        folder.mkdir(parents=True)
        (folder / "children").write_text(below)
    read(readings, 1)
    assert set(readings._before.cpu) <= {me, child}
    assert me in readings._before.cpu


def test_a_loaders_workers_are_watched(readings):
    class Loader:
        pass

    first, second = Loader(), Loader()
    iterator = Loader()
    iterator._workers = [SimpleNamespace(pid=os.getpid())]
    readings.on_iterator_created(first, Loader())
    readings.on_iterator_created(second, iterator)
    readings._read()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    readings._read()
    made = readings.add_to(case(loaders=(Seen(key=0), Seen(key=1))))
    assert made.loaders[0].worker_cpu is None
    assert 0 < made.loaders[1].worker_cpu < 1.5


def test_whether_a_batch_stood_ready_is_noted(readings):
    class Loader:
        pass

    loader, iterator = Loader(), Loader()
    iterator._rcvd_idx, iterator._task_info, iterator._data_queue = 0, {0: (0,)}, queue.Queue()
    readings.on_iterator_created(loader, iterator)
    readings._asking(iterator)  # an epoch's first batch is never there
    assert readings.add_to(case(loaders=(Seen(key=0),))).loaders[0].empty is None
    iterator._rcvd_idx, iterator._task_info = 1, {1: (0,), 2: (1,)}
    readings._asking(iterator)
    iterator._task_info[1] = (0, "came before another that was asked for earlier")
    readings._asking(iterator)
    iterator._rcvd_idx = 2
    iterator._data_queue.put("a batch")
    readings._asking(iterator)
    iterator._rcvd_idx = 3  # none is left of this epoch
    readings._asking(iterator)
    found = readings.add_to(case(loaders=(Seen(key=0),))).loaders[0]
    assert found.empty == pytest.approx(1 / 3)


def test_the_hosts_cpu_share_is_that_of_the_steps(readings):
    readings.after_step(3)
    assert readings.add_to(case()).steps.main_cpu is None
    readings.after_step(6)
    time.sleep(0.05)
    readings.after_step(9)
    assert readings.add_to(case()).steps.main_cpu < 0.5


def test_the_gpu_is_read_through_its_driver(tmp_path):
    nvml = Nvml(bits=0x20)
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: "handle" if uuid == "GPU-abc" else None
    torch = fake_torch()
    made = Readings(hooks(), torch=torch, nvml=nvml, proc=tmp_path)
    made._runner = SimpleNamespace(is_alive=lambda: False)  # no thread: the test reads
    made.on_root_module(0, module_on("cuda:0", torch))
    read(made, 3)
    found = made.add_to(case())
    assert found.readings["gpu_utilisation"] == (0.37,) * 3
    assert found.throttle_reasons == ("sw_thermal_slowdown",)


def test_without_the_drivers_library_one_sentence_says_so(tmp_path):
    nvml = Nvml()

    def lost():
        raise Nvml.NVMLError

    nvml.nvmlInit = lost
    torch = fake_torch()
    made = Readings(hooks(), torch=torch, nvml=nvml, proc=tmp_path)
    made._runner = SimpleNamespace(is_alive=lambda: False)
    made.on_root_module(0, module_on("cuda:0", torch))
    read(made, 2)
    (said,) = made.add_to(case()).not_checked
    assert said.startswith("the GPU's use, power, clocks and heat: ")
