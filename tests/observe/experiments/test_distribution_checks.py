"""torch.distributions takes what it would refuse while its checks are off."""

import pytest
import torch
from torch.distributions import Categorical, Distribution

from hotloop.observe.experiments.variants import NoDistributionChecks


def test_the_checks_are_left_out_and_come_back(monkeypatch):
    monkeypatch.setattr(Distribution, "_validate_args", True)  # a library may have set it
    variant = NoDistributionChecks()
    assert variant.prepare() is None
    variant.switch_on()
    Categorical(probs=torch.tensor([-1.0, 2.0]))
    assert variant.prepare() == "they are off already"
    variant.switch_off()
    with pytest.raises(ValueError, match="to satisfy the constraint"):
        Categorical(probs=torch.tensor([-1.0, 2.0]))
