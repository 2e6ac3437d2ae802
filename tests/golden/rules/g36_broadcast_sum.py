"""Golden cases of G36 broadcast_sum."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

PAIRS = Rewrite(
    kind="contraction",
    form="squared",
    shapes=((1, 200, 128), (200, 1, 128)),
    needs_grad=(True, True),
    dtypes=("float32",),
    reduced=(2,),
    places=(SourceLocation(file=SCRIPT, line=17), SourceLocation(file=SCRIPT, line=18)),
    calls=1.0,
    seconds=0.006,  # of a step of 0.01
)
FASTER = Experiment(
    name="contraction",
    what="with a matrix product in place of the broadcast and the sum",
    places=PAIRS.places,
    rewrites=(PAIRS,),
    steps=20,
    gain=2.0,
    low=1.8,
    high=2.2,
)
SMALL = replace(PAIRS, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(PAIRS,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
    healthy(ledger=Ledger(rows=(), rewrites=(replace(PAIRS, form="product"),))),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(PAIRS, kind="one product", form=""),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(PAIRS,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[0], "measured")]
