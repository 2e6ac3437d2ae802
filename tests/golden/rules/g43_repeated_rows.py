"""Golden cases of G43 repeated_rows."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import RepeatedPart, Rewrite
from hotloop.core.finding import SourceLocation

EDGES = Rewrite(
    kind="repeated rows",
    shapes=((8000, 256), (256, 128)),
    needs_grad=(True, True),
    dtypes=("float32",),
    repeated=(
        RepeatedPart(columns=128, rows=500, needs_grad=True),
        RepeatedPart(columns=128, rows=500, needs_grad=True),
    ),
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=2.0,
    seconds=0.004,  # of a step of 0.01
)
LOOP = replace(EDGES, repeated=(EDGES.repeated[0], replace(EDGES.repeated[1], calls=12)))
LABELS = replace(EDGES, repeated=EDGES.repeated[:1], shapes=((8000, 128), (128, 128)))
FASTER = Experiment(
    name="repeated rows",
    what="with each row multiplied once, before it is copied",
    places=EDGES.places,
    rewrites=(EDGES,),
    steps=20,
    gain=1.6,
    low=1.55,
    high=1.65,
)
SMALL = replace(EDGES, seconds=0.0005)
POSITIVE = [
    *(healthy(ledger=Ledger(rows=(), rewrites=(one,))) for one in (EDGES, LOOP, LABELS)),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(EDGES,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[-1], "measured")]
