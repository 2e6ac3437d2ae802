"""Golden cases of G11 bias_bn."""

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.objects import Model

NET = """
class Net(nn.Module):
    def __init__(self):
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
        self.conv = nn.Conv2d(16, 32, 3)
        self.norm = nn.BatchNorm2d(32)
"""
net = Model(name="Net", trainable=1, convolutions=2, bias_before_norm=2)
POSITIVE = [healthy(models=(net,), sources={SCRIPT: NET}), healthy(models=(net,))]
NEGATIVE = [healthy(models=(Model(name="Net", trainable=1, convolutions=2),))]
