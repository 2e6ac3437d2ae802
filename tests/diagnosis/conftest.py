"""Builds the case of a tiny planned run: real data and settings, a timing that is made up."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hotloop.core.case.case import Case
from hotloop.core.measurement import Measurement
from hotloop.diagnosis.planned_run import case_of_plan
from hotloop.engine.wall_time import WallTime
from hotloop.jobs import train
from hotloop.jobs.forecast.time_estimate import Timing, Workload, estimate
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request
from hotloop.machine.clock import clock

TIMING = Timing(
    start=5.0,
    compile=0.0,
    step=Measurement(unit="s", readings=(1.0,) * 9),
    data_wait=0.001,
    validation=Measurement(unit="s", readings=(0.01,)),
    save=0.01,
    losses=(4.0, 3.0),
    made=12,
)


@pytest.fixture
def case_of(tiny: list[str], tmp_path: Path) -> Callable[..., Case]:
    """Return what makes a case of settings over the tiny run's, of a timing and its first steps.

    `timing` has fields of it; None: no step could be timed. `tried` has what became of the steps.
    """

    def make(
        *settings: str, timing=(), effects=(), free_bytes=1 << 40, config_file=None, **tried
    ) -> Case:
        keys = {text.partition("=")[0] for text in settings}
        kept = [text for text in tiny if text.partition("=")[0] not in keys]
        request = fresh_request("char-lm", [*kept, *settings], config_file=config_file)
        prepared = assemble(request, train.silent, lambda: None)
        work = Workload.of(
            request.config.training,
            steps=prepared.steps,
            steps_per_epoch=prepared.feed.steps_per_epoch,
            micro_batch=prepared.plan.micro_batch,
            validation=len(prepared.job.valid),
        )
        timed = None if timing is None else replace(TIMING, **dict(timing))
        nothing = {"problem": None, "halved": None, "unwritable": None, "busy_cores": 0.0}
        case = case_of_plan(
            prepared,
            effects,
            SimpleNamespace(made=12, wall_time=WallTime(clock), **nothing | tried),  # type: ignore[arg-type]
            timing=timed,
            time=None if timed is None else estimate(timed, work, request.config.training),
            folder=tmp_path,
        )
        return replace(case, planned=replace(case.planned, free_bytes=free_bytes))

    return make
