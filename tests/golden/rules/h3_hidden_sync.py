"""Golden cases of H3 hidden_sync."""

from tests.golden.cases import SCRIPT, healthy, on_gpu

from hotloop.core.case.steps_and_loaders import Sync
from hotloop.core.finding import SourceLocation

LOOP = """
for x, y in loader:
    kept = (y != 0).nonzero()
    loss = model(x)[kept].mean()
    loss.backward()
    optimizer.step()
"""
STATIC = """
for x, y in loader:
    target = F.one_hot(y, num_classes=10)
    loss = torch.where(y != 0, model(x), 0.0).mean()
    loss.backward()
    optimizer.step()
"""
seen = Sync(
    method="nonzero", place=SourceLocation(file=SCRIPT, line=3), calls=4, per_step=1.0, seconds=1.5
)
POSITIVE = [
    on_gpu(sources={SCRIPT: LOOP}),
    on_gpu(sources={SCRIPT: LOOP}, syncs=(seen,)),
    on_gpu(sources={SCRIPT: LOOP.replace(".nonzero()", ".unique()")}),
]
NEGATIVE = [
    healthy(sources={SCRIPT: LOOP}),  # on the CPU
    on_gpu(sources={SCRIPT: STATIC}),
    on_gpu(sources={SCRIPT: "mask = (labels != 0).nonzero()\n"}),  # before training
]
