"""Golden cases of H5 explicit_sync."""

from tests.golden.cases import SCRIPT, healthy, on_gpu, stack

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation

LOOP = """
for x, y in loader:
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    gc.collect()
    torch.cuda.empty_cache()
"""
collect = Sync(
    method="gc.collect",
    place=SourceLocation(file=SCRIPT, line=6),
    calls=1000,
    per_step=1.0,
    seconds=3.0,
)
POSITIVE = [
    healthy(sources={SCRIPT: LOOP}, syncs=(collect,)),
    healthy(sources={SCRIPT: LOOP}, stacks=(stack("after step", 3.0, (SCRIPT, 6, "main")),)),
    on_gpu(sources={SCRIPT: LOOP}, stacks=(stack("after step", 3.0, (SCRIPT, 7, "main")),)),
]
NEGATIVE = [
    healthy(sources={SCRIPT: LOOP}),  # it costs nothing that was seen
    healthy(sources={SCRIPT: LOOP}, stacks=(stack("after step", 3.0, (SCRIPT, 5, "main")),)),
    healthy(sources={SCRIPT: "gc.collect()\n"}, syncs=(collect,)),
]
