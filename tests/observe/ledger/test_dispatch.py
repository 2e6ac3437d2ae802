import time
import types

import pytest
import torch

from hotloop.observe.ledger.dispatch import KernelClock
from hotloop.observe.ledger.recorder import Recorder


class Event:
    def __init__(self, cuda):
        self._cuda = cuda

    def record(self):
        self.at = self._cuda.now

    def synchronize(self):
        self._cuda.calls.append("wait")

    def elapsed_time(self, other):
        return other.at - self.at


class Cuda:
    """A GPU whose clock is `now`, in milliseconds."""

    def __init__(self, *, captures=False):
        self.now, self.calls, self._captures = 0.0, [], captures

    def Event(self, *, enable_timing):  # noqa: N802 - torch's name
        assert enable_timing
        return Event(self)

    def is_current_stream_capturing(self):
        return self._captures

    def synchronize(self):
        self.calls.append("empty")

    def _sleep(self, cycles):
        self.calls.append(cycles)
        self.now += cycles / 1e6  # at a gigahertz


def test_an_operator_takes_what_the_gpu_does_after_it_was_kept_busy():
    cuda = Cuda()
    clock = KernelClock(cuda, lambda: time.sleep(1e-3))
    cuda.calls.clear()
    clock.begin()
    cuda.now += 0.25
    assert clock.end([types.SimpleNamespace(is_cuda=True)], 7) == pytest.approx(250_000, rel=1e-5)
    before, cycles, after = cuda.calls
    assert (before, after) == ("empty", "wait")
    assert cycles >= 20_000_000, "20 launches of a millisecond and more, at a gigahertz"


def test_an_operator_on_the_cpu_takes_the_hosts_time():
    cuda = Cuda()
    clock = KernelClock(cuda, int)
    clock.begin()
    assert clock.end([torch.ones(1)], 7) == 7


def test_a_recording_ends_where_a_graph_is_captured_and_nothing_waits():
    cuda = Cuda(captures=True)
    recorder = Recorder(is_ours=lambda: False)
    recorder.start([])
    recorder._kernels = KernelClock(cuda, int)
    cuda.calls.clear()
    assert torch.ones(2).sum().item() == 2
    recorder.stop()
    assert "captured" in str(recorder.fault)
    assert not recorder.operations
    assert cuda.calls == []


def test_without_a_gpu_in_use_there_is_no_clock():
    assert KernelClock.of_gpu() is None
