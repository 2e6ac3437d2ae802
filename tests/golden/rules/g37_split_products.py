"""Golden cases of G37 split_products."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

GATES = Rewrite(
    kind="one product",
    form="with bias",
    shapes=((64, 51), (51, 48), (51, 48), (51, 48), (51, 48)),
    needs_grad=(True, True, True, True, True),
    dtypes=("float32",),
    in_loop=96,
    places=(SourceLocation(file=SCRIPT, line=19),),
    calls=96.0,
    seconds=0.004,  # of a step of 0.01
)
LSTM = replace(GATES, form="lstm", shapes=((96, 64, 3), (51, 48)), needs_grad=(False, True))
FASTER = Experiment(
    name="one product",
    what="with the products of one input as one product",
    places=GATES.places,
    rewrites=(GATES,),
    steps=20,
    gain=1.1,
    low=1.07,
    high=1.2,
)
SMALL = replace(GATES, in_loop=1, calls=2.0, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(GATES,))),
    healthy(ledger=Ledger(rows=(), rewrites=(LSTM,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),
    healthy(ledger=Ledger(rows=(), rewrites=(replace(GATES, kind="attention"),))),
    healthy(ledger=Ledger(rows=())),
]
