"""Trains a recipe for some steps and counts where the host waits for the GPU, and the memory.

    python -m benchmarks.gpu.steps --json FILE [--short] [--leave-mib N] -- RECIPE key=value ...

torch warns of each call that waits (`torch.cuda.set_sync_debug_mode`); waits on streams and events
that are called by name are not among them. A step lasts from the end of the step before it to its
own end, without a validation or a save. With --leave-mib all other memory is taken before step 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import warnings
from collections import Counter
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.gpu.part import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS, SHORT_STEPS, LOG_EVERY = 24, 8, 6
FIRST = 3  # steps that load kernels, make optimizer states and may read what later ones do not
WAITS = "called a synchronizing CUDA operation"


class Waits:
    """The waits of each step by place, and those of validations and saves."""

    def __init__(self) -> None:
        self.steps: list[Counter[str]] = []
        self.notes: list[str] = []  # what the run said at a step
        self.apart: Counter[str] = Counter()
        self._now: Counter[str] = Counter()
        self._depth = 0

    def heard(self, message: Any, category: type, file: str, line: int, *rest: Any) -> None:
        """Count a warning of torch as a wait; other warnings are none of this."""
        del category, rest
        if WAITS in str(message):
            short = os.path.relpath(file) if file.startswith(os.getcwd()) else file
            (self.apart if self._depth else self._now)[f"{short}:{line}"] += 1

    def step(self, method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """End a step after a call of the method."""
        result = method(*arguments, **more)
        self.steps.append(self._now)
        self._now = Counter()
        return result

    def other(self, method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Keep what waits in the method apart from the steps."""
        self._depth += 1
        try:
            return method(*arguments, **more)
        finally:
            self._depth -= 1

    def note(self, method: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Keep the text of a note."""
        self.notes += [word for word in arguments if isinstance(word, str)]
        return method(*arguments, **more)

    def told(self) -> dict[str, Any]:
        """Return the median of a step, the most of one, and the places."""
        counts = [step.total() for step in self.steps[FIRST:]]
        places = sum(self.steps[FIRST:], Counter[str]())
        return {
            "a step": statistics.median(counts) if counts else None,
            "most": max(counts, default=None),
            "steps": len(counts),
            "places": dict(places.most_common()),
            "in validations and saves": dict(self.apart.most_common()),
        }


def _around(owner: type, name: str, around: Callable[..., Any]) -> None:
    method = getattr(owner, name)

    @wraps(method)
    def wrapped(*arguments: Any, **more: Any) -> Any:
        return around(method, *arguments, **more)

    setattr(owner, name, wrapped)


def crowd(left_mib: int) -> torch.Tensor:
    """Return a tensor that takes all of the GPU's free memory but `left_mib`."""
    free, _ = torch.cuda.mem_get_info()
    return torch.empty(max(0, free - (left_mib << 20)), dtype=torch.uint8, device="cuda")


def train(words: list[str], steps: int, out: Path, left_mib: int | None) -> tuple[int, Waits]:
    """Run `hotloop train`; return its exit code and the waits."""
    from hotloop.cli.main import main as hotloop
    from hotloop.engine import checkpoint_policy, loop, metrics_log

    waits, kept = Waits(), list[torch.Tensor]()

    def crowded(method: Callable[..., Any], *arguments: Any) -> Any:
        kept.append(crowd(left_mib or 0))
        return method(*arguments)

    if left_mib is not None:
        _around(loop.Loop, "train", crowded)
    _around(metrics_log.MetricsLog, "note", waits.note)
    _around(metrics_log.MetricsLog, "step", waits.step)
    _around(loop.Loop, "_evaluate", waits.other)
    _around(checkpoint_policy.CheckpointPolicy, "visit", waits.other)
    _around(checkpoint_policy.CheckpointPolicy, "save", waits.other)
    warnings.showwarning = waits.heard  # type: ignore[assignment]
    warnings.simplefilter("always")
    torch.cuda.set_sync_debug_mode("warn")
    recipe, *settings = words
    training = (f"max_steps={steps}", f"log_every={LOG_EVERY}", f"eval_every_steps={steps // 2}")
    fixed = [f"training.{word}" for word in (*training, "eval_batches=1", "warmup_steps=4")]
    try:
        code = hotloop(["train", "-q", recipe, *settings, *fixed, "--out", str(out)])
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return code, waits


def main() -> int:
    """Train, count, write; hotloop's exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--leave-mib", type=int, metavar="N")
    parser.add_argument("words", nargs="+", metavar="RECIPE key=value")
    chosen = parser.parse_args()
    steps = SHORT_STEPS if chosen.short else STEPS
    with tempfile.TemporaryDirectory() as folder:
        code, waits = train(chosen.words, steps, Path(folder, "run"), chosen.leave_mib)
    out = Writer(chosen.json)
    out.put("notes", waits.notes)
    out.put("waits", waits.told())
    allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    retries = torch.cuda.memory_stats().get("num_alloc_retries", 0)
    memory = {"allocated bytes": allocated, "reserved bytes": reserved, "retries": retries}
    out.put("memory", memory)
    return code


if __name__ == "__main__":
    sys.exit(main())
