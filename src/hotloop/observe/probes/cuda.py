"""Observes a CUDA GPU while a script runs: waits, copies, its clock, and torch's allocator.

Nothing is installed before the script itself has started CUDA, and nothing waits for the GPU. The
methods of tensors stay replaced until the script ends. A library that stores torch.Tensor.item in
a table of its own keeps the replacement, which behaves the same.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.event_buffer import EventCode
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.probes.cuda_events import GpuClock
from hotloop.observe.probes.device_waits import Waits
from hotloop.observe.probes.hidden_syncs import AT, Burst
from hotloop.observe.probes.run_ahead import RunAhead

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.core.case.case import Case
    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["CudaProbe", "thinned"]

MOST = 2000  # values of one reading
_COUNTS = {  # of torch.cuda.memory_stats
    "num_alloc_retries": "num_alloc_retries",
    "num_ooms": "num_ooms",
    "peak": "allocated_bytes.all.peak",
    "reserved_peak": "reserved_bytes.all.peak",
}
_NOW = {
    "allocated_bytes": "allocated_bytes.all.current",
    "reserved_bytes": "reserved_bytes.all.current",
}


class CudaProbe(Probe):
    """Observes the GPU. `torch` is a seam: tests pass a stand-in."""

    def __init__(
        self,
        hooks: Hooks,
        *,
        is_recording: Callable[[], bool] = lambda: False,
        torch: Any = None,
    ) -> None:
        """`is_recording`: whether operators are recorded now, which waits for each of them."""
        self._is_recording = is_recording
        self.waits = Waits(hooks)
        self.clock: GpuClock | None = None
        self._hooks, self._torch = hooks, torch
        self._burst: Burst | None = None
        self._ahead: RunAhead | None = None
        self._roots: list[weakref.ref[Any]] = []
        self._readings: dict[str, list[float]] = {name: [] for name in _NOW}
        self._allocator: dict[str, float] = {}

    @property
    def is_bursting(self) -> bool:
        """Whether torch tells of each wait now."""
        return self._burst is not None and self._burst.is_on

    def on_torch_imported(self) -> None:
        """Time the calls that clean up or wait on purpose; that needs no GPU."""
        self._torch = self._torch or sys.modules["torch"]
        self.waits.explicit(self._torch)

    def on_root_module(self, number: int, module: Any) -> None:
        """Check, when an outermost module is called, whether the GPU is in use by now."""
        self._roots.append(weakref.ref(module))
        self._look()

    def after_step(self, updates: int) -> None:
        """Read the allocator's counters; the observer calls this some times a second."""
        if self.clock is None:
            self._look()
        if self.clock is None:
            return
        stats = self._torch.cuda.memory_stats(self.clock.device)
        for name, key in _COUNTS.items():  # a script may reset its peaks
            self._allocator[name] = max(self._allocator.get(name, 0.0), stats.get(key, 0))
        for name, key in _NOW.items():
            values = self._readings[name]
            values.append(float(stats.get(key, 0)))
            if len(values) >= 2 * MOST:
                del values[::2]

    def remove(self) -> None:
        """End a burst that is under way, because the hooks are being removed."""
        if self._burst is not None:
            self._burst.end()

    def add_to(self, case: Case) -> Case:
        """Add the waits, the times and the readings."""
        steps, syncs = case.steps, self.waits.syncs(case.steps.count)
        if self.clock is None or self._burst is None:
            return replace(case, syncs=(*case.syncs, *syncs))
        syncs += self._burst.syncs(case.stacks, steps.count)
        unseen = () if self._burst.done else (f"hidden waits: there were fewer than {AT} updates",)
        return replace(
            case,
            syncs=(*case.syncs, *syncs),
            steps=replace(
                steps,
                starved=self.clock.starved,
                gpu={row: thinned(times) for row, times in self.clock.times.items()},
            ),
            process=replace(case.process, allocator=dict(self._allocator)),
            readings={
                **case.readings,
                **{name: thinned(values) for name, values in self._readings.items()},
            },
            not_checked=(*case.not_checked, *unseen),
        )

    def _look(self) -> None:
        """Begin once the script has started CUDA and a module is on the GPU."""
        cuda = self._torch.cuda
        if self.clock is not None or self._hooks.fault is not None or not cuda.is_initialized():
            return
        modules = (module for root in self._roots if (module := root()) is not None)
        used = (next(iter(module.parameters()), None) for module in modules)
        on_gpu = (tensor.device for tensor in used if tensor is not None and tensor.is_cuda)
        if (device := next(on_gpu, None)) is None:
            return
        self.clock = GpuClock(cuda, device, waited=lambda: self.waits.seconds)
        self._burst = Burst(self._hooks, self.waits, cuda)
        self._ahead = RunAhead(cuda, device, self._hooks.events, self.waits)
        self.waits.tensors(self._torch)
        self._hooks.timed, self._hooks.settle = self._timed, self._ahead.drain
        self._hooks.when_down(self)

    def _timed(self, code: int) -> None:
        assert self.clock is not None
        assert self._burst is not None
        assert self._ahead is not None
        self.clock.passed(code)
        if code == EventCode.UPDATE_END:
            if self.is_bursting or not self._is_recording():
                self._burst.boundary(self._hooks.updates)
            self._ahead.after_update()


def thinned(values: Sequence[Any], most: int = MOST) -> tuple[Any, ...]:
    """Return at most `most` of the values, evenly spaced."""
    return tuple(values[:: max(1, -(-len(values) // most))])
