"""Counts what the operators of one step compute and move, from the sizes of their tensors.

FLOPs are those of matrix products, attention and convolutions, by the formulas of torch's
FlopCounterMode. Bytes are those of the tensors that an operator reads and writes; what a compiled
region does inside is not seen.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.case.rehearsal import KernelWork
from hotloop.observe.ledger.dispatch import dispatch_mode
from hotloop.observe.ledger.operator_schema import Schema, tensors

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["StepWork"]

_NEVER: Final = frozenset({"aten::empty", "aten::empty_like", "aten::empty_strided"})
_FILLS: Final = frozenset({"aten::zero_", "aten::fill_", "aten::copy_"})  # do not read the target
_ROWS: Final = frozenset({"aten::embedding", "aten::index", "aten::index_select", "aten::gather"})
_PRECISIONS: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


class StepWork:
    """Counts from `start` to `stop`."""

    def __init__(self) -> None:
        self._counts = Counter[tuple[int, int, str | None]]()
        self._schemas: dict[Any, Schema] = {}
        self._mode: Any = None
        self._is_tf32 = False

    def start(self, torch: Any) -> None:
        """Begin to count."""
        if torch.get_float32_matmul_precision() != "highest":
            self._is_tf32 = torch.cuda.get_device_capability() >= (8, 0)
        self._mode = dispatch_mode(self._called)
        self._mode.__enter__()

    def stop(self) -> None:
        """Stop counting."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            self._mode = None

    def work(self) -> tuple[KernelWork, ...]:
        """Return the operators, equal ones together."""
        return tuple(
            KernelWork(calls=calls, flops=flops, bytes=size, precision=precision)
            for (flops, size, precision), calls in list(self._counts.items())
        )

    def _called(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        schema = self._schemas.get(func)
        if schema is None:
            schema = self._schemas[func] = Schema(func)
        if schema.is_view or schema.name in _NEVER or schema.name.startswith("profiler::"):
            return result
        inputs = list(schema.tensors(args, kwargs))
        outputs = tensors(result)
        if any(tensor.is_cuda for tensor in (*outputs, *(one for _, one in inputs))):
            flops = schema.flops(args, kwargs, result)
            size = _bytes(schema, inputs, outputs)
            self._counts[flops, size, self._precision(inputs) if flops else None] += 1
        return result

    def _precision(self, inputs: Sequence[tuple[str, Any]]) -> str | None:
        known = _PRECISIONS.get(str(inputs[0][1].dtype).removeprefix("torch."))
        return "tf32" if known == "fp32" and self._is_tf32 else known


def _bytes(schema: Schema, inputs: Sequence[tuple[str, Any]], outputs: Sequence[Any]) -> int:
    """Return the bytes of the card's memory that an operator reads and writes."""
    made = _size(outputs, but={id(tensor) for _, tensor in inputs})
    if schema.name in _ROWS:  # of a table it reads as many bytes as it writes
        return 2 * made + _size([tensor for _, tensor in inputs[1:]])
    written = [tensor for name, tensor in inputs if name in schema.written]
    read = [
        tensor for name, tensor in inputs if not (schema.name in _FILLS and name in schema.written)
    ]
    return _size(read) + _size(written) + made


def _size(tensors: Sequence[Any], but: set[int] | frozenset[int] = frozenset()) -> int:
    own = (one for one in tensors if one.is_cuda and id(one) not in but)
    return sum(one.numel() * one.element_size() for one in own)
