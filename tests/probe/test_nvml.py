import os
from types import SimpleNamespace

from hotloop.probe.nvml import look


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


def test_what_a_card_refuses_is_left_out():
    found, reasons = look(Nvml(gone={"PowerUsage", "CurrentClocksEventReasons"}), "h", own=())
    assert "gpu_power_w" not in found
    assert "gpu_power_limit_w" in found
    assert reasons == []


def test_an_idle_card_is_no_reason():
    assert look(Nvml(bits=0x1), "h", own=())[1] == []


def test_other_processes_are_those_that_are_not_ours():
    me = os.getpid()
    ours = {me, 77}
    assert look(Nvml(pids=[me, 77, 88]), "h", own=ours)[0]["gpu_other_processes"] == 1
    assert look(Nvml(pids=[me, 77]), "h", own=ours)[0]["gpu_other_processes"] == 0
    # In a container the ids are the host's: one of them is this process.
    assert look(Nvml(pids=[990, 991]), "h", own=ours)[0]["gpu_other_processes"] == 1
