"""What hotloop calls of DeepSpeed 0.19.8 to take an optimizer over, so that tests need none.

It cuts nothing: one rank, each group in one row, as ZeRO-1 has it. tests/distributed/test_zero.py
tries the real one.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import torch


class Engine:
    """Flattens the groups of an optimizer."""

    def __init__(self, optimizer):
        self.optimizer = SimpleNamespace(_lazy_init_hp_params_optimizer_state=lambda: None)
        for group in optimizer.param_groups:
            group["params"] = [torch.cat([p.detach().flatten() for p in group["params"]])]

    def destroy(self):
        """Let go of nothing."""


def initialize(*, model, optimizer, config, dist_init_required):
    assert config["zero_optimization"]["stage"] == 1
    assert dist_init_required is False
    engine = Engine(optimizer)
    return engine, engine.optimizer, None, None


def install(monkeypatch, device="cpu"):
    """Put it where it is imported from, until the test is over."""
    module = ModuleType("deepspeed")
    module.__spec__ = ModuleSpec("deepspeed", None, is_package=True)
    module.initialize = initialize
    module.utils = module.ops = SimpleNamespace()
    module.zero = SimpleNamespace(GatheredParameters=None)
    module.accelerator = SimpleNamespace(
        get_accelerator=lambda: SimpleNamespace(device_name=lambda: device)
    )
    monkeypatch.setitem(sys.modules, "deepspeed", module)
