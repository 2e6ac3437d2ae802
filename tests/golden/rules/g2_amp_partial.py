"""Golden cases of G2 amp_partial."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, on_gpu

from hotloop.core.case.environment import Operator, ProcessFacts
from hotloop.core.finding import SourceLocation

mm = Operator(
    name="aten::mm",
    shapes="[[512, 4096], [4096, 4096]]",
    seconds=0.004,
    share=0.5,
    calls=2,
    device="cuda",
    dtype="float32",
    place=SourceLocation(file=SCRIPT, line=30),
)
autocast = ProcessFacts(autocast=("cuda bfloat16",))
POSITIVE = [on_gpu(process=autocast, profiled=True, operators=(mm,))]
NEGATIVE = [
    on_gpu(profiled=True, operators=(mm,)),  # no autocast: G1
    on_gpu(process=autocast, profiled=True, operators=(replace(mm, dtype="bfloat16"),)),
    on_gpu(process=autocast, profiled=True, operators=(replace(mm, share=0.1),)),
    on_gpu(process=autocast, profiled=True, operators=(replace(mm, name="aten::gelu"),)),
]
