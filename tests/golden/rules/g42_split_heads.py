"""Golden cases of G42 split_heads."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

HEADS = Rewrite(
    kind="split heads",
    shapes=((512, 64), (16, 32, 8), (16, 32, 8)),
    needs_grad=(True, True, True),
    dtypes=("float32", "float32"),
    in_loop=8,
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=2.0,
    seconds=0.004,  # of a step of 0.01
)
FASTER = Experiment(
    name="split heads",
    what="with all heads of attention at once",
    places=HEADS.places,
    rewrites=(HEADS,),
    steps=20,
    gain=1.6,
    low=1.55,
    high=1.65,
)
SMALL = replace(HEADS, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(HEADS,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(HEADS, kind="one product"),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(HEADS,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[1], "measured")]
