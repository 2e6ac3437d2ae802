"""Golden cases of G7 opt_unfused."""

from dataclasses import replace

from tests.golden.cases import healthy, stack, wall

from hotloop.core.case.objects import ParameterGroup

adamw = replace(healthy().optimizers[0], groups=(ParameterGroup(parameters=100_000, tensors=200),))
CLIP = ("/usr/lib/python3/dist-packages/torch/nn/utils/clip_grad.py", 200, "clip_grad_norm_")
POSITIVE = [
    healthy(optimizers=(adamw,), wall=wall(optimizer=3.0)),
    healthy(optimizers=(replace(adamw, name="SGD"),), wall=wall(optimizer=3.0)),
]
NEGATIVE = [
    healthy(wall=wall(optimizer=3.0)),  # it is fused
    healthy(optimizers=(adamw,), wall=wall(optimizer=0.3)),
    healthy(optimizers=(replace(adamw, name="Lion"),), wall=wall(optimizer=3.0)),
    healthy(  # clipping takes it
        optimizers=(adamw,), wall=wall(optimizer=3.0), stacks=(stack("optimizer", 2.8, CLIP),)
    ),
]
