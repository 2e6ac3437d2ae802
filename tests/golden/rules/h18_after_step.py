"""Golden cases of H18 after_step."""

from tests.golden.cases import SCRIPT, healthy, stack, wall

POSITIVE = [
    healthy(
        wall=wall(after_step=4.0),
        stacks=(
            stack("after step", 3.0, (SCRIPT, 20, "smooth"), (SCRIPT, 55, "main")),
            stack("after step", 1.0, (SCRIPT, 56, "main")),
        ),
    ),
    healthy(wall=wall(after_step=0.4, log=0.5)),
    healthy(
        wall=wall(after_step=4.0),
        stacks=(
            stack("after step", 1.5, (SCRIPT, 40, "train"), (SCRIPT, 93, "<module>")),
            stack("after step", 1.5, (SCRIPT, 46, "train"), (SCRIPT, 93, "<module>")),
            stack("after step", 1.0, (SCRIPT, 30, "train"), (SCRIPT, 93, "<module>")),
            stack("forward", 4.0, (SCRIPT, 36, "train"), (SCRIPT, 93, "<module>")),
        ),
    ),
]
NO_MODEL = healthy(wall=wall(after_step=4.0), models=())
POSITIVE.append(NO_MODEL)
SEVERITY = [(NO_MODEL, "note")]
NEGATIVE = [healthy(wall=wall(after_step=0.2, log=0.2))]
