"""Runs a script or a recipe on a simulated card for a few steps, in a process of its own.

The arguments of the process are a folder for what is written, the request in JSON, and what would
follow `python`. The library of the card is preloaded. The process ends in the middle of
the script, without its `finally` blocks and exit handlers.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core import codec
from hotloop.core.case.rehearsal import CardStep, RehearsedRun
from hotloop.core.storage import files
from hotloop.nullcard import counts as card
from hotloop.observe.experiments import shielded_script
from hotloop.observe.probes.uncaught_exception import raised
from hotloop.observe.wall.step_boundaries import Cadence
from hotloop.process import run_script
from hotloop.process.import_hooks import ImportHooks
from hotloop.rehearse.any_value import take_any_value
from hotloop.rehearse.batch_sizes import BatchSizes
from hotloop.rehearse.card_lines import LineCounter, code_at
from hotloop.rehearse.kernel_kinds import kinds_of
from hotloop.rehearse.prepared_torch import prepare
from hotloop.rehearse.recipe_run import RecipeCommand, train
from hotloop.rehearse.step_work import StepWork

if TYPE_CHECKING:
    from hotloop.core.case.environment import Raised
    from hotloop.core.case.rehearsal import RecipePlan
    from hotloop.nullcard.counts import CardCounts

__all__ = ["RehearsalRequest", "command", "main"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalRequest:
    """What to run, and for how long."""

    result: str  # path for the RehearsedRun
    warm: int  # optimizer steps before the counted ones: caches fill, kernels are compiled
    steps: int  # counted
    seconds: float  # from the start of the process; afterwards the steps so far count
    batch_ratio: float = 1.0  # by which the batch sizes of DataLoaders are multiplied
    closely: bool = True  # look at lines and at the operators in two more steps
    shielded: bool  # the script changes no file and reaches no other machine
    recipe: RecipeCommand | None = None  # None: a script


def command(
    python: str, scratch: str, request: RehearsalRequest, script: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command that starts the process; `script` is what follows `python`."""
    argument = json.dumps(codec.to_json(request))
    return (python, "-c", run_script.starter(__name__), scratch, argument, *script)


def main(argv: list[str]) -> None:
    """Run the script for a few steps; does not return."""
    scratch, request = Path(argv[0]), codec.from_json(RehearsalRequest, json.loads(argv[1]))
    if request.shielded:
        shielded_script.begin(scratch, argv[2:])
    counted = _CountedRun(request)
    if request.recipe is None:
        run_script.run(run_script.ScriptTarget.of(argv[2:]), finished=counted.ended)
        return
    take_any_value()
    error = train(
        request.recipe,
        scratch / "run",
        planned=counted.planned,
        noted=counted.noted,
    )
    counted.ended(error)


class _CountedRun:
    """Counts what each step gives the card to do, and ends the process after enough of them."""

    def __init__(self, request: RehearsalRequest) -> None:
        self._request = request
        is_recipe = request.recipe is not None
        self._seen = RehearsedRun(torch=None, is_recipe=is_recipe, warm=0, ended="")
        self._steps: list[CardStep] = []
        self._cadence = Cadence()
        self._has_optimizer = False
        self._made = 0  # steps
        self._lines, self._work = LineCounter(card.Ticks()), StepWork()
        self._batches = BatchSizes(request.batch_ratio)
        self._ticks = card.Ticks()
        self._began = time.perf_counter()
        self._kernels = set[str]()
        self._leaving = threading.Lock()
        self._arrivals = ImportHooks()
        self._arrivals.when("torch", self._install)
        late = threading.Timer(request.seconds, self._leave, [f"{request.seconds:g} s were over"])
        late.daemon = True
        late.start()

    def _install(self) -> None:
        import torch
        from torch.optim.optimizer import register_optimizer_step_post_hook

        prepare()
        self._seen = replace(self._seen, torch=str(torch.__version__))
        self._batches.install(torch)
        backward: Any = torch.autograd.backward

        def counted(*args: Any, **kwargs: Any) -> None:
            backward(*args, **kwargs)
            if not self._has_optimizer:  # the script updates its weights by itself
                self._seen = replace(self._seen, unit="backward pass")
                self._end_step()

        build: Any = torch.optim.Optimizer.__init__

        def built(*args: Any, **kwargs: Any) -> None:
            build(*args, **kwargs)
            if not self._has_optimizer:  # backward passes before were no training
                self._has_optimizer, self._made = True, 0
                self._steps.clear()
                self._seen = replace(self._seen, unit="optimizer step")

        torch.autograd.backward = counted
        torch.optim.Optimizer.__init__ = built  # type: ignore[method-assign]
        register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, *_: object) -> None:
        if self._cadence.ends(id(optimizer)):
            self._end_step()

    def _end_step(self) -> None:
        seconds = time.perf_counter() - self._began
        self._made += 1
        beyond = self._made - self._request.warm - self._request.steps
        self._lines.stop()
        self._work.stop()
        counts = self._taken()
        if -self._request.steps < beyond <= 0:
            step = CardStep(
                seconds=seconds,
                launches=counts.launches,
                graphs=counts.graphs["launched"],
                waits=dict(counts.waits),
            )
            self._steps.append(step)
        if beyond == (2 if self._request.closely else 0):
            self._leave(f"{self._request.steps} steps were counted")
        if beyond == 0 and not self._seen.is_recipe:
            self._lines.start()
        elif beyond == 1:
            self._work.start(sys.modules["torch"])
        self._began = time.perf_counter()

    def _taken(self) -> CardCounts:
        """Return the counts since the last call."""
        counts, seen = card.counts(), self._seen
        card.reset()
        self._kernels.update(counts.kernels, counts.replayed_kernels)
        self._seen = replace(
            seen,
            peak_reserved=max(seen.peak_reserved, counts.memory["peak"]),
            largest_refused=seen.largest_refused or counts.memory["refused"] > 0,
        )
        return counts

    def planned(self, plan: RecipePlan) -> None:
        """Note how the recipe will train; the steps before were trials."""
        self._made, self._cadence = 0, Cadence()
        self._steps.clear()
        self._taken()
        self._seen = replace(
            self._seen,
            plan=plan,
            batch=plan.micro_batch,
            batch_asked=plan.micro_batch,
            rows=plan.samples,
        )

    def noted(self, text: str) -> None:
        """Note what the recipe tells its user."""
        self._seen = replace(self._seen, notes=(*self._seen.notes, text))

    def ended(self, error: BaseException | None) -> None:
        """Report the steps so far when the script or the recipe has ended."""
        ended = raised(error)
        self._leave(
            f"the {self._seen.what} ended" if ended is None else f"it raised {ended.kind}", ended
        )

    def _leave(self, why: str, ended: Raised | None = None) -> None:
        """Report and end the process; the first thread that comes here does."""
        if not self._leaving.acquire(blocking=False):
            threading.Event().wait()  # until the other thread ends the process
        self._taken()
        report = replace(
            self._seen,
            warm=min(self._made, self._request.warm),
            steps=tuple(self._steps),
            lines=self._lines.lines(),
            why_no_lines=self._lines.why_not,
            ended=why,
            raised=ended,
            raised_code=_code_of(ended),
            work=self._work.work(),
            **({} if self._seen.is_recipe else self._batches.facts()),
            launches=self._ticks.read()[0],
            kernels=kinds_of(self._kernels),
            **_asked_of_torch(),
        )
        files.write_json(Path(self._request.result), codec.to_json(report))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(0)


def _code_of(ended: Raised | None) -> str:
    place = None if ended is None else ended.place
    return "" if place is None or place.line is None else code_at((place.file, place.line))


def _asked_of_torch() -> dict[str, Any]:
    """Return what torch itself knows of the run: its architectures, and the peak of tensors."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return {}
    known: dict[str, Any] = {"architectures": tuple(torch._C._cuda_getArchFlags().split())}
    if torch.cuda.is_initialized():
        known["peak_allocated"] = torch.cuda.memory_stats().get("allocated_bytes.all.peak")
    return known
