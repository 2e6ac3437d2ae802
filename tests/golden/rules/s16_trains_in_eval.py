"""Golden cases of S16 trains_in_eval."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Model, Modes
from hotloop.core.finding import SourceLocation

EVAL = SourceLocation(file=SCRIPT, line=11)
LEFT = Modes(
    layers={"Dropout": 2}, off={"Dropout": 2}, updates=200, in_eval=160, turns=1, eval_since=41
)


def trained(**changes):
    return healthy(models=(Model(name="Net", modes=replace(LEFT, **changes)),))


POSITIVE = [
    trained(),
    trained(eval_place=EVAL),
    trained(in_eval=200, turns=0, eval_since=1),  # as from_pretrained returns it
    trained(in_eval=100, turns=8, eval_since=None),  # train() once an epoch, validation within it
    trained(off={"BatchNorm2d": 3}),
    trained(off={"Noise": 1}),
    trained(in_eval=0, off={}, part="bert", part_off={"Dropout": 12}, part_place=EVAL),
]
NEGATIVE = [
    healthy(),
    healthy(models=(Model(name="Net"),)),
    trained(off={}),  # nothing depends on it
    trained(in_eval=0, turns=0, eval_since=None),
    trained(in_eval=3, updates=8),
    trained(in_eval=12, turns=2, eval_since=None),
    trained(in_eval=100, turns=199, eval_since=None),  # a generator beside its critic
]
