"""What hotloop calls of torchao 0.18, so that tests need no torchao: it replaces, and no more.

The real one was tried on a CPU on 2026-11-22: the same layers were replaced, int8 trained.
"""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from torch import nn


class Float8Linear(nn.Linear):
    pass


class Int8MixedPrecisionTrainingLinear(nn.Linear):
    pass


class Float8LinearConfig:
    @staticmethod
    def from_recipe_name(name):
        assert name in ("tensorwise", "rowwise", "rowwise_with_gw_hp")
        return name


def convert_to_float8_training(model, *, config, module_filter_fn):
    assert config
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and module_filter_fn(module, name):
            module.__class__ = Float8Linear
    return model


def int8_mixed_precision_training(*, module_swap):
    assert module_swap, "weights would be tensors of a class that checkpoints do not know"
    return Int8MixedPrecisionTrainingLinear


def quantize_(model, config, *, filter_fn):
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and filter_fn(module, name):
            module.__class__ = config


def install(monkeypatch):
    """Put it where it is imported from, until the test is over."""
    for name, values in {
        "torchao": (),
        "torchao.float8": (convert_to_float8_training, Float8LinearConfig),
        "torchao.quantization": (quantize_,),
        "torchao.prototype": (),
        "torchao.prototype.quantized_training": (int8_mixed_precision_training,),
    }.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        for value in values:
            setattr(module, value.__name__, value)
        monkeypatch.setitem(sys.modules, name, module)
