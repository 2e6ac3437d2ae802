"""Golden cases of D31 same_draw."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.steps_and_loaders import BatchFacts
from hotloop.core.finding import SourceLocation

LOADER = replace(healthy().loaders[0], length=1000, drawn=700, epochs_drawn=3, draws_again=True)


def drawn(**changes: object):
    return healthy(loaders=(replace(LOADER, **changes),))


POSITIVE = [drawn(), drawn(drawn=1000)]
NEGATIVE = [healthy(), drawn(draws_again=False), drawn(role="evaluate"), drawn(length=None)]

ORDERED = replace(
    LOADER,
    drawn=None,
    draws_again=False,
    sampler="SequentialSampler",
    iterations=3,
    batches=20,
    repeats=1.0,
    place=SourceLocation(file=SCRIPT, line=2),
)
DEFAULT = "rows = Rows()\nloader = DataLoader(rows, batch_size=50)\n"
WRITTEN = "rows = Rows()\nloader = DataLoader(rows, batch_size=50, shuffle=False)\n"
MIXED = DEFAULT + "rows, rest = train_test_split(rows)\n"


def ordered(text: str, **changes: object):
    return healthy(loaders=(replace(ORDERED, **changes),), sources={SCRIPT: text})


POSITIVE += [ordered(DEFAULT), ordered(WRITTEN), ordered(MIXED)]
NEGATIVE += [
    ordered(DEFAULT, iterations=1),
    ordered(DEFAULT, batches=5),
    ordered(DEFAULT, sampler="RandomSampler"),
    replace(ordered(DEFAULT), batches=(BatchFacts(loader=ORDERED.key, shifted=1),)),
]
