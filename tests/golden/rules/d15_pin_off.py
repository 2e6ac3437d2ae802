"""Golden cases of D15 pin_off."""

from dataclasses import replace

from tests.golden.cases import on_gpu, wall

LOADER = on_gpu().loaders[0]
COPIES = wall(host_to_device=1.0)
POSITIVE = [on_gpu(wall=COPIES)]
NEGATIVE = [
    on_gpu(wall=COPIES, loaders=(replace(LOADER, pin_memory=True),)),
    on_gpu(wall=COPIES, loaders=(replace(LOADER, pinned=True),)),
    on_gpu(wall=wall(host_to_device=0.1)),
]
