"""The facts of a model's modules that are known without running it."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import textwrap
from dataclasses import dataclass
from typing import Any

from hotloop.core.finding import SourceLocation
from hotloop.models.compiled import is_compiled
from hotloop.observe.hooks.describe import own_code
from hotloop.observe.hooks.stack_frames import is_own

__all__ = ["ModuleFacts", "built_at", "facts", "layers"]

_WRAPPERS = ("DataParallel", "DistributedDataParallel", "FullyShardedDataParallel", "FSDP")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """The facts of an inner module, which outlive the model."""

    name: str
    kind: str
    place: SourceLocation | None  # of its class, if that is the project's own
    parameters: tuple[tuple[int, int, bool], ...]  # id, numbers, trainable; with its children's
    own: frozenset[int]  # id() of its parameters without its children's
    container: bool  # has no forward of its own
    opaque: bool  # compiled or scripted: inner calls are not seen
    steady: bool  # no dropout and no batch statistics: the same input gives the same output
    features: int | None = None  # channels of a convolution's output or of a batch norm
    norm: bool = False  # a batch norm
    biased: bool = False  # a convolution with a bias
    product: bool = False  # a linear layer or a convolution
    within_attention: bool = False  # its weights are used by nn.MultiheadAttention itself
    terms: int | None = None  # products summed per number of its output; None: unknown

    @property
    def numbers(self) -> int:
        """Return how many numbers its parameters have."""
        return sum(numbers for _, numbers, _ in self.parameters)

    @property
    def frozen(self) -> bool:
        """Whether it has parameters, and none of them is trainable."""
        return bool(self.parameters) and not any(trains for _, _, trains in self.parameters)

    def holds(self, ids: set[int]) -> bool:
        """Whether one of its parameters is among these id()s."""
        return any(number in ids for number, _, _ in self.parameters)


def layers(root: Any) -> dict[int, ModuleFacts]:
    """Return the modules inside `root` by their id()."""
    from torch import nn

    inner = {
        id(child)
        for module in root.modules()
        if isinstance(module, nn.MultiheadAttention)
        for child in module.modules()
        if child is not module
    }
    places = {kind: _place(kind) for kind in {type(module) for module in root.modules()}}
    return {
        id(module): _layer(name, module, places[type(module)], id(module) in inner)
        for name, module in root.named_modules()
        if module is not root
    }


def _layer(
    name: str, module: Any, place: SourceLocation | None, within_attention: bool
) -> ModuleFacts:
    from torch import jit, nn
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.conv import _ConvNd

    convolution, norm = isinstance(module, _ConvNd), isinstance(module, _BatchNorm)
    product = convolution or isinstance(module, nn.Linear)
    return ModuleFacts(
        name=name,
        kind=type(module).__name__,
        place=place,
        parameters=tuple(
            (id(tensor), tensor.numel(), tensor.requires_grad)
            for tensor in module.parameters()
            if not nn.parameter.is_lazy(tensor)
        ),
        own=frozenset(id(t) for t in module._parameters.values() if t is not None),
        container=type(module).forward is nn.Module.forward,
        opaque=isinstance(module, jit.ScriptModule) or is_compiled(module),
        steady=not any(_draws(inner) for inner in module.modules()),
        features=module.out_channels if convolution else module.num_features if norm else None,
        norm=norm,
        biased=convolution and module.bias is not None,
        product=product,
        within_attention=within_attention,
        terms=_terms(module) if product else None if _has_matrix(module) else 0,
    )


def _terms(module: Any) -> int | None:
    lazy = getattr(module, "has_uninitialized_params", None)
    if getattr(module, "transposed", False) or (lazy is not None and lazy()):
        return None
    return int(module.weight[0].numel())


def _has_matrix(module: Any) -> bool:
    """Whether it may multiply by its own weights in a way that is unknown here."""
    from torch import nn

    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        return False
    own = [tensor for tensor in module._parameters.values() if tensor is not None]
    return any(nn.parameter.is_lazy(tensor) or tensor.dim() > 1 for tensor in own)


def _place(kind: type) -> SourceLocation | None:
    """Return the place of a class of the project; the sources of other classes are not read."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return own_code(kind) if file is None or is_own(os.path.abspath(file)) else None


def _draws(module: Any) -> bool:
    from torch.nn.modules.batchnorm import _BatchNorm

    return module.training and (isinstance(module, _BatchNorm) or bool(_rate(module)))


def _rate(module: Any) -> float | None:
    """Return a module's dropout probability, also if the layer holds it itself, or None."""
    from torch.nn.modules.dropout import _DropoutNd

    value = getattr(module, "p" if isinstance(module, _DropoutNd) else "dropout", None)
    return float(value) if isinstance(value, float | int) else None


def facts(root: Any) -> dict[str, Any]:
    """Return the fields of core.case.objects.Model that depend on the modules alone."""
    from torch import nn
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.conv import _ConvNd

    modules = list(root.modules())
    tables = [m for m in modules if isinstance(m, nn.Embedding | nn.EmbeddingBag) and not m.sparse]
    convolutions = [module for module in modules if isinstance(module, _ConvNd)]
    rates = [rate for rate in map(_rate, modules) if rate is not None]
    names = {type(module).__name__ for module in modules}
    return {
        "tables": sum(table.weight.numel() for table in tables if table.weight.requires_grad),
        "table_rows": max((table.num_embeddings for table in tables), default=0),
        "normalised": any(isinstance(module, _BatchNorm) for module in modules),
        "dropout": max(rates, default=None),
        "convolutions": len(convolutions),
        "channels_last": _channels_last(convolutions),
        "classes": tuple(
            sorted(
                {
                    kind.__name__
                    for module in modules
                    for kind in type(module).__mro__
                    if not kind.__module__.startswith(("torch.", "builtins"))
                }
            )
        ),
        "wrapped": next((name for name in _WRAPPERS if name in names), None),
        "adapters": _adapters(root, names),
        "checkpointed": any(getattr(m, "gradient_checkpointing", False) is True for m in modules),
    }


def _channels_last(convolutions: list[Any]) -> bool | None:
    import torch

    weights = [c.weight for c in convolutions if c.weight.dim() == 4 and max(c.kernel_size) > 1]
    if not weights:
        return None
    return all(w.is_contiguous(memory_format=torch.channels_last) for w in weights)


def _adapters(root: Any, names: set[str]) -> tuple[str, ...]:
    words = [name.lower() for name, _ in root.named_modules()] + [name.lower() for name in names]
    kinds = [kind for kind in ("lora", "dora") if any(kind in word for word in words)]
    library = any(type(module).__module__.startswith("peft.") for module in root.modules())
    return (*kinds, *(("peft",) if library else ()))


def built_at(root: Any, name: str) -> SourceLocation | None:
    """Return where a module is built: the line that sets the attribute, or else its class."""
    names = name.split(".")
    for depth in range(len(names) - 1, -1, -1):
        parent = _inner(root, names[:depth])
        if parent is not None and (place := _assigned(type(parent), names[depth])) is not None:
            return place
    module = _inner(root, names)
    return own_code(type(module)) if module is not None else None


def _inner(root: Any, names: list[str]) -> Any:
    module = root
    for name in names:
        module = getattr(module, "_modules", {}).get(name)
    return module


def _assigned(cls: type, attribute: str) -> SourceLocation | None:
    """Return the line of `self.attribute =` in a class of the project's own."""
    place = _place(cls)
    if place is None:
        return None
    try:
        lines, first = inspect.getsourcelines(cls)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, TypeError):  # typed in, or changed since it was read
        return None
    for node in ast.walk(tree):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Attribute) and target.attr == attribute:
                return SourceLocation(file=place.file, line=first + target.lineno - 1)
    return None
