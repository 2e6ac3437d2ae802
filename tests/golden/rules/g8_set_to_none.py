"""Golden cases of G8 set_to_none."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, stack, wall

zeroing = replace(healthy().optimizers[0], zeroed_to_none=False)
ZERO = ("/usr/lib/python3/dist-packages/torch/optim/optimizer.py", 950, "Optimizer.zero_grad")
busy = (stack("prepare", 0.5, ZERO, (SCRIPT, 40, "main")),)
POSITIVE = [
    healthy(optimizers=(zeroing,), wall=wall(prepare=0.6), stacks=busy),
    healthy(optimizers=(zeroing,), stacks=(stack("prepare", 0.15, ZERO, (SCRIPT, 40, "main")),)),
]
NEGATIVE = [
    healthy(wall=wall(prepare=0.6), stacks=busy),
    healthy(optimizers=(zeroing,), stacks=(stack("prepare", 0.05, ZERO),)),
]
