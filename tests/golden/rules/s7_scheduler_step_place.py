"""Golden cases of S7 scheduler_step_place."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Optimizer, Scaler, Scheduler
from hotloop.core.finding import SourceLocation

BUILT = SourceLocation(file=SCRIPT, line=31)
LOOP = "for x in loader:\n    loss.backward()\n    optimizer.step()\n    scheduler.step()\n"
STEPS_IT = {SCRIPT: LOOP}
WARNING = "Detected call of `lr_scheduler.step()` before `optimizer.step()`."


def scheduled(name: str, *, steps: int, total: int | None, micro: float = 1.0, **changes):
    schedule = Scheduler(
        name=name,
        place=BUILT,
        steps=steps,
        total=total,
        optimizer_steps=1000,
    )
    case = healthy(**{"schedulers": (schedule,), **changes})
    return replace(case, steps=replace(case.steps, backwards=micro))


def rated(*rates: float, **changes):
    optimizer = Optimizer(key=1, name="SGD", steps=1000, rates=tuple(enumerate(rates, 1)))
    return healthy(optimizers=(optimizer,), **changes)


def of(key: int, *, steps: int, total: int, made: int, **changes) -> Scheduler:
    return Scheduler(
        name=COSINE, place=BUILT, steps=steps, total=total, optimizer=key, optimizer_steps=made,
        **changes,
    )  # fmt: skip


def staged(*schedules: Scheduler, in_turn: tuple[int, ...] = (200, 800), **changes):
    """A run of 1,000 steps, in which optimizers 1, 2, ... make these."""
    optimizers = tuple(
        Optimizer(key=key, name="SGD", steps=steps) for key, steps in enumerate(in_turn, 1)
    )
    return healthy(schedulers=schedules, optimizers=optimizers, **changes)


COSINE = "CosineAnnealingLR"
IDLE = Optimizer(key=2, name="SGD")
STOPPED = {"stopped": "enough steps were seen", "planned_steps": 4000}
POSITIVE = [
    scheduled(COSINE, steps=1000, total=4000, micro=4.0),  # counts micro batches
    scheduled("OneCycleLR", steps=4000, total=4000, micro=4.0, **STOPPED),  # each micro batch
    scheduled("LambdaLR", steps=2, total=1000),  # once an epoch
    scheduled("OneCycleLR", steps=3, total=4000, **STOPPED),
    scheduled(COSINE, steps=1000, total=10),  # epochs counted, stepped each batch
    scheduled(COSINE, steps=1000, total=1000, stopped="enough", planned_steps=2000),
    scheduled(COSINE, steps=1000, total=3000),  # longer than the run
    scheduled("StepLR", steps=0, total=None),
    healthy(
        schedulers=(Scheduler(name="StepLR", steps=1000),),
        optimizers=(*healthy().optimizers, IDLE),
    ),
    rated(*[1e-3] * 40, *[0.0] * 20),
    scheduled("StepLR", steps=2, total=None, process=ProcessFacts(warnings=(WARNING,))),
    staged(of(1, steps=200, total=200, made=200), of(2, steps=800, total=10, made=800)),
    staged(of(1, steps=200, total=800, made=200)),  # the other stage's length
    staged(of(1, steps=1000, total=100, made=1000), in_turn=(1000,), **STOPPED),
    healthy(schedulers=(Scheduler(name=COSINE, optimizer_steps=9),), epochs=3, stopped="enough"),
    # moved by another one: a note
    staged(of(1, steps=0, total=9, made=200), of(1, steps=200, total=200, made=200)),
]
NEGATIVE = [
    staged(of(1, steps=200, total=200, made=200), of(2, steps=800, total=800, made=800)),
    staged(of(1, steps=200, total=200, made=200), of(2, steps=99, total=99, made=800)),  # epochs
    # stopped: in its second stage, in the first of several folds, after a change of schedules
    staged(of(2, steps=800, total=5000, made=800), **STOPPED),
    staged(of(1, steps=1000, total=100, made=1000, in_loop=True), in_turn=(1000,), **STOPPED),
    staged(
        of(1, steps=100, total=100, made=1000),
        of(1, steps=900, total=3900, made=1000),
        in_turn=(1000,),
        **STOPPED,
    ),
    staged(of(1, steps=5900, total=6000, made=1000, begun=4900), in_turn=(1000,)),  # resumed
    staged(of(1, steps=2, total=3, made=980, gone=True), in_turn=(1000,)),  # its last call is late
    staged(of(1, steps=0, total=1, made=980, gone=True), in_turn=(1000,), sources=STEPS_IT),
    scheduled("OneCycleLR", steps=1000, total=1000, micro=4.0),
    scheduled("OneCycleLR", steps=1000, total=4000, **STOPPED),
    scheduled(COSINE, steps=4000, total=4000, micro=4.0),  # both in micro batches
    scheduled(COSINE, steps=2, total=2),  # both in epochs
    scheduled("LinearLR", steps=1000, total=100),  # a warm-up
    scheduled("CosineAnnealingWarmRestarts", steps=1000, total=100),
    scheduled(COSINE, steps=1000, total=4000, stopped="enough steps were seen"),  # who knows
    scheduled("StepLR", steps=0, total=None, stopped="enough steps were seen"),  # first epoch
    scheduled("LambdaLR", steps=1000, total=500),  # the rate stays up after it: by design
    scheduled(
        "StepLR",
        steps=2,
        total=None,
        process=ProcessFacts(warnings=(WARNING,)),
        scalers=(Scaler(),),
    ),
    rated(*(1e-3 * (1 - step / 60) for step in range(60))),
]
