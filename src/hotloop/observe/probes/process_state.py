"""The process around the training: switches, threads, garbage, files, output, other processes.

Everything here is read once or counted; nothing is changed. The script's output passes through
unchanged; lines about settings are kept as well.
"""

from __future__ import annotations

import builtins
import functools
import gc
import io
import os
import re
import statistics
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.env import ENV, named
from hotloop.machine.kept_memory import fault_seconds, page_faults
from hotloop.machine.threads import load, others
from hotloop.observe.hooks.hooks import StandIn
from hotloop.observe.hooks.listener import Probe
from hotloop.observe.hooks.stack_frames import here
from hotloop.observe.probes.config_files import Configs
from hotloop.process.internal_frames import as_caller, hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation
    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["Surroundings"]

NAMES = (
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TOKENIZERS_PARALLELISM",
    "TORCH_LOGS",
)
_SPEAKS = re.compile(
    r"warning|trainable|param|lora|frozen|freez|fallback|falling back|synthetic|dummy|fake |"
    r"random |not found|failed|precision|fp16|bf16|amp|compil|flash|attention|throughput|/s\b|"
    r"speed|faster|reduc|MFU",
    re.IGNORECASE,
)
MOST_LINES, MOST_FILES = 200, 500
_STEPS = 1000  # whose page faults are counted
_ALIKE = 20  # kept lines that differ only in their figures: a progress bar has thousands
_WORDS = re.compile(r"[^A-Za-z]+")


class Surroundings(Probe):
    """Observes the process. Call `start` before the script and `add_to` after it."""

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks
        self._gc_began = 0
        self._pauses: list[tuple[int, int, float]] = []  # (ns, generation, seconds)
        self._lines: list[tuple[str, int, float]] = []  # text, updates before, seconds
        self._alike: Counter[str] = Counter()
        self._teed: list[tuple[Any, Any]] = []  # streams, and their replaced `write`
        self._opened: dict[str, SourceLocation | None] = {}
        self._failed: dict[str, SourceLocation] = {}
        self._configs = Configs()
        self._threads: list[SourceLocation] = []
        self._load = load()
        self._faults: list[int] = []  # so far, after each of the first steps
        self._switches = psutil.Process().num_ctx_switches().involuntary
        self._began = time.perf_counter()
        self._throttled = _throttled()
        self._looking = True
        self._late_graphs: int | None = None
        self._aids: dict[str, str] = {}  # switches that `with` blocks set, at the last look
        self._shm: float | None = None  # the highest use

    def start(self, *, output: bool, files: bool) -> None:
        """Count the collector's pauses; keep lines with `output`, note files with `files`."""
        gc.callbacks.append(self._collected)
        if output:
            for stream in (sys.stdout, sys.stderr):
                self._tee(stream)
        if files:
            opening = self._opening(builtins.open)
            for module in (builtins, io):
                self._hooks.replace(module, "open", opening)

    def stop(self) -> None:
        """Stop observing."""
        self._looking = False
        if self._collected in gc.callbacks:
            gc.callbacks.remove(self._collected)
        for stream, writing in self._teed:
            if stream.__dict__.get("write") is writing:  # else somebody has replaced it
                del stream.write

    def on_torch_imported(self) -> None:
        """Note who sets the number of threads, after torch has been imported."""
        import torch

        for name in ("set_num_threads", "set_num_interop_threads"):
            self._hooks.replace(torch, name, self._noting(getattr(torch, name)))

    def after_step(self, updates: int) -> None:
        """Count the graphs that are compiled after 20 updates; read the use of shared memory.

        Workers free their batches when they end, so shared memory is read while they run.
        """
        if len(self._faults) < _STEPS and (faults := page_faults()) is not None:
            self._faults.append(faults)
        if (used := _shm_used()) is not None:
            self._shm = max(self._shm or 0.0, used)
        self._aids = _aids()
        if updates >= 20 and self._late_graphs is None:
            self._late_graphs = _graphs()[0]

    def _noting(self, old: Callable[[int], None]) -> Callable[[int], None]:
        @functools.wraps(old)
        def set_threads(number: int) -> None:
            place = self._hooks.guarded(here)
            if place is not None:
                self._threads.append(place)
            old(number)

        return set_threads

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_began = time.perf_counter_ns()
        elif self._gc_began:
            seconds = (time.perf_counter_ns() - self._gc_began) / 1e9
            self._pauses.append((self._gc_began, info["generation"], seconds))

    def within(self, first: int, last: int) -> None:
        """Drop the collector's pauses outside of `first` to `last` (ns of perf_counter)."""
        self._pauses = [pause for pause in self._pauses if first <= pause[0] <= last]

    def _tee(self, stream: Any) -> None:
        try:
            stream.write = writing = self._writing(stream.write)
        except AttributeError:  # not one of Python's streams: its lines are not read
            return
        self._teed.append((stream, writing))

    def _writing(self, write: Callable[[str], int]) -> Callable[[str], int]:
        @functools.wraps(write)
        def writing(text: str) -> int:
            if self._looking and len(self._lines) < MOST_LINES and _SPEAKS.search(text):
                self._keep(text)
            return write(text)

        return StandIn(write, writing)

    def _keep(self, text: str) -> None:
        seconds = (time.perf_counter_ns() - self._hooks.events.started) / 1e9
        for line in text.splitlines():
            words = _WORDS.sub(" ", line)[:80]
            if _SPEAKS.search(line) and self._alike[words] < _ALIKE:
                self._alike[words] += 1
                self._lines.append((line[:400], self._hooks.updates, seconds))

    def _opening(self, old: Callable[..., Any]) -> Callable[..., Any]:
        """Return `open` with a hook that reads its arguments.

        An audit hook would see more but cost more: Python calls it at every id(), which torch's
        optimizers call for each parameter (1.7 us each, AMD EPYC, Python 3.11).
        """

        @functools.wraps(old)
        def opening(*args: Any, **kwargs: Any) -> Any:
            if self._looking and len(self._opened) < MOST_FILES:
                self._hooks.quietly(self._note, *args[:2], **kwargs)
            if sys.flags.warn_default_encoding or 1 in (*args[2:3], kwargs.get("buffering")):
                return as_caller(sys._getframe(1), old, args, kwargs)  # its warning names a caller
            return old(*args, **kwargs)

        return StandIn(old, opening)

    def _note(self, file: Any = None, mode: Any = "r", **_: Any) -> None:
        path = str(file) if isinstance(file, PurePath) else file  # no foreign __str__ is called
        if not isinstance(path, str):
            return
        self._configs.opened(path, reading="r" in str(mode))
        if "r" not in str(mode):
            return
        if path not in self._opened and not path.endswith((".py", ".pyc", ".so")):
            place = here(imports=False)  # an import tries many absent files
            if place is not None:
                self._opened[os.path.abspath(path)] = place
                if not os.path.exists(path):
                    self._failed[os.path.abspath(path)] = place

    def _throttling(self) -> float | None:
        before, now = self._throttled, _throttled()
        if before is None or now is None or now[0] == before[0]:
            return None
        return (now[1] - before[1]) / (now[0] - before[0])

    def add_to(self, case: Case) -> Case:
        """Add the facts of the process, and the configuration files."""
        now, seconds = load(), time.perf_counter() - self._began
        graphs, breaks, reasons = _graphs()
        opened = {path: place for path, place in self._opened.items() if os.path.isfile(path)}
        failed = {path: at for path, at in self._failed.items() if not os.path.exists(path)}
        faults = [after - before for before, after in pairwise(self._faults)]
        involuntary = psutil.Process().num_ctx_switches().involuntary - self._switches
        process = replace(
            case.process,
            **_torch(self._aids),
            thread_places=tuple(dict.fromkeys(self._threads)),
            environment=named(NAMES),
            gc_seconds=sum(seconds for _, _, seconds in self._pauses),
            gc_full=sum(generation == 2 for _, generation, _ in self._pauses),
            gc_longest=max((seconds for _, _, seconds in self._pauses), default=0.0),
            involuntary_switches=involuntary / seconds if seconds else None,
            page_faults=statistics.median(faults) if faults else None,
            fault_seconds=fault_seconds() if faults else 0.0,
            throttled=self._throttling(),
            other_cores=others(self._load, now) if now.at > self._load.at + 0.2 else None,
            machine_cores=psutil.cpu_count(),
            graphs=graphs,
            graph_breaks=breaks,
            break_reasons=reasons,
            late_graphs=max(0, graphs - self._late_graphs) if self._late_graphs is not None else 0,
            compile_seconds=case.row("compile"),
            shm_used=self._shm,
            children=len(psutil.Process().children(recursive=True)),
            rank=ENV.rank,
            world=ENV.world,
            warnings=tuple(line for line, *_ in self._lines if "Warning" in line),
            output=tuple(line for line, *_ in self._lines[:MOST_LINES]),
            output_at=tuple((updates, at) for _, updates, at in self._lines[:MOST_LINES]),
            opened=tuple(opened)[:MOST_FILES],
            failed=tuple(failed),
            failed_at=tuple(failed.values()),
        )
        return self._configs.add_to(replace(case, process=process))


def _graphs() -> tuple[int, int, tuple[str, ...]]:
    """Return Dynamo's graphs, its breaks and their reasons, without importing it."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return 0, 0, ()
    counters = utils.counters  # the counts behind TORCH_LOGS
    breaks = counters["graph_break"]
    return counters["stats"]["unique_graphs"], sum(breaks.values()), tuple(map(str, breaks))[:10]


def _aids() -> dict[str, str]:
    """Return the switches that are often on only inside a `with` block."""
    torch: Any = sys.modules["torch"]
    return {
        "anomaly_detection": str(torch.is_anomaly_enabled()),
        "profiler": str(torch.autograd._profiler_enabled()),
    }


def _torch(aids: dict[str, str]) -> dict[str, Any]:
    """Return torch's threads and switches if torch was imported; `aids` are earlier readings."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    from hotloop.machine.float32_precision import precision

    backends = torch.backends
    switches = {
        "cuda.matmul.fp32_precision": getattr(backends.cuda.matmul, "fp32_precision", "unknown"),
        "cudnn.benchmark": backends.cudnn.benchmark,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32_matmul_precision": precision() or "mixed",
    }
    return {
        "threads": torch.get_num_threads(),
        "interop": torch.get_num_interop_threads(),
        "switches": {**{name: str(on) for name, on in switches.items()}, **(aids or _aids())},
    }


def _throttled() -> tuple[int, int] | None:
    """Return the cgroup's CPU periods and how many of them were throttled."""
    try:
        with open("/sys/fs/cgroup/cpu.stat", encoding="ascii") as file:
            counters = dict(line.split() for line in file)
        return int(counters["nr_periods"]), int(counters["nr_throttled"])
    except (OSError, KeyError, ValueError):  # no cgroup of version 2 here
        return None


def _shm_used() -> float | None:
    try:
        usage = psutil.disk_usage("/dev/shm")
    except OSError:
        return None
    return float(usage.used / usage.total) if usage.total else None


hide(globals())
