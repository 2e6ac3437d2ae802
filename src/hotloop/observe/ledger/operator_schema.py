"""What the schema of an ATen operator says about a call: what it reads, writes and computes."""

from __future__ import annotations

import importlib
import sys
import time
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Schema", "framework_time", "tensors"]

_OFF = ("p", "dropout", "dropout_p")  # arguments that, if 0, make a random operator exact


class Schema:
    """What an operator's schema says about it."""

    def __init__(self, func: Any) -> None:
        torch = sys.modules["torch"]
        self.core: Any = importlib.import_module("torch._C")
        registry = importlib.import_module("torch.utils.flop_counter").flop_registry
        schema = func._schema
        self.name, self.key = str(schema.name), f"{schema.name}.{schema.overload_name}"
        self.names = [argument.name for argument in schema.arguments]
        self.written = frozenset(
            argument.name
            for argument in schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        )
        self.is_view = not self.written and any(
            one.alias_info is not None for one in schema.returns
        )
        self.reads_value = not self.written and not any(
            "Tensor" in str(one.type) for one in schema.returns
        )
        self.is_product = self.name in ("aten::mul", "aten::mul_")
        self.strided = torch.strided
        self.ignores = self.names.index("ignore_index") if "ignore_index" in self.names else None
        self._seeded = torch.Tag.nondeterministic_seeded in func.tags
        self._flops = registry.get(func._overloadpacket)
        self._defaults = {one.name: one.default_value for one in schema.arguments}

    def tensors(self, args: Any, kwargs: Any) -> Iterable[tuple[str, Any]]:
        """Yield the tensors among the arguments, each with the name of its argument."""
        named = [*zip(self.names, args, strict=False), *kwargs.items()]
        return [(name, tensor) for name, value in named for tensor in tensors(value)]

    def argument(self, name: str, args: Any, kwargs: Any) -> Any:
        """Return an argument by its name."""
        at = self.names.index(name)
        return args[at] if at < len(args) else kwargs.get(name, self._defaults.get(name))

    def random(self, args: Any, kwargs: Any) -> bool:
        """Whether this call draws random numbers."""
        if not self._seeded:
            return False
        off = [self.argument(name, args, kwargs) for name in _OFF if name in self.names]
        return not (off and all(not value for value in off))

    def ignored(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Return the targets of a loss, and the target that it ignores."""
        return self.argument("target", args, kwargs), self.argument("ignore_index", args, kwargs)

    def flops(self, args: Any, kwargs: Any, result: Any) -> int:
        """Return the operator's FLOPs; 0 for one without products."""
        if self._flops is None:
            return 0
        try:
            return int(self._flops(*args, **kwargs, out_val=result))
        except (TypeError, ValueError, AssertionError, AttributeError, IndexError):
            return 0

    def newest_node(self) -> int:
        """Return the sequence number of the newest autograd node of this thread."""
        return int(self.core._autograd._get_sequence_nr()) - 1


def tensors(value: Any) -> list[Any]:
    """Return the tensors in a value: itself, or those of a list, however deep."""
    torch = sys.modules["torch"]
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def framework_time() -> int:
    """Return the nanoseconds that an operator on one number takes: the framework's own part."""
    torch = sys.modules["torch"]
    one, times = torch.ones(1), []
    for _ in range(50):
        start = time.perf_counter_ns()
        torch.ops.aten.add.Tensor(one, 1)
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[25]


hide(globals())
