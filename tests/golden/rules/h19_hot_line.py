"""Golden cases of H19 hot_line."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

from hotloop.core.case.experiment import Experiment
from hotloop.core.case.rewrite import Rewrite
from hotloop.core.finding import SourceLocation

MODULE = ("/usr/lib/python3/site-packages/torch/nn/modules/module.py", 1700, "Module._call_impl")
LINEAR = ("/usr/lib/python3/site-packages/torch/nn/modules/linear.py", 130, "Linear.forward")
POSITIVE = [
    healthy(
        wall=wall(forward=9.0),
        stacks=(
            stack("forward", 8.0, (SCRIPT, 40, "Codes.forward"), MODULE, (SCRIPT, 80, "main")),
        ),
    ),
    healthy(
        wall=wall(prepare=9.0),
        stacks=(stack("prepare", 9.0, (SCRIPT, 50, "sample"), (SCRIPT, 90, "m")),),
    ),
    healthy(  # batches are made by hand
        wall=wall(**{"data wait": 9.0}),
        loaders=(),
        stacks=(stack("data wait", 9.0, (SCRIPT, 50, "sample"), (SCRIPT, 90, "m")),),
    ),
]
EXPLAINED = Experiment(
    name="lines", what="", row="dead", places=(SourceLocation(file=SCRIPT, line=40),)
)
PAIRS = Rewrite(
    kind="contraction",
    shapes=((1, 9, 4), (9, 1, 4)),
    needs_grad=(True, True),
    dtypes=("float32",),
    places=EXPLAINED.places,
)
REWRITTEN = replace(EXPLAINED, name="contraction", row=None, rewrites=(PAIRS,), gain=2.0)
NEGATIVE = [
    healthy(  # a loader reads: D28 names the line
        wall=wall(**{"data wait": 9.0}),
        stacks=(stack("data wait", 9.0, (SCRIPT, 50, "sample"), (SCRIPT, 90, "m")),),
    ),
    healthy(  # a module's own work
        wall=wall(forward=9.0),
        stacks=(stack("forward", 9.0, LINEAR, MODULE, (SCRIPT, 40, "Net.forward")),),
    ),
    healthy(stacks=(stack("forward", 2.0, (SCRIPT, 40, "Net.forward")),)),
    replace(POSITIVE[0], experiments=(EXPLAINED,)),
    replace(POSITIVE[0], experiments=(REWRITTEN,)),
]
POSITIVE.append(replace(POSITIVE[0], experiments=(replace(REWRITTEN, gain=1.0),)))
