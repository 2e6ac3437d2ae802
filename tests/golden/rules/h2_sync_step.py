"""Golden cases of H2 sync_step."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, on_gpu

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation

item = Sync(
    method="item", place=SourceLocation(file=SCRIPT, line=40), calls=1000, per_step=1.0, seconds=2.0
)
POSITIVE = [
    on_gpu(syncs=(item,)),
    on_gpu(syncs=(replace(item, row="evaluate", per_step=0.5),)),
    on_gpu(syncs=(replace(item, calls=999, per_step=0.999),)),  # the last step was cut short
]
NEGATIVE = [
    healthy(syncs=(item,)),  # on the CPU
    on_gpu(syncs=(replace(item, per_step=0.02, calls=20),)),  # every 50 steps
    on_gpu(syncs=(replace(item, seconds=0.1),)),
    on_gpu(syncs=(replace(item, method="gc.collect"),)),  # H5
]
