"""Golden cases of D27 decode_repeated."""

from dataclasses import replace

from tests.golden.cases import healthy, wall

LOADER = replace(
    healthy().loaders[0],
    repeats=1.0,
    items=(0.001,) * 64,
    in_memory=False,
    batch_bytes=1 << 20,
)
BUSY = wall(data_wait=30.0)
POSITIVE = [
    healthy(wall=BUSY, loaders=(LOADER,)),
    healthy(wall=BUSY, loaders=(replace(LOADER, workers=2, items=()),)),
]
NEGATIVE = [
    healthy(wall=BUSY, loaders=(replace(LOADER, repeats=0.2),)),
    healthy(wall=BUSY, loaders=(replace(LOADER, uses_random=True),)),
    healthy(wall=BUSY, loaders=(replace(LOADER, iterations=1),)),
    healthy(wall=BUSY, loaders=(replace(LOADER, items=(1e-6,) * 64),)),
    healthy(loaders=(LOADER,)),
]
