"""Golden cases of H7 logging."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

DRAW = ("/usr/lib/python3/dist-packages/matplotlib/figure.py", 900, "Figure.savefig")
POSITIVE = [
    healthy(wall=wall(log=2.0), stacks=(stack("log", 2.0, (SCRIPT, 50, "main")),)),
    healthy(
        wall=wall(after_step=3.0),
        stacks=(stack("after step", 2.9, DRAW, (SCRIPT, 60, "plot"), (SCRIPT, 50, "main")),),
    ),
]
NEGATIVE = [
    healthy(wall=wall(log=0.4)),
    healthy(wall=wall(after_step=3.0), stacks=(stack("after step", 2.9, (SCRIPT, 50, "main")),)),
]
