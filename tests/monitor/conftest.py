"""Run folders made by hand, and a driver's library with one GPU that a test can change."""

import json
import os
import platform
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from hotloop.core.events import event_line
from hotloop.core.hardware import Hardware
from hotloop.core.measurement import Measurement
from hotloop.core.plan import Plan
from hotloop.core.storage.lock import LockHolder
from hotloop.core.storage.rundir import RunDir
from hotloop.monitor.sample import MachineSample
from hotloop.monitor.series import SampleHistory

HARDWARE = Hardware(
    device="cpu",
    name="Test CPU",
    memory_bytes=1 << 34,
    host_memory_bytes=1 << 34,
    cores=2.0,
    measured={"fp32": Measurement(unit="FLOP/s", readings=(1e9,))},
)
RECORD = {
    "recipe": "char-lm",
    "status": "running",
    "config": {"training.log_every": 10, "training.eval_every_steps": 40},
    "steps": 100,
    "precision": "fp32",
    "flops_per_token": 1e5,
    "hardware": HARDWARE.to_json(),
    "choices": [],
}


def session(after=0, *, t=1.0, pid=None):
    at = "2026-11-21T13:41:35+00:00"
    return event_line("session", step=after, t=t, at=at, pid=pid or os.getpid())


def step(n, *, t, data=0.01):
    return event_line(
        "step", step=n, t=t, clock="host", wall=0.1, data=data, forward=0.03, backward=0.05,
        update=0.01, loss=2.0, norm=1.0, lr=1e-3, epoch=0, first=0, samples=4, tokens=1000,
        targets=1000, ids="00",
    )  # fmt: skip


def steps(first, last, *, data=0.01):
    """Ten steps a second, the first of the run at 1.1 s."""
    return [step(n, t=1 + n / 10, data=data) for n in range(first, last + 1)]


@pytest.fixture
def made(tmp_path):
    """Make a run folder: made("name", events, alive=True, field=value of run.json)."""

    def make(name="run", events=(), *, alive=True, **changes):
        run = RunDir(tmp_path / name)
        run.create({**RECORD, **changes}, Plan(micro_batch=4))
        if events:
            journal = run.journal()
            journal.append(events)
            journal.close()
        if alive:
            hold(run.path)
        return run.path

    return make


def hold(path, **changes):
    """Lock a run folder in the name of this process, or of another one."""
    holder = {**asdict(LockHolder.me()), **changes}
    (path / "lock.json").write_text(json.dumps(holder))


def dead(path):
    """Lock a run folder in the name of a process that is gone."""
    hold(path, pid=2**30, host=platform.node())


class Nvml:
    """As much of nvidia-ml-py as is asked for. `gone` names what it refuses."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, gone=(), gpus=1, pids=(), **answers):
        self._gone, self._gpus = gone, gpus
        self._answers = {
            "Count": gpus,
            "Name": "Test GPU",
            "UtilizationRates": SimpleNamespace(gpu=97),
            "MemoryInfo": SimpleNamespace(used=5 << 30, total=24 << 30),
            "PowerUsage": 300_000,
            "EnforcedPowerLimit": 350_000,
            "ClockInfo": 1700,
            "MaxClockInfo": 1800,
            "Temperature": 70,
            "CurrPcieLinkGeneration": 4,
            "MaxPcieLinkGeneration": 4,
            "CurrPcieLinkWidth": 16,
            "MaxPcieLinkWidth": 16,
            "PcieThroughput": 2000,
            "CurrentClocksEventReasons": 0,
            "ComputeRunningProcesses": [
                SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in pids
            ],
            **answers,
        }

    def nvmlInit(self):  # noqa: N802 - the library's name
        if "Init" in self._gone:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self._gpus

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def __getattr__(self, name):
        name = name.removeprefix("nvmlDeviceGet")
        if name not in self._answers:
            raise AttributeError(name)

        def answer(handle, *args):
            if name in self._gone:
                raise self.NVMLError(name)
            return self._answers[name]

        return answer


def seen(*rows, **more):
    """Return a history of samples, a second apart, with these values."""
    history = SampleHistory()
    for n, values in enumerate(rows, 1):
        history.add(MachineSample(at=float(n), values=values, **more))
    return history
