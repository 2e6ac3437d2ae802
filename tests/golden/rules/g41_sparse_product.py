"""Golden cases of G41 sparse_product."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import Rewrite, SparseFactor
from hotloop.core.finding import SourceLocation

GRAPH = Rewrite(
    kind="sparse product",
    sparse=SparseFactor(is_left=True, filled=0.01, is_constant=True),
    shapes=((2000, 1000), (1000, 16)),
    needs_grad=(False, True),
    dtypes=("float32",),
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=1.0,
    seconds=0.004,  # of a step of 0.01
)
ONE_HOT = replace(GRAPH, sparse=replace(GRAPH.sparse, is_one_hot=True, is_constant=False))
FASTER = Experiment(
    name="sparse product",
    what="with a sparse matrix in place of one that is almost all zeros",
    places=GRAPH.places,
    rewrites=(GRAPH,),
    steps=20,
    gain=1.6,
    low=1.55,
    high=1.65,
)
SMALL = replace(GRAPH, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(GRAPH,))),
    healthy(ledger=Ledger(rows=(), rewrites=(ONE_HOT,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(GRAPH, kind="one product", sparse=None),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(GRAPH,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[2], "measured")]
