"""Golden cases of H28 distribution_checks."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall
from tests.golden.rules.h26_list_conversion import FASTER

TORCH = "/usr/lib/python3/site-packages/torch/distributions"
CHECK = (f"{TORCH}/constraints.py", 500, "_Simplex.check")
MADE = (f"{TORCH}/distribution.py", 60, "Distribution.__init__")
MASS = (f"{TORCH}/categorical.py", 140, "Categorical.log_prob")
UNCHECKED = replace(
    FASTER,
    name="no distribution checks",
    what="with distributions that do not check their arguments",
    places=(),
)
POSITIVE = [
    healthy(
        wall=wall(forward=8.0),
        stacks=(stack("forward", 2.0, CHECK, MADE, (SCRIPT, 9, "main")),),
        experiments=(UNCHECKED,),
    ),
]
NEGATIVE = [
    replace(POSITIVE[0], experiments=()),
    replace(POSITIVE[0], stacks=(stack("forward", 2.0, MASS, (SCRIPT, 9, "main")),)),
]
KNOWN = [(POSITIVE[0], "measured")]
