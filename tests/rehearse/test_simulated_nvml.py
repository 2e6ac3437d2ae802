"""A stand-in for nvidia-ml-py answers how busy a simulated card was."""

import sys

import pytest

from hotloop.machine.nvml import look
from hotloop.rehearse import simulated_nvml


def test_the_use_is_the_share_of_the_time_since_the_last_question(monkeypatch):
    now = {"worked": 0.0, "clock": 10.0}
    monkeypatch.setattr(simulated_nvml.counts, "worked_seconds", lambda: now["worked"])
    monkeypatch.setattr(simulated_nvml.time, "perf_counter", lambda: now["clock"])
    monkeypatch.setitem(sys.modules, "pynvml", None)
    simulated_nvml.install()
    nvml = sys.modules["pynvml"]
    handle = nvml.nvmlDeviceGetHandleByUUID("GPU-1")
    look(nvml, handle, own=frozenset())
    now |= {"worked": 0.3, "clock": 10.5}
    values, reasons = look(nvml, handle, own=frozenset())
    assert values == {"gpu_utilisation": pytest.approx(0.6)}  # no power, clock or memory
    assert reasons == []
    now |= {"worked": 2.0, "clock": 11.0}  # two streams at once
    assert look(nvml, handle, own=frozenset())[0] == {"gpu_utilisation": 1.0}
