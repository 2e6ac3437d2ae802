"""What only a run of several processes has: a backend, waits for other ranks, shared samplers.

torch itself measures how long a backward pass waits: DistributedDataParallel times its first ten
passes and then one in 100, on a CPU one in 10 on request. The script's own communication shows in
the sampled stacks.
"""

from __future__ import annotations

import functools
import statistics
import sys
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hotloop.core.case.case import IN_STEP
from hotloop.core.measurement import typical
from hotloop.observe.hooks.describe import sampler_of
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.live_objects import alive
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.case.case import Case

__all__ = ["TOGETHER", "ProcessGroupProbe"]

TOGETHER = 200  # optimizer steps after which all ranks of a group stop, so that none waits
_EACH = 10  # passes of which torch times one
_MOST = 2000  # times that are kept
_WAITS = ("/distributed_c10d.py", ":DistributedDataParallel._sync")  # in a stack


class ProcessGroupProbe(Probe):
    """Observes the process group; a single process has none."""

    def __init__(self, observer: Any) -> None:
        self._observer = observer
        self._group: dict[str, Any] | None = None  # its facts
        self._waits: list[float] = []  # seconds of backward passes that exchange gradients
        self._timed: dict[int, int] = {}  # id of a model -> its pass whose time was read last
        self._exchanging: list[bool] = []  # whether sampled backward passes exchange gradients
        self._epoch_calls: Counter[int] = (
            Counter()
        )  # id of a distributed sampler -> calls of set_epoch
        self._samplers: dict[int, int] = {}  # number of a loader -> id of its sampler

    def on_torch_imported(self) -> None:
        """Count the calls of set_epoch."""
        from torch.utils.data import DistributedSampler

        hooks, old = self._observer.hooks, DistributedSampler.set_epoch

        @functools.wraps(old)
        def set_epoch(sampler: Any, epoch: int) -> None:
            hooks.quietly(self._epoch_calls.update, [id(sampler)])
            old(sampler, epoch)

        hooks.replace(DistributedSampler, "set_epoch", set_epoch)

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Remember a distributed sampler if its calls are counted: its set_epoch is torch's."""
        from torch.utils.data import DistributedSampler

        sampler = sampler_of(loader)
        if getattr(type(sampler), "set_epoch", None) is DistributedSampler.set_epoch:
            loaders = self._observer.loaders
            number = next(built.number for built in loaders if built.reference() is loader)
            self._samplers[number] = id(sampler)

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Record whether this backward pass exchanges gradients (no_sync)."""
        for model in self._parallel() if self._group is not None else ():
            self._exchanging.append(bool(model.require_backward_grad_sync))

    def after_step(self, updates: int) -> None:
        """Read the group's measurements; make all ranks stop after the same step."""
        if self._group is None:
            self._group = _group()
            if self._group is not None:
                self._observer.stop.together(TOGETHER)
        if self._group is not None:
            self._read()

    def _parallel(self) -> list[Any]:
        """Return the models that are wrapped in DistributedDataParallel."""
        roots = (root for _, root in alive(self._observer.roots))
        return [root for root in roots if hasattr(root, "_get_ddp_logging_data")]

    def _read(self) -> None:
        """Read torch's last measurement: the communication time that computation does not hide."""
        for model in self._parallel():
            if id(model) not in self._timed and model.device_type == "cpu":
                model._set_ddp_runtime_logging_sample_rate(_EACH)  # on a GPU it would wait
            times = model._get_ddp_logging_data()
            number, exchange = times.get("iteration", 0), times.get("backward_comm_time", 0)
            if exchange and number != self._timed.get(id(model)) and len(self._waits) < _MOST:
                hidden = times.get("backward_compute_comm_overlap_time", 0)
                self._waits.append(max(0, exchange - hidden) * 1e-9)
            self._timed[id(model)] = number

    # When the run is over.

    def add_to(self, case: Case) -> Case:
        """Add the group, this process's figures, and the calls of set_epoch."""
        loaders = tuple(
            replace(loader, set_epoch=self._epoch_calls[self._samplers[loader.key]])
            if loader.key in self._samplers
            else loader
            for loader in case.loaders
        )
        process = case.process
        if self._group is not None:
            ranks = {name: (value,) for name, value in self._figures(case).items()}
            exchanging = statistics.mean(self._exchanging) if self._exchanging else None
            process = replace(process, **self._group, ranks=ranks, exchanging=exchanging)
        return replace(case, loaders=loaders, process=process)

    def _figures(self, case: Case) -> Mapping[str, float]:
        """Return the seconds of a step by row, without waits for other ranks, and the memory."""
        memory = case.process.allocator.get("peak") or max(case.readings.get("rss_bytes", (0.0,)))
        figures = {"memory": memory} if memory else {}
        if not case.steps.wall:
            return figures
        rows = {row: typical(times) for row, times in case.steps.rows.items() if times}
        figures["step"] = typical(case.steps.wall)
        waits = {"backward": self._waits_of_a_step(case)}
        for stack in case.stacks:
            if stack.row in IN_STEP and stack.passes(*_WAITS):
                waits[stack.row] = waits.get(stack.row, 0.0) + stack.seconds / case.steps.count
        for row, seconds in waits.items():
            waits[row] = min(seconds, rows.get(row, 0.0))
        own = {row: seconds - waits.get(row, 0.0) for row, seconds in rows.items()}
        return {**figures, **own, "communication": sum(waits.values())}

    def _waits_of_a_step(self, case: Case) -> float:
        exchanging = statistics.mean(self._exchanging) if self._exchanging else 1.0
        return typical(self._waits) * exchanging * (case.steps.backwards or 1.0)


def _group() -> dict[str, Any] | None:
    """Return the facts of the process group once there is one of several processes, else None."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    rank, world = distributed.get_rank(), distributed.get_world_size()
    facts = {"rank": rank, "world": world, "backend": distributed.get_backend()}
    return facts if world > 1 else None


hide(globals())
