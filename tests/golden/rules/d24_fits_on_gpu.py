"""Golden cases of D24 fits_on_gpu."""

from dataclasses import replace

from tests.golden.cases import on_gpu, wall

LOADER = replace(on_gpu().loaders[0], dataset_bytes=180 << 20)
BUSY = wall(data_wait=1.0, host_to_device=0.5)
POSITIVE = [on_gpu(wall=BUSY, loaders=(LOADER,))]
NEGATIVE = [
    on_gpu(wall=BUSY, loaders=(replace(LOADER, dataset_bytes=10 << 30),)),
    on_gpu(wall=BUSY, loaders=(LOADER,), readings={"gpu_memory_bytes": (23.5 * 2**30,)}),
    on_gpu(wall=BUSY, loaders=(replace(LOADER, in_memory=False),)),
    on_gpu(loaders=(LOADER,)),
]
