"""Golden cases of D32 first_batches."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.steps_and_loaders import EvaluationSpan

LOADER = replace(
    healthy().loaders[0],
    length=1000,
    batches=20,
    batch_size=50,
    iterations=40,
    waits=(0.01,) * 40,
    first_waits=(0.01,) * 40,
    sampler="SequentialSampler",
    repeats=1.0,
)
TEST = replace(LOADER, key=7, role="evaluate")
SPAN = EvaluationSpan(at=1.0, seconds=1.0, step=20, batches=20, loader=7)


def read(**changes: object):
    return healthy(loaders=(replace(LOADER, **changes),))


POSITIVE = [
    read(),
    read(sampler="RandomSampler"),
    read(repeats=0.0),  # the data set draws its samples
    healthy(loaders=(healthy().loaders[0], TEST), evaluations=(SPAN,)),
]
NEGATIVE = [
    healthy(),
    read(batches=1),
    read(first_waits=(0.01,) * 2),
    read(iterations=2, waits=(0.01,) * 2, first_waits=(0.01,) * 2),
    healthy(loaders=(healthy().loaders[0], TEST), evaluations=(replace(SPAN, batches=1),)),
]
KNOWN = [(POSITIVE[0], "proved")]
SEVERITY = [(POSITIVE[0], "critical"), *((case, "note") for case in POSITIVE[1:])]
