import os

from tests.monitor.conftest import Nvml, session, steps

from hotloop.monitor.run import RunReader
from hotloop.monitor.sample import EXPECTED, ReadingSampler
from hotloop.monitor.tree import Tree


def test_the_whole_machine_needs_no_gpu_and_no_process():
    sample = ReadingSampler(nvml=None).take()
    assert "cpu_percent" in sample.values
    assert not any(name.startswith(("gpu", "process", "run")) for name in sample.values)


def test_a_missing_library_is_a_reason_not_a_zero():
    sampler = ReadingSampler(nvml=None)
    assert sampler.gpus == []
    assert "nvidia-ml-py is not installed" in sampler.no_gpus
    assert "Driver Not Loaded" in ReadingSampler(nvml=Nvml(gone={"Init"})).no_gpus


def test_a_gpu_tells_all_that_is_asked_for():
    sampler = ReadingSampler(nvml=Nvml())
    values = sampler.take().values
    assert {f"gpu0_{name}" for name in EXPECTED} <= values.keys()
    assert values["gpu0_utilisation_percent"] == 97
    assert values["gpu0_power_w"] == 300
    assert values["gpu0_pcie_sent_bytes_per_s"] == 2e6
    assert sampler.gpus[0].memory_bytes == 24 << 30


def test_one_reading_that_fails_is_absent_alone():
    values = ReadingSampler(nvml=Nvml(gone={"UtilizationRates", "PcieThroughput"})).take().values
    assert "gpu0_utilisation_percent" not in values
    assert "gpu0_pcie_sent_bytes_per_s" not in values
    assert values["gpu0_temperature_c"] == 70


def test_each_of_several_gpus_is_read():
    values = ReadingSampler(nvml=Nvml(gpus=2)).take().values
    assert values["gpu1_power_w"] == 300


def test_who_holds_memory_of_a_gpu_is_named():
    me = os.getpid()
    nvml = Nvml(pids=[(2**30, 1 << 30), (me, 4 << 30)])
    held = ReadingSampler(tree=Tree(me), nvml=nvml).take().held[0]
    assert [(one.pid, one.memory_bytes, one.watched) for one in held] == [
        (me, 4 << 30, True),
        (2**30, 1 << 30, False),
    ]
    assert held[0].name
    assert held[1].name is None
    assert 0 not in ReadingSampler(nvml=Nvml(gone={"ComputeRunningProcesses"})).take().held


def test_why_a_gpu_is_slowed_down_is_kept():
    assert ReadingSampler(nvml=Nvml(CurrentClocksEventReasons=0x40)).take().slowed == {
        0: ["hw_thermal_slowdown"]
    }


def test_the_process_of_a_run_is_found_and_followed(made):
    sampler = ReadingSampler(run=RunReader(made(events=[session(), *steps(1, 20)])))
    sample = sampler.take()
    assert sampler.tree.pid == os.getpid()
    assert sample.run.phase == "training"
    assert sample.values["run_tokens_per_s"] > 0
    assert "process_rss_bytes" in sampler.take().values


def test_events_that_cannot_be_read_are_told_and_the_machine_is_watched_on(made):
    sample = ReadingSampler(run=RunReader(made(events=["{}"]))).take()
    assert sample.run is None
    assert "events-r0.jsonl" in sample.trouble
    assert "cpu_percent" in sample.values


def test_the_cost_of_taking_samples_is_counted():
    sampler = ReadingSampler()
    sampler.take()
    assert sampler.spent > 0
