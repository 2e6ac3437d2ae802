"""Golden cases of M9 bucket_view."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.environment import ProcessFacts

two = ProcessFacts(world=2, backend="gloo")
POSITIVE = [healthy(process=two, sources={SCRIPT: "model = DDP(model, device_ids=[0])\n"})]
NEGATIVE = [
    healthy(process=two, sources={SCRIPT: "model = DDP(model, gradient_as_bucket_view=True)\n"}),
    healthy(process=two, sources={SCRIPT: "model = Net()\n"}),
    healthy(sources={SCRIPT: "model = DDP(model)\n"}),
]
