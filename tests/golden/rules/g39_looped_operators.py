"""Golden cases of G39 looped_operators."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import LoopedOperator, Rewrite
from hotloop.core.finding import SourceLocation

DOT = Rewrite(
    kind="looped operator",
    form="dot",
    shapes=((128,), (128,)),
    needs_grad=(True, True),
    dtypes=("float32", "float32"),
    looped=LoopedOperator(
        name="aten::dot",
        arguments='["tensor", "tensor"]',
        shared=(False, False),
        are_items=(True, True),
    ),
    in_loop=240,
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=2.0,
    seconds=0.004,  # of a step of 0.01
)
FASTER = Experiment(
    name="looped operator",
    what="with one call on all tensors in place of the loop's calls",
    places=DOT.places,
    rewrites=(DOT,),
    steps=20,
    gain=1.6,
    low=1.55,
    high=1.65,
)
SMALL = replace(DOT, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(DOT,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(DOT, kind="one product"),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(DOT,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[0], "measured")]
