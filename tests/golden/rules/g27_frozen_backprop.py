"""Golden cases of G27 frozen_backprop."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.objects import Model

net = Model(
    name="Net", parameters=200, trainable=100, frozen_graph="backbone", frozen_prefix_seconds=0.002
)
POSITIVE = [healthy(models=(net,))]
NEGATIVE = [
    healthy(models=(replace(net, frozen_graph=None),)),
    healthy(models=(replace(net, frozen_prefix_seconds=0.0001),)),
]
