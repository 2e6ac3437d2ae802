"""Golden cases of G40 recurrent_cells."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

CELL = Rewrite(
    kind="recurrent cell",
    form="lstm_cell",
    shapes=((64, 16, 128), (512, 128), (512, 128)),
    needs_grad=(True, True, True),
    dtypes=("float32",),
    in_loop=64,
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=1.0,
    seconds=0.004,  # of a step of 0.01
)
FASTER = Experiment(
    name="recurrent cell",
    what="with one call on the whole sequence in place of one for each time step",
    places=CELL.places,
    rewrites=(CELL,),
    steps=20,
    gain=1.6,
    low=1.55,
    high=1.65,
)
SMALL = replace(CELL, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(CELL,))),
    healthy(ledger=Ledger(rows=(), rewrites=(replace(CELL, form="gru without bias"),))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(CELL, kind="one product"),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(CELL,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[0], "measured")]
