"""Golden cases of D18 float_over_bus."""

from dataclasses import replace

from tests.golden.cases import on_gpu, wall

from hotloop.core.case.steps_and_loaders import BatchFacts

LOADER = replace(on_gpu().loaders[0], dtypes=("float32", "int64"), batch_bytes=38 << 20)
PICTURES = (BatchFacts(loader=1, shapes={"0": (64, 3, 224, 224), "1": (64,)}),)
COPIES = wall(host_to_device=1.0)
POSITIVE = [on_gpu(wall=COPIES, loaders=(LOADER,), batches=PICTURES)]
NEGATIVE = [
    on_gpu(wall=COPIES, loaders=(replace(LOADER, dtypes=("uint8",)),), batches=PICTURES),
    on_gpu(wall=COPIES, loaders=(LOADER,), batches=(BatchFacts(shapes={"0": (64, 10)}),)),
    on_gpu(loaders=(LOADER,), batches=PICTURES),
]
