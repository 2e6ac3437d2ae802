"""Runs a training script for a few steps in a child process, with one cost removed, or profiled.

The first argument of the child is its request in JSON; the script and its arguments follow. The
script itself runs, and writes its usual files in its first steps (with "no logging" its saves are
discarded from the first step on). The process ends in the middle of the script, without its
`finally` blocks and exit handlers, so that nothing is saved at the end.
"""

import json
import os
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from hotloop.core import codec
from hotloop.core.case.environment import Operator
from hotloop.core.storage import files
from hotloop.observe.wall.step_boundaries import Cadence
from hotloop.observe.whatif.without_one_cost import Patches, no_logging, no_optimizer, no_writing
from hotloop.process import run_script
from hotloop.process.import_hooks import ImportHooks

if TYPE_CHECKING:
    from hotloop.observe.probes.operators import Profile
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["Kind", "ShortRunRequest", "ShortRunResult", "command", "main"]

Kind = Literal["baseline", "compute", "no logging", "no optimizer", "loader alone", "profile"]

PROFILED: Final = 4  # steps: enough to average over, few enough to keep all their events
_LEARN: Final = 3  # steps after which the loaders that feed training are known
_MANUAL: Final = 4  # backward passes per requested step after which a pass counts as a step
_NO_LOADER: Final = "no DataLoader was read in training; hand-made batches cannot be replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRunRequest:
    """The request for a short run."""

    kind: Kind
    result: str  # path for the ShortRunResult
    steps: int = 40  # timed
    warm: int = 5  # untimed steps before
    seconds: float = 120.0  # from the start of the process; afterwards the steps so far count


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortRunResult:
    """The result of a short run."""

    step_time: tuple[float, ...] = ()  # seconds; for "loader alone" of the batches of one step
    why: str | None = None  # why there are fewer steps than requested
    operators: tuple[Operator, ...] = ()


def command(request: ShortRunRequest, script: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the child."""
    argument = json.dumps(codec.to_json(request))
    return (sys.executable, "-c", run_script.starter(__name__), argument, *script)


def main(argv: list[str]) -> None:
    """Run the script for a few steps; does not return."""
    short = _ShortRun(codec.from_json(ShortRunRequest, json.loads(argv[0])))
    run_script.run(run_script.ScriptTarget.of(argv[1:]), finished=short.script_ended)


class _ShortRun:
    """Counts steps, and ends the process after enough of them."""

    def __init__(self, request: ShortRunRequest) -> None:
        self._request = request
        self._patches, self._arrivals = Patches(), ImportHooks()
        self._cadence = Cadence()
        self._steps, self._backwards = _Clock(), _Clock()
        self._loaders: Loaders | None = None
        self._profile: Profile | None = None
        self._deadline = time.monotonic() + request.seconds
        self._arrivals.when("torch", self._install)

    def _install(self) -> None:
        """Install the patches and hooks in PyTorch."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        from hotloop.observe.whatif.batch_replay import Loaders

        if self._request.kind == "no optimizer":
            no_optimizer(self._patches)
        if self._request.kind == "no logging":
            no_logging(self._patches, self._arrivals)
        if self._request.kind in ("compute", "loader alone"):
            self._loaders = Loaders(self._patches, replay=self._request.kind == "compute")
        backward = torch.autograd.backward

        def counted(*args: Any, **kwargs: Any) -> None:
            backward(*args, **kwargs)
            self._backward()

        self._patches.put(torch.autograd, "backward", counted)
        register_optimizer_step_post_hook(self._stepped)

    def _backward(self) -> None:
        if self._loaders:
            self._loaders.backward()
        self._backwards.mark()
        if not self._steps.marks:
            most_passes = _MANUAL * (self._request.warm + self._request.steps)
            if self._backwards.marks > most_passes or time.monotonic() > self._deadline:
                self._leave()

    def _stepped(self, optimizer: Any, *_: object) -> None:
        if self._cadence.ends(id(optimizer)):
            self._steps.mark()
            self._step_ended(self._steps.marks)

    def _step_ended(self, steps: int) -> None:
        request = self._request
        if self._loaders:
            self._loaders.step()
        if request.kind == "no logging" and steps == 1:
            no_writing(self._patches, os.getcwd())
        if request.kind == "profile":
            self._profile_step(steps - request.warm)
        if request.kind == "loader alone" and steps == _LEARN:
            self._leave()
        if steps > request.warm + request.steps or time.monotonic() > self._deadline:
            self._leave()

    def _profile_step(self, step: int) -> None:
        from hotloop.observe.probes.operators import Profile

        if step == 0:
            self._profile = Profile()
            self._profile.start()
        elif step == PROFILED and self._profile:
            self._profile.look_for_lines()
        elif step == PROFILED + 1:
            self._leave()

    def script_ended(self, error: BaseException | None) -> None:
        """Report the steps so far when the script has ended (run_script.run calls it)."""
        if isinstance(error, SystemExit) and not error.code:
            error = None
        self._leave("the script ended" + (f" with {error!r:.300}" if error is not None else ""))

    def _leave(self, why: str | None = None) -> None:
        report = self._report(why)
        self._patches.undo()
        files.write_json(Path(self._request.result), codec.to_json(report))
        os._exit(0)

    def _report(self, why: str | None) -> ShortRunResult:
        clock = self._steps if self._steps.marks > 1 else self._backwards
        times = clock.times()[self._request.warm :][: self._request.steps]
        if self._request.kind in ("no optimizer", "profile") and not self._steps.marks:
            return ShortRunResult(why=why or "no optimizer was stepped")
        if self._request.kind == "profile":
            return self._profiled(why, clock.times())
        if self._request.kind == "loader alone":
            return self._alone(why)
        if len(times) < self._request.steps:
            why = why or f"{self._request.seconds:g} s were over"
            why = f"{why} after {len(times)} timed steps of {self._request.steps}"
        if self._loaders and not self._loaders.replayed:
            few = "too few batches were read" if self._loaders.training else _NO_LOADER
            return ShortRunResult(why=why or few)
        return ShortRunResult(step_time=tuple(times), why=why)

    def _alone(self, why: str | None) -> ShortRunResult:
        from hotloop.observe.whatif.batch_replay import alone

        training = self._loaders.training if self._loaders else []
        if not training:
            return ShortRunResult(why=why or _NO_LOADER)
        per_step = [0.0] * self._request.steps
        for loader, batches in training:
            times = alone(loader, self._request.steps, self._request.warm)
            sums = zip(per_step, times, strict=False)
            per_step = [total + batches * seconds for total, seconds in sums]
        return ShortRunResult(step_time=tuple(per_step), why=why)

    def _profiled(self, why: str | None, times: list[float]) -> ShortRunResult:
        warm = self._request.warm
        profiled = times[warm - 1 :][:PROFILED]
        if self._profile is None or len(profiled) < PROFILED:
            return ShortRunResult(why=why or f"fewer than {warm + PROFILED} steps were made")
        step_time = sum(profiled) / PROFILED
        operators = self._profile.operators(steps=PROFILED, step_time=step_time)
        return ShortRunResult(step_time=tuple(profiled), operators=operators)


class _Clock:
    """Times of step ends: on a CUDA GPU by its events, which do not wait."""

    def __init__(self) -> None:
        self._host_times: list[float] = []
        self._gpu: list[Any] = []

    @property
    def marks(self) -> int:
        """Return how many step ends there were."""
        return len(self._host_times)

    def mark(self) -> None:
        """Note the end of a step."""
        torch: Any = sys.modules["torch"]
        self._host_times.append(time.perf_counter())
        if torch.cuda.is_initialized():
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._gpu.append(event)

    def times(self) -> list[float]:
        """Return the seconds between marks."""
        if len(self._gpu) != len(self._host_times):
            return [end - start for start, end in pairwise(self._host_times)]
        if self._gpu:
            self._gpu[-1].synchronize()
        pairs = zip(self._gpu, self._gpu[1:], strict=False)
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]  # they are in ms
