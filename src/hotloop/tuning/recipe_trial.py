"""A recipe under a plan, a block of steps at a time: what runs in the process of a trial.

The steps are those that `hotloop train` would begin with, bit for bit. No run folder is made; as
after a rehearsal, all that stays is the cache of tokens and forecasts. Where the data end, the next
epoch begins: a trial is over when the parent has seen enough.
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
from hotloop.session.ranks import SINGLE_PROCESS
from hotloop.tuning.first_step_record import Witness
from hotloop.tuning.script_trial import device_peak, wait
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

_SETTLED: Final = 10  # steps before a validation and a save are timed, which need what steps load


def record_of(request: RunRequest) -> dict[str, object]:
    """Return a request as JSON values, the way run.json keeps it; its plan is not among them."""
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
    """Return the command that starts the trial of a `record_of`.

    With `aside`, a folder, a validation and a save in it are timed once, between two blocks;
    nothing of the save stays. `module` has the `main` of another loop over the same session, and
    `loop` is what it is to do.
    """
    asked = {
        "channel": channel,
        "plan": plan.to_json(),
        "request": dict(request),
        "aside": None if aside is None else str(aside),
        "loop": loop,
    }
    return [sys.executable, "-c", run_script.starter(module), json.dumps(asked)]


def main(argv: list[str]) -> None:
    """Make steps until the parent has seen enough; does not return."""
    serve(RecipeTrial, argv)


def serve(kind: type[RecipeTrial], argv: list[str]) -> None:
    """Run a trial in this process; what hotloop refuses is the last line on stderr."""
    try:
        kind(json.loads(argv[0])).run()
    except HotloopError as error:
        raise SystemExit(" ".join(str(error).split())) from None


class RecipeTrial:
    """Makes steps, keeps evidence. Of several ranks each has one, and the first one rests."""

    # All of these are set before the first step.
    parts: PreparedRun
    session: Session
    wall_time: WallTime
    _tried: FirstSteps
    _generators: Mapping[str, Tensor]  # as they were

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = asked
        self._witness = Witness()
        self._effects: list[Effect] = []
        self._aside: dict[str, Any] | None = None
        self._world = Plan.from_json(asked["plan"]).ranks
        self._gate: Gate | Ungated = Ungated()
        if self._world == 1 or ENV.rank == 0:
            line = socket.socket(fileno=asked["channel"])
            self._gate = Gate(line, wait=wait, more=self._more)

    def run(self) -> None:
        """Build the session as the engine does, and make its steps."""
        with ranks_of(self._world) as ranks:
            self._run(ranks)

    def _run(self, ranks: ProcessGroup) -> None:
        self.parts = parts = assembled(self.asked, ranks)
        from hotloop.engine.checkpoint.state import rng_state
        from hotloop.engine.signals import Signals
        from hotloop.engine.wall_time import WallTime
        from hotloop.jobs.first_steps import FirstSteps
        from hotloop.jobs.run import set_up
        from hotloop.jobs.start_point import start_weights

        self.wall_time, signals = WallTime(clock, began=process_began()), Signals()
        self.session, self._effects, at = set_up(
            parts, lambda s: start_weights(parts, s, _unheard), self.wall_time, signals, _unheard
        )
        self.wall_time.mark("start")
        self._tried = FirstSteps(
            parts,
            self.session,
            at,
            wall_time=self.wall_time,
            signals=signals,
            tell=_unheard,
            before_update=self.before_update,
        )
        self.session.model.train()
        self._generators = rng_state(self.session.device)
        self.train()

    def train(self) -> None:
        """Make the engine's steps without an end."""
        # The loop reads losses that late where the session says so, and reading one waits.
        lags, training = self.session.stepping.lag_reads, self.parts.request.config.training
        every = training.log_every if lags else 1
        while True:
            loss = self._tried.step()
            if self._tried.made % every == 0:
                loss.item()
            if self._tried.halved:
                size = self.parts.plan.micro_batch
                raise DeviceError(f"out of memory with a micro batch of {size}")
            self.stepped()

    @property
    def epochs(self) -> int:
        """Epochs begun."""
        return self._tried.epochs

    def before_update(self, loss: Tensor) -> None:
        """Keep the loss of a step, a scalar, and its gradients, which are whole."""
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
        """Note the end of a step; rest when it is the last of its block."""
        self._witness.stepped()
        self._gate.ended()
        self.wall_time.mark(
            "other"
        )  # the rest, in which others have the machine, is no wait for data

    def _more(self) -> Mapping[str, Any]:
        """Return what the parent wants to know besides the seconds of a block."""
        effects = {e.technique.partition("(")[0]: (e.word, e.how) for e in self._effects}
        rows = self.wall_time.rows()
        return {
            "effects": effects,
            "peak": device_peak(),
            "epochs": self.epochs,
            "evidence": self._witness.news(),
            "start": rows["start"],
            "compile": rows["compile"],
            "data_wait": rows["data wait"] / self._gate.steps,
            "aside": self._timed_aside(),
            "cpu": time.process_time(),  # last: what is timed aside is no part of the next block
        }

    def _timed_aside(self) -> dict[str, Any] | None:
        """Return the seconds of a validation's micro batches and of a save, where asked for.

        Of several ranks none are: all of them would have to rest.
        """
        folder = self.asked.get("aside") if self._world == 1 else None
        if folder is not None and self._aside is None and self._gate.steps >= _SETTLED:
            validation, save = self._tried.validations(), self._tried.save(Path(folder))
            self._aside = {"validation": validation, "save": save}
        return self._aside


def assembled(asked: Mapping[str, Any], ranks: ProcessGroup = SINGLE_PROCESS) -> PreparedRun:
    """Return what the argument of a trial asks for, with torch loaded as `hotloop train` does.

    Raises PlanError where a step of the plan is of another size than the request's, and what
    `assemble` raises.
    """
    _load()
    from hotloop.jobs.job import assemble

    request, plan = saved_request(asked["request"]), Plan.from_json(asked["plan"])
    batch = request.config.training.batch_size
    if not plan.makes(batch):
        whole = plan.micro_batch * plan.accumulation * plan.ranks
        raise PlanError(f"the plan makes steps of {whole} samples, training.batch_size is {batch}")
    return assemble(request, _unheard, lambda: None, plan=plan, ranks=ranks)


@functools.cache
def _load() -> None:
    """Import torch and the engine, once; the collector begins after them, and never looks at them.

    A second time it would be kept from what was assembled before, which then stays for ever.
    """
    with collector_off():
        import hotloop.jobs.job  # noqa: F401

    gc.freeze()


def _unheard(message: object) -> None:
    del message
