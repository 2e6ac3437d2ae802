"""Golden cases of G28 big_logits."""

from dataclasses import replace

from tests.golden.cases import on_gpu

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model

GIB = float(1 << 30)
peak = ProcessFacts(allocator={"peak": 20 * GIB})
gemma = Model(name="Gemma", device="cuda:0", trainable=1, output=(4, 1024, 262_144))
POSITIVE = [on_gpu(models=(gemma,), process=peak)]
NEGATIVE = [
    on_gpu(models=(replace(gemma, output=(4, 1024, 1000)),), process=peak),
    on_gpu(models=(replace(gemma, output=(1, 64, 50_304)),), process=peak),
    on_gpu(models=(gemma,)),
]
