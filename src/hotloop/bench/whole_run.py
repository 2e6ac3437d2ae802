"""Runs a small epoch of `hotloop train` in a child and compares its wall time with the forecast."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.bench.rates import forecast_epoch
from hotloop.bench.result import Epoch
from hotloop.config.schema import flatten
from hotloop.config.settings import rebuild
from hotloop.core.storage.files import make_folder, write_json
from hotloop.jobs.job import assemble
from hotloop.process import child

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hotloop.core.trial import Trial
    from hotloop.jobs.job import PreparedRun
    from hotloop.jobs.request import RunRequest

__all__ = ["make_epoch", "shortened"]

LONG: Final = 15.0  # seconds of steps, so that the start of a process takes a third or less
_FEWEST: Final = 20  # steps


def make_epoch(
    prepared: PreparedRun, trial: Trial, message: Mapping[str, Any], folder: Path
) -> Epoch:
    """Train an epoch on part of the data under a trial's plan; compare it with the forecast.

    The settings and the plan are written into `folder`; the run folder is removed.
    """
    assert trial.step_time is not None
    request = shortened(prepared, LONG / trial.step_time.median)
    small = assemble(request, lambda _: None, lambda: None, plan=trial.plan)
    time = forecast_epoch(small, trial, message, steps=small.steps)
    if time is None:
        return Epoch(estimated=0.0, measured=None, why="no validation was timed")
    make_folder(folder)
    config, plan = folder / "epoch.json", folder / f"plan-{trial.plan.fingerprint}.json"
    write_json(config, flatten(request.config))
    write_json(plan, trial.plan.to_json())
    outcome = child.run(
        [
            *(sys.executable, "-m", "hotloop", "train", "-q", request.recipe.name),
            *("--config", str(config), "--plan", str(plan)),
            *("--out", f"{child.SCRATCH}/run", "--json", child.RESULT),
        ],
        limits=child.ProcessLimits(seconds=10 * time.seconds + 120),
    )
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if not outcome.ok or outcome.result is None:
        why = f"{outcome.status}: {outcome.reason}"
        return Epoch(estimated=time.seconds, measured=None, why=why)
    seconds, rows = outcome.seconds, dict(outcome.result["wall"])
    return Epoch(estimated=time.seconds, measured=seconds, steps=small.steps, rows=rows)


def shortened(prepared: PreparedRun, steps: float) -> RunRequest:
    """Return the request of one epoch on so much of the data that it has about `steps` steps.

    If the data cannot be cut, the number of steps is limited.
    """
    request, whole = prepared.request, prepared.feed.steps_per_epoch
    config = request.config
    wanted = min(whole, max(_FEWEST, round(steps)))
    changes: dict[str, Any] = {"training.epochs": 1, "training.max_steps": None}
    flat = flatten(config)
    if wanted < whole and "data.max_chars" not in flat:
        changes["training.max_steps"] = wanted
    elif wanted < whole:
        window = prepared.job.train.batch(0, 0, 1).tokens
        tokens = wanted * prepared.feed.batch_size * window
        changes["data.max_chars"] = round(tokens / (1 - config.data.validation_share)) + 2 * window
    shorter = rebuild(request.recipe.resolve.schema, {**flat, **changes}, origin="bench")
    return replace(request, config=shorter)
