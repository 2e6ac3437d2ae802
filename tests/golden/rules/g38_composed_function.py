"""Golden cases of G38 composed_function."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.ledger import Ledger
from hotloop.core.case.rewrite import FunctionStep, Rewrite
from hotloop.core.finding import SourceLocation

SILU = Rewrite(
    kind="composed function",
    form="F.silu(x)",
    shapes=((64, 256, 512),),
    needs_grad=(True,),
    dtypes=("float32",),
    steps=(FunctionStep(name="sigmoid", inputs=(0,)), FunctionStep(name="mul", inputs=(0, 1))),
    places=(SourceLocation(file=SCRIPT, line=17),),
    calls=4.0,
    seconds=0.004,  # of a step of 0.01
)
FASTER = Experiment(
    name="composed function",
    what="with F.silu(x) in place of several operators",
    places=SILU.places,
    rewrites=(SILU,),
    steps=20,
    gain=1.2,
    low=1.15,
    high=1.25,
)
SMALL = replace(SILU, seconds=0.0005)
POSITIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SILU,))),
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,)), experiments=(FASTER,)),
    healthy(ledger=Ledger(rows=(), rewrites=(SILU, replace(SILU, form="F.mish(x)")))),
]
NEGATIVE = [
    healthy(ledger=Ledger(rows=(), rewrites=(SMALL,))),  # too small without a measured gain
    healthy(ledger=Ledger(rows=(), rewrites=(replace(SILU, kind="contraction", form="product"),))),
    healthy(  # slower there
        ledger=Ledger(rows=(), rewrites=(SILU,)),
        experiments=(replace(FASTER, places=(SourceLocation(file=SCRIPT, line=90),)),),
    ),
    healthy(ledger=Ledger(rows=())),
]
KNOWN = [(POSITIVE[0], "measured")]
