"""Builds the case of a tiny run: real data and settings, a timing that is made up."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from hotloop.core.measurement import Measurement
from hotloop.diagnosis.checks.context import PlannedRun
from hotloop.jobs import train
from hotloop.jobs.forecast.time_estimate import Timing, Workload, estimate
from hotloop.jobs.job import assemble
from hotloop.jobs.request import fresh_request

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
def case_of(tiny: list[str]) -> Callable[..., PlannedRun]:
    """Return what makes a case of settings over the tiny run's, and changes of timing and case."""

    def make(*settings: str, timing: dict | None = None, **changes) -> PlannedRun:
        keys = {text.partition("=")[0] for text in settings}
        kept = [text for text in tiny if text.partition("=")[0] not in keys]
        request = fresh_request("char-lm", [*kept, *settings])
        parts = assemble(request, train.silent, lambda: None)
        work = Workload.of(
            request.config.training,
            steps=parts.steps,
            steps_per_epoch=parts.feed.steps_per_epoch,
            micro_batch=parts.plan.micro_batch,
            validation=len(parts.job.valid),
        )
        timed = replace(TIMING, **(timing or {}))
        time = estimate(timed, work, request.config.training)
        made = PlannedRun(parts=parts, effects=[], timing=timed, time=time, free_bytes=1 << 40)
        return replace(made, **changes)

    return make
