import os
from types import SimpleNamespace

from hotloop.machine.nvml import gpus, holders, look, traffic


class Nvml:
    """As much of nvidia-ml-py as is asked for; `gone` names what it refuses."""

    class NVMLError(Exception):
        pass

    def __init__(self, gone=(), pids=(), bits=0):
        self._gone, self._pids, self._bits = gone, pids, bits

    def __getattr__(self, name):
        name = name.removeprefix("nvmlDeviceGet")
        answers = {
            "UtilizationRates": SimpleNamespace(gpu=37),
            "MemoryInfo": SimpleNamespace(used=5 << 30),
            "PowerUsage": 70_000,
            "EnforcedPowerLimit": 200_000,
            "ClockInfo": 1200,
            "MaxClockInfo": 1800,
            "Temperature": 66,
            "CurrPcieLinkGeneration": 3,
            "MaxPcieLinkGeneration": 4,
            "CurrPcieLinkWidth": 8,
            "MaxPcieLinkWidth": 16,
            "CurrentClocksEventReasons": self._bits,
            "ComputeRunningProcesses": [SimpleNamespace(pid=pid) for pid in self._pids],
        }
        if name not in answers:
            raise AttributeError(name)

        def answer(handle, *args):
            if name in self._gone:
                raise self.NVMLError
            return answers[name]

        return answer


def test_readings_carry_the_cases_names_and_units():
    found, reasons = look(Nvml(bits=0x4 | 0x40), "handle", own=())
    assert found == {
        "gpu_utilisation": 0.37,
        "gpu_power_w": 70.0,
        "gpu_power_limit_w": 200.0,
        "gpu_clock_mhz": 1200.0,
        "gpu_max_clock_mhz": 1800.0,
        "gpu_temperature_c": 66.0,
        "gpu_memory_bytes": float(5 << 30),
        "pcie_generation": 3.0,
        "pcie_generation_max": 4.0,
        "pcie_width": 8.0,
        "pcie_width_max": 16.0,
        "gpu_other_processes": 0.0,
    }
    assert reasons == ["sw_power_cap", "hw_thermal_slowdown"]


def test_what_a_gpu_refuses_is_left_out():
    found, reasons = look(Nvml(gone={"PowerUsage", "CurrentClocksEventReasons"}), "h", own=())
    assert "gpu_power_w" not in found
    assert "gpu_power_limit_w" in found
    assert reasons == []


def test_an_idle_gpu_is_no_reason():
    assert look(Nvml(bits=0x1), "h", own=())[1] == []


def test_other_processes_are_those_that_are_not_ours():
    me = os.getpid()
    ours = {me, 77}
    assert look(Nvml(pids=[me, 77, 88]), "h", own=ours)[0]["gpu_other_processes"] == 1
    assert look(Nvml(pids=[me, 77]), "h", own=ours)[0]["gpu_other_processes"] == 0
    # In a container the ids are the host's: one of them is this process.
    assert look(Nvml(pids=[990, 991]), "h", own=ours)[0]["gpu_other_processes"] == 1


def test_gpus_are_listed_with_what_stays_the_same():
    nvml = Nvml()
    nvml.nvmlInit = lambda: None
    nvml.nvmlDeviceGetCount = lambda: 2
    nvml.nvmlDeviceGetHandleByIndex = lambda index: f"handle {index}"
    nvml.nvmlDeviceGetName = lambda handle: b"Test GPU"  # as older versions say it
    nvml.nvmlDeviceGetMemoryInfo = lambda handle: SimpleNamespace(total=24 << 30)
    found, why = gpus(nvml)
    assert why is None
    assert [(c.handle, c.index, c.name, c.memory_bytes) for c in found] == [
        ("handle 0", 0, "Test GPU", 24 << 30),
        ("handle 1", 1, "Test GPU", 24 << 30),
    ]


def test_no_library_no_driver_and_no_gpu_each_have_a_reason():
    assert gpus(None) == ([], "nvidia-ml-py is not installed: pip install 'hotloop[gpu]'")
    nvml = Nvml()

    def refuse():
        raise nvml.NVMLError("Driver Not Loaded")

    nvml.nvmlInit = refuse
    assert gpus(nvml) == ([], "the driver's library says: Driver Not Loaded")
    nvml.nvmlInit, nvml.nvmlDeviceGetCount = lambda: None, lambda: 0
    assert gpus(nvml) == ([], "the driver shows no GPU")


def test_holders_of_memory_come_largest_first_and_may_be_unknown():
    nvml = Nvml()
    nvml.nvmlDeviceGetComputeRunningProcesses = lambda handle: [
        SimpleNamespace(pid=7, usedGpuMemory=None),
        SimpleNamespace(pid=8, usedGpuMemory=1 << 30),
    ]
    assert [(one.pid, one.memory_bytes) for one in holders(nvml, "h")] == [(8, 1 << 30), (7, None)]
    assert holders(Nvml(gone={"ComputeRunningProcesses"}), "h") is None


def test_traffic_on_the_bus_is_in_bytes_and_absent_where_it_is_refused():
    nvml = Nvml()
    nvml.nvmlDeviceGetPcieThroughput = lambda handle, way: (3, 5)[way]  # KB/s
    assert traffic(nvml, "h") == {
        "pcie_sent_bytes_per_s": 3000,
        "pcie_received_bytes_per_s": 5000,
    }
    assert traffic(Nvml(), "h") == {}
