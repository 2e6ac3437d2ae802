"""Golden cases of D30 sorted_order."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.steps_and_loaders import TrainingOrder

CLASSES = TrainingOrder(
    alike=0.97,
    deviations=310.0,
    updates=20,
    values=10,
    per_update=1.1,
    by_chance=9.6,
    period=40,
    repeated=8,
)
BY_SAMPLER = replace(CLASSES, period=None, repeated=0, loader=1)
NUMBERS = replace(CLASSES, values=None, per_update=None, by_chance=None)
WINDOWS = replace(NUMBERS, windows=True)
POSITIVE = [healthy(order=order) for order in (CLASSES, BY_SAMPLER, NUMBERS, WINDOWS)]
NEGATIVE = [
    healthy(order=order)
    for order in (
        None,
        replace(CLASSES, alike=0.3),
        replace(CLASSES, deviations=4.0),
        replace(CLASSES, updates=5),
        replace(BY_SAMPLER, loader=None),
    )
]
