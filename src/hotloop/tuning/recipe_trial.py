"""Runs a recipe under a plan in the process of a trial, a block of steps at a time.

The steps are bit for bit those that `hotloop train` would begin with. No run folder is created; as
after a rehearsal, only the cache of tokens and forecasts stays. After the last batch of an epoch
the next epoch begins; a trial runs until the parent ends it.
"""

from __future__ import annotations

import functools
import gc
import json
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.config.schema import flatten
from hotloop.core.env import ENV
from hotloop.core.errors import DeviceError, HotloopError, PlanError
from hotloop.core.plan import Plan
from hotloop.jobs.request import saved_request
from hotloop.machine.clock import clock, process_began
from hotloop.machine.gc_pause import collector_off
from hotloop.process import run_script
from hotloop.process.preload import saved_seconds
from hotloop.session.ranks import SINGLE_PROCESS
from hotloop.tuning.first_step_record import Witness
from hotloop.tuning.script_trial import by_id, device_peak, wait
from hotloop.tuning.step_gate import Gate, Ungated
from hotloop.tuning.trial_ranks import ranks_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from hotloop.core.effect import Effect
    from hotloop.engine.wall_time import WallTime
    from hotloop.jobs.first_steps import FirstSteps
    from hotloop.jobs.job import PreparedRun
    from hotloop.jobs.request import RunRequest
    from hotloop.session.ranks import ProcessGroup
    from hotloop.session.session import Session

__all__ = ["RecipeTrial", "assembled", "command", "main", "record_of", "serve"]

_SETTLED: Final = 10  # steps before a validation and a save are timed, as first steps load code


def record_of(request: RunRequest) -> dict[str, object]:
    """Return a request without its plan as JSON values, in the form of run.json."""
    return {
        "recipe": request.recipe.name,
        "config": flatten(request.config),
        "origins": dict(request.origins),
    }


def command(
    channel: int,
    plan: Plan,
    request: Mapping[str, object],
    *,
    aside: Path | None = None,
    module: str = __name__,
    loop: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the command that starts a trial; `request` is a `record_of`.

    With the folder `aside`, a validation and a save into it are timed once, between two blocks; the
    save is removed. `module` has the `main` of another loop over the same session, and `loop` its
    options.
    """
    requested = {
        "channel": channel,
        "plan": plan.to_json(),
        "request": dict(request),
        "aside": None if aside is None else str(aside),
        "loop": loop,
    }
    return [sys.executable, "-c", run_script.starter(module), json.dumps(requested)]


def main(argv: list[str]) -> None:
    """Make steps until the parent ends this process; does not return."""
    serve(RecipeTrial, argv)


def serve(kind: type[RecipeTrial], argv: list[str]) -> None:
    """Run a trial in this process; a HotloopError becomes the last line on stderr."""
    try:
        kind(json.loads(argv[0])).run()
    except HotloopError as error:
        raise SystemExit(" ".join(str(error).split())) from None


class RecipeTrial:
    """Makes steps and records evidence. Each rank has one; the gate is that of rank 0."""

    # All of these are set before the first step.
    prepared: PreparedRun
    session: Session
    wall_time: WallTime
    _first_steps: FirstSteps
    _generators: Mapping[str, Tensor]  # as they were

    def __init__(self, requested: Mapping[str, Any]) -> None:
        self.requested = requested
        self._witness = Witness()
        self._effects: list[Effect] = []
        self._aside: dict[str, Any] | None = None
        self._world = Plan.from_json(requested["plan"]).ranks
        self._gate: Gate | Ungated = Ungated()
        if self._world == 1 or ENV.rank == 0:
            line = socket.socket(fileno=requested["channel"])
            self._gate = Gate(line, wait=wait, more=self._more, saved=saved_seconds)

    def run(self) -> None:
        """Build the session as the engine does, and make its steps."""
        with ranks_of(self._world) as ranks:
            self._run(ranks)

    def _run(self, ranks: ProcessGroup) -> None:
        self.prepared = prepared = assembled(self.requested, ranks)
        from hotloop.engine.checkpoint.state import rng_state
        from hotloop.engine.signals import Signals
        from hotloop.engine.wall_time import WallTime
        from hotloop.jobs.first_steps import FirstSteps
        from hotloop.jobs.run import set_up
        from hotloop.jobs.start_point import start_weights

        self.wall_time, signals = WallTime(clock, began=process_began()), Signals()
        self.session, self._effects, position = set_up(
            prepared,
            lambda s: start_weights(prepared, s, _unheard),
            self.wall_time,
            signals,
            _unheard,
        )
        self.wall_time.mark("start")
        self._first_steps = FirstSteps(
            prepared,
            self.session,
            position,
            wall_time=self.wall_time,
            signals=signals,
            notify=_unheard,
            before_update=self.before_update,
        )
        self.session.model.train()
        self._generators = rng_state(self.session.device)
        self.train()

    def train(self) -> None:
        """Make the engine's steps until this process is ended."""
        # Reading a loss synchronises; the engine's loop reads late if the session lags reads.
        lags, training = self.session.stepping.lag_reads, self.prepared.request.config.training
        every = training.log_every if lags else 1
        while True:
            loss = self._first_steps.step()
            if self._first_steps.made % every == 0:
                loss.item()
            if self._first_steps.halved:
                size = self.prepared.plan.micro_batch
                raise DeviceError(f"out of memory with a micro batch of {size}")
            self.stepped()

    @property
    def epochs(self) -> int:
        """Number of epochs begun."""
        return self._first_steps.epochs

    def before_update(self, loss: Tensor) -> None:
        """Record the loss of a step, a scalar, and its complete gradients."""
        self._witness.loss(loss)
        if self._witness.is_done:
            return
        if not self._witness.steps:
            from hotloop.engine.checkpoint.state import rng_state

            now = rng_state(self.session.device)
            same = (state.equal(now[name]) for name, state in self._generators.items())
            self._witness.draws = not all(same)
        optimizer, scaler = self.session.optimizer, self.session.scaler
        assert optimizer is not None
        groups = [group["params"] for group in optimizer.param_groups]
        self._witness.gradients(groups, scale=scaler.get_scale() if scaler else None)

    def stepped(self) -> None:
        """Count a finished step; rest if it is the last of its block."""
        self._witness.stepped()
        self._gate.ended()
        self.wall_time.mark("other")  # the rest, while other trials run, is not data wait

    def _more(self) -> Mapping[str, Any]:
        """Return the contents of a report besides the seconds of a block."""
        rows = self.wall_time.rows()
        return {
            "effects": by_id(self._effects),
            "peak": device_peak(),
            "epochs": self.epochs,
            "evidence": self._witness.news(),
            "start": rows["start"],
            "compile": rows["compile"],
            "data_wait": rows["data wait"] / self._gate.steps,
            "aside": self._timed_aside(),
            "cpu": time.process_time(),  # last, so that the next block excludes what is timed aside
        }

    def _timed_aside(self) -> dict[str, Any] | None:
        """Return the seconds of a validation's micro batches and of a save, or None.

        They are timed if requested, in a single process only, as all ranks would have to take part.
        """
        folder = self.requested.get("aside") if self._world == 1 else None
        if folder is not None and self._aside is None and self._gate.steps >= _SETTLED:
            validation, save = self._first_steps.validations(), self._first_steps.save(Path(folder))
            self._aside = {"validation": validation, "save": save}
        return self._aside


def assembled(requested: Mapping[str, Any], ranks: ProcessGroup = SINGLE_PROCESS) -> PreparedRun:
    """Assemble the run that a trial's argument requests; load torch as `hotloop train` does.

    Raises PlanError if the samples of the plan's step differ from the request's batch size, and the
    errors of `assemble`.
    """
    _load()
    from hotloop.jobs.job import assemble

    request, plan = saved_request(requested["request"]), Plan.from_json(requested["plan"])
    batch = request.config.training.batch_size
    if not plan.makes(batch):
        whole = plan.micro_batch * plan.accumulation * plan.ranks
        raise PlanError(f"the plan makes steps of {whole} samples, training.batch_size is {batch}")
    return assemble(request, _unheard, lambda: None, plan=plan, ranks=ranks)


@functools.cache
def _load() -> None:
    """Import torch and the engine once, and freeze their objects in the garbage collector.

    A second call would also freeze the objects of an earlier run, which would never be freed.
    """
    with collector_off():
        import hotloop.jobs.job  # noqa: F401

    gc.freeze()


def _unheard(message: object) -> None:
    del message
