"""Golden cases of D17 h2d_bound."""

from dataclasses import replace

from tests.golden.cases import on_gpu, wall

LOADER = on_gpu().loaders[0]
POSITIVE = [
    on_gpu(wall=wall(host_to_device=3.0), loaders=(replace(LOADER, batch_bytes=38 << 20),)),
    on_gpu(wall=wall(host_to_device=3.0), loaders=()),
]
NEGATIVE = [on_gpu(wall=wall(host_to_device=0.5))]
