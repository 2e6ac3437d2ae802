"""Golden cases of P2 dead_parameters."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Discarded, Model
from hotloop.core.case.steps_and_loaders import Steps
from hotloop.core.finding import SourceLocation

NET = Model(
    name="Net", place=SourceLocation(file=SCRIPT, line=5), parameters=100_000, trainable=10_000
)
ADAPTERS = replace(
    NET,
    dead=tuple(f"adapters.{n}.{way}.weight" for n in range(4) for way in ("down", "up")),
    dead_parameters=8_000,
    unused=("adapters.0", "adapters.1", "adapters.2", "adapters.3", "adapters.0.down"),
    unused_parameters=8_000,
    unused_place=SourceLocation(file=SCRIPT, line=22),
)
POOLER = replace(NET, dead=("bert.pooler.weight",), dead_parameters=50)
HEAD = replace(NET, dead=("aux.weight", "aux.bias"), dead_parameters=900)
THROWN = replace(HEAD, discarded=(Discarded(module="aux", kind="Linear", parameters=900),))
# Its weights are used without a call, as in nn.MultiheadAttention.
TIED = replace(NET, unused=("attention.out_proj",), unused_parameters=600)

POSITIVE = [healthy(models=(model,)) for model in (ADAPTERS, POOLER, HEAD)]
NEGATIVE = [
    healthy(models=(THROWN,)),
    healthy(models=(TIED,)),
    healthy(models=(ADAPTERS,), steps=Steps(count=5)),
    healthy(models=(replace(ADAPTERS, role="evaluate only"),)),
]
