"""Records the messages of a trial and how busy it keeps its device."""

from __future__ import annotations

import statistics
import threading
from typing import TYPE_CHECKING, Any, Final

from hotloop.machine.detect import gpu_handle, import_nvml
from hotloop.machine.nvml import look
from hotloop.tuning.trial_process import TrialProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.tuning.trial_process import TrialReport

__all__ = ["GpuWatch", "TrialListener"]

_EVERY: Final = 0.2  # seconds between two looks; the driver renews its figures every 0.17 s or so
_WARM: Final = 11  # steps before the first timed block


class GpuWatch:
    """Samples a GPU while a block runs. `read` returns the readings by machine.nvml's names."""

    def __init__(self, read: Callable[[], Mapping[str, float]], *, every: float = _EVERY) -> None:
        self._read, self._every = read, every
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.seen: list[Mapping[str, float]] = []

    @classmethod
    def of(cls, uuid: str, nvml: Any = None) -> GpuWatch | str:
        """Return a watch of the GPU with that uuid, or why it cannot be watched."""
        nvml = nvml or import_nvml()
        if nvml is None:
            return "nvidia-ml-py is not installed: pip install 'hotloop[gpu]'"
        handle = gpu_handle(uuid, nvml)
        if handle is None:
            return "the driver does not show this GPU to NVML"
        return cls(lambda: look(nvml, handle, own=())[0])

    def __enter__(self) -> GpuWatch:
        self._over.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        assert self._thread is not None
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._every):
            self.seen.append(self._read())

    def values(self, name: str) -> list[float]:
        """Return the readings of one kind, by name."""
        return [reading[name] for reading in self.seen if name in reading]


class TrialListener(TrialProcess):
    """Keeps the last message of a trial and the readings of its timed blocks."""

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        *,
        watch: GpuWatch | None = None,
        memory: int | None = None,
    ) -> None:
        self.message: Mapping[str, Any] = {}
        self.watch, self._made = watch, 1
        self._cpu, self._wall = 0.0, 0.0  # seconds of the timed blocks
        super().__init__(command, memory=memory)

    def first(self, *, seconds: float) -> TrialReport:
        """Wait for the end of the first step; raise TrialEnded if the trial ends."""
        report = super().first(seconds=seconds)
        self.message = report.more
        return report

    def block(self, steps: int, *, seconds: float) -> TrialReport:
        """Have the trial make `steps` steps; raise TrialEnded if it ends."""
        before, is_timed = float(self.message["cpu"]), self._made >= _WARM
        if self.watch is None or not is_timed:
            report = super().block(steps, seconds=seconds)
        else:
            with self.watch:
                report = super().block(steps, seconds=seconds)
        self.message, self._made = report.more, report.at
        if is_timed:
            self._cpu += float(self.message["cpu"]) - before
            self._wall += report.seconds
        return report

    @property
    def busy_cores(self) -> float | None:
        """Return how many cores the process kept busy in its timed blocks."""
        return self._cpu / self._wall if self._wall else None

    @property
    def gpu(self) -> Mapping[str, float]:
        """Return the mean utilisation (0..1) and the highest temperature (C), if they were read."""
        if self.watch is None:
            return {}
        busy = self.watch.values("gpu_utilisation")
        heat = self.watch.values("gpu_temperature_c")
        return {
            **({"gpu_util": statistics.fmean(busy)} if busy else {}),
            **({"temperature_c": max(heat)} if heat else {}),
        }
