"""Golden cases of H26 list_conversion."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

from hotloop.core.case.experiment import Experiment
from hotloop.core.finding import SourceLocation

LINE = 3
SOURCE = """\
import torch
for states in memory:
    now = torch.tensor(states)
    loss = network(now).mean()
    loss.backward()
    optimizer.step()
"""
FASTER = Experiment(
    name="converted lists",
    what="with an array made of each list before its tensor",
    places=(SourceLocation(file=SCRIPT, line=LINE),),
    blocks=12,
    steps=60,
    gain=1.8,
    low=1.7,
    high=1.9,
)
POSITIVE = [
    healthy(
        wall=wall(**{"after step": 4.0, "forward": 4.0}),
        sources={SCRIPT: SOURCE},
        stacks=(stack("after step", 4.0, (SCRIPT, LINE, "main")),),
        experiments=(FASTER,),
    ),
]
NEGATIVE = [
    replace(POSITIVE[0], experiments=()),
    replace(POSITIVE[0], stacks=()),
    replace(POSITIVE[0], sources={SCRIPT: SOURCE.replace("tensor(states)", "tensor([1, 2])")}),
    replace(  # the time is that of a function below the line
        POSITIVE[0],
        stacks=(stack("after step", 4.0, (SCRIPT, 20, "made"), (SCRIPT, LINE, "main")),),
    ),
]
KNOWN = [(POSITIVE[0], "measured")]
