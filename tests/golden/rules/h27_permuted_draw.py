"""Golden cases of H27 permuted_draw."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall
from tests.golden.rules.h26_list_conversion import FASTER, LINE

SOURCE = """\
import numpy as np
while True:
    rows = np.random.choice(len(memory), 64, replace=False)
    loss = network(memory[rows]).mean()
    loss.backward()
    optimizer.step()
"""
DRAWN = replace(FASTER, name="drawn rows", what="with rows drawn by numpy.random.default_rng()")
POSITIVE = [
    healthy(
        wall=wall(**{"after step": 4.0, "forward": 4.0}),
        sources={SCRIPT: SOURCE},
        stacks=(stack("after step", 4.0, (SCRIPT, LINE, "main")),),
        experiments=(DRAWN,),
    ),
]
NEGATIVE = [
    replace(POSITIVE[0], experiments=()),
    replace(POSITIVE[0], sources={SCRIPT: SOURCE.replace(", replace=False", "")}),
    replace(POSITIVE[0], sources={SCRIPT: SOURCE.replace("replace=False", "replace=False, p=w")}),
    replace(POSITIVE[0], sources={SCRIPT: SOURCE.replace("np.random.choice", "rng.choice")}),
]
KNOWN = [(POSITIVE[0], "measured")]
