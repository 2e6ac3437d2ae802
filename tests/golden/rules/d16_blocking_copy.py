"""Golden cases of D16 blocking_copy."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, on_gpu, wall

LOADER = replace(on_gpu().loaders[0], pin_memory=True, pinned=True)
COPIES = wall(host_to_device=1.0)
CODE = """
for x, y in loader:
    x = x.to(device{how})
    loss = model(x).to(torch.float32).mean()
    loss.backward()
"""
POSITIVE = [on_gpu(wall=COPIES, loaders=(LOADER,), sources={SCRIPT: CODE.format(how="")})]
NEGATIVE = [
    on_gpu(
        wall=COPIES, loaders=(LOADER,), sources={SCRIPT: CODE.format(how=", non_blocking=True")}
    ),
    on_gpu(wall=COPIES, sources={SCRIPT: CODE.format(how="")}),  # D15's
    on_gpu(loaders=(LOADER,), sources={SCRIPT: CODE.format(how="")}),
]
