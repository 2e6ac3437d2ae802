"""Records the operators of a few steps: their time, what they read and write, and their values.

A dispatch mode sees each operator below autograd, in the forward pass, the backward pass and the
update. Values are numbered and not compared: the number of a result is a hash of the operator and
of the numbers of its inputs, and only a tensor that comes from outside (a batch, a table) is hashed
by its bytes. Two results with the same number are the same result.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from hotloop.machine.own_clock import queued
from hotloop.observe.hooks.stack_frames import walk
from hotloop.observe.ledger.dispatch import KernelClock, dispatch_mode
from hotloop.observe.ledger.operands import note_operands
from hotloop.observe.ledger.operation import Operation
from hotloop.observe.ledger.operator_schema import Schema, framework_time, tensors
from hotloop.observe.ledger.storages import (
    TensorStorage,
    address_of,
    are_probabilities,
    bytes_of,
    content_of,
    parts_of,
    reference_of,
    value_of,
)
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hotloop.observe.ledger.operation import RawStack

__all__ = ["MOST_OPERATIONS", "Recorder"]

_clock = time.perf_counter_ns
MOST_OPERATIONS = 100_000
_WRITERS = 32  # of a storage; from then on, the latest two stand for all
_COUNTED = 2048  # elements from which the rows of a gradient are looked at
_NEVER = frozenset({"aten::empty", "aten::empty_like", "aten::new_empty", "aten::empty_strided"})
_OF_SHAPE = re.compile("aten::((zeros|ones|full)_like|new_(zeros|ones|full))").fullmatch
_CHOICES = frozenset({"aten::index", "aten::index_select", "aten::embedding"})
_FILLS = frozenset({"aten::zero_", "aten::fill_", "aten::copy_"})  # what was there does not matter


class Recorder:
    """Records from `start` to `stop`."""

    def __init__(self, *, is_ours: Callable[[], bool]) -> None:
        self.operations: list[Operation] = []
        self.ends: list[int] = []  # operations until the end of each recorded step
        self.roots: set[int] = set()  # operations whose results the script reads or differentiates
        self.weights: set[int] = set()  # storages of parameters
        self.state: set[int] = set()  # storages older than the window that were written
        # Storages that were filled outside of PyTorch or before: where they are used, and bytes.
        self.entered: dict[int, tuple[RawStack, int]] = {}
        self.losses: set[int] = set()  # operations whose results are differentiated
        # Backward passes: operations before each, and whether it adds to the weights' gradients.
        self.passes: list[tuple[int, bool]] = []
        self.left: set[RawStack] = set()  # where the script reads values
        self.reads: list[int] = []  # operations before each of these reads
        self.overflow = False
        self.fault: Exception | None = None
        self.framework = 0  # ns of an operator that are the framework's and not the device's
        self.probabilities: dict[RawStack, bool] = {}  # whether each log-softmax there gets them
        self._is_ours = is_ours
        self._storages: dict[int, TensorStorage] = {}
        self._fresh = 0  # numbers for values that equal no other
        self._kernels: KernelClock | None = None
        self._thread = threading.get_ident()
        self._mode: Any = None
        self._infos: dict[Any, Schema] = {}
        self._stacks: dict[RawStack, RawStack] = {}
        self._calls = Counter[tuple[str, int]]()  # of each operator with each stack, forward

    # The window.

    def start(self, parameters: Iterable[Any]) -> None:
        """Begin to record; the storages of `parameters` are known by their identity."""
        for parameter in parameters:
            storage = self._of(parameter, by_content=False)
            if storage is not None:
                self.weights.add(storage)
        self._kernels = KernelClock.of_gpu()
        self.framework = 0 if self._kernels else framework_time()
        self._mode = dispatch_mode(self._dispatched)
        self._mode.__enter__()

    def end_step(self) -> None:
        """Note the end of a step."""
        self.ends.append(len(self.operations))

    def stop(self) -> None:
        """Stop recording."""
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(None, None, None)

    def release(self) -> None:
        """Free what is only needed while operators are recorded."""
        self._storages.clear()
        self._infos.clear()
        self._stacks.clear()
        self._calls.clear()

    @property
    def is_on(self) -> bool:
        """Whether operators are recorded now."""
        return self._mode is not None

    def read(self, tensor: Any) -> None:
        """Note that the script reads the values of a tensor."""
        self.left.add(self._stack(2))
        self.reads.append(len(self.operations))
        self.roots.update(self._writers(tensor))

    def differentiate(self, value: Any, adds_up: bool) -> None:
        """Note that tensors are differentiated, and whether gradients are added to the weights'."""
        self.losses.update(self._writers(value))
        self.passes.append((len(self.operations), adds_up))

    def _writers(self, value: Any) -> list[int]:
        storages = (self._storages.get(address_of(tensor) or 0) for tensor in tensors(value))
        return [writer for storage in storages if storage for writer in storage.writers]

    def live(self, unread: Iterable[Any]) -> set[int]:
        """Return the operations that matter by themselves; `unread` are tensors nobody reads.

        Their results are read by the script, still exist, or are older than the window.
        """
        left_out = {address_of(tensor) for tensor in unread}
        live = self.roots | self.losses
        for address, storage in self._storages.items():
            if storage.is_new and address not in left_out and not storage.reference.expired():
                live.update(storage.writers)
        for number, operation in enumerate(self.operations):
            if operation.has_effect or not left_out.issuperset(operation.changed):
                live.add(number)
        return live

    # One operator.

    def _dispatched(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self.overflow or self.fault is not None or self._is_ours():
            return func(*args, **kwargs)
        kernels = self._kernels
        if kernels is not None and kernels.is_capturing:  # a wait would end the capture
            self.fault = RuntimeError("a CUDA graph is captured in a recorded step")
            return func(*args, **kwargs)
        try:
            schema = self._infos.get(func)
            if schema is None:
                schema = self._infos[func] = Schema(func)
            if schema.name.startswith("profiler::"):
                return func(*args, **kwargs)
            before = schema.tensors(args, kwargs)
            inputs = [(tensor, self._of(tensor), name) for name, tensor in before]
            value = self._value(schema, args, kwargs)
        except Exception as error:  # noqa: BLE001 - told in the report; the script goes on
            self.fault = error
            return func(*args, **kwargs)
        if kernels is not None:
            kernels.begin()
        waited, start = queued(), _clock()
        result = func(*args, **kwargs)
        spent = max(0, _clock() - start - (queued() - waited))  # the clock is read first
        if kernels is not None:
            spent = kernels.end([*(one for one, _, _ in inputs), *tensors(result)], spent)
        try:
            self._record(schema, args, kwargs, inputs, value, result, (start, spent))
        except Exception as error:  # noqa: BLE001 - told in the report; the script goes on
            self.fault = error
        return result

    def _record(
        self,
        schema: Schema,
        args: Any,
        kwargs: Any,
        inputs: list[tuple[Any, int | None, str]],
        value: int | None,
        result: Any,
        times: tuple[int, int],
    ) -> None:
        number = len(self.operations)
        if number >= MOST_OPERATIONS:
            self.overflow = True
            return
        node = schema.core._current_autograd_node()
        operation = Operation(
            name=schema.name,
            overload=schema.key,
            start=times[0],
            spent=times[1],
            stack=self._stack(4),
            value=value,
            is_random=schema.random(args, kwargs),
            is_view=schema.is_view,
            node=None if node is None else node._sequence_nr(),
            sequence=schema.newest_node(),
        )
        self.operations.append(operation)
        if schema.name == "aten::_log_softmax":
            known = self.probabilities.get(operation.stack, True)
            self.probabilities[operation.stack] = known and are_probabilities(args[0], args[1])
        if operation.node is None:
            self._calls[place := (schema.key, id(operation.stack))] += 1
            calls, kept = self._calls[place], self._storages
            note_operands(operation, args, kwargs, inputs, kept, result, calls=calls)
        self._flow(operation, number, schema, inputs, result)
        self._measure(operation, schema, args, kwargs, inputs, result)

    def _flow(
        self,
        operation: Operation,
        number: int,
        schema: Schema,
        before: list[tuple[Any, int | None, str]],
        result: Any,
    ) -> None:
        """Note what the operation reads and writes."""
        reads, outside, changed = set[int](), set[int](), set[int]()
        for tensor, address, name in before:
            if address is None:
                operation.has_effect = True
                continue
            storage = self._storages[address]
            writes = name in schema.written
            covers = writes and tensor.numel() * tensor.element_size() >= bytes_of(tensor)
            if not (covers and schema.name in _FILLS):
                reads.update(storage.writers)
                if not storage.is_new:
                    outside.add(address)
            if writes:
                if not storage.is_new:
                    changed.add(address)
                    self.state.add(address)
                mixed = operation.value if operation.value is not None else self._new()
                if covers and schema.name in _FILLS:
                    storage.value, storage.writers = hash(mixed), [number]
                else:
                    where = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
                    storage.value = hash((storage.value, mixed, where, name))
                    # The latest writer has read what the others wrote.
                    first = -1 if len(storage.writers) >= _WRITERS else 0
                    storage.writers = [number] if covers else [*storage.writers[first:], number]
        self._outputs(operation, number, schema, {address for _, address, _ in before}, result)
        operation.reads, operation.outside = tuple(reads), tuple(outside)
        operation.changed = tuple(changed)
        if schema.name in _CHOICES and before[0][1] is not None:
            operation.table = tuple(self._storages[before[0][1]].writers)
            rows, chosen = (len(tensor) if tensor.dim() else 1 for tensor, _, _ in before[:2])
            operation.drawn = chosen / max(1, rows)
            operation.table_shape = tuple(before[0][0].shape)
        if schema.reads_value and reads:
            self.roots.update(reads)
            self.left.add(operation.stack)
            self.reads.append(number)

    def _outputs(
        self,
        operation: Operation,
        number: int,
        schema: Schema,
        inputs: set[int | None],
        result: Any,
    ) -> None:
        """Note the results that lie in memory of their own."""
        has_output = bool(schema.written)
        outputs = [(tensor, address_of(tensor)) for tensor in tensors(result)]
        if outputs and not schema.written and all(address in inputs for _, address in outputs):
            operation.is_view = True  # unsafe_split and others, whose schema does not say so
        for position, (tensor, address) in enumerate(outputs):
            has_output = True
            if address is None or address in inputs:
                continue
            has_value = operation.value is not None
            value = hash((operation.value, position)) if has_value else self._new()
            self._storages[address] = TensorStorage(reference_of(tensor), value, [number])
        if not has_output:
            operation.has_effect = True
        if schema.name.partition("::")[0] not in ("aten", "prims"):
            operation.has_effect = True  # a library's own operator: what it does, nobody sees

    def _measure(
        self,
        operation: Operation,
        schema: Schema,
        args: Any,
        kwargs: Any,
        before: list[tuple[Any, int | None, str]],
        result: Any,
    ) -> None:
        """Note the operator's work and, in a backward pass, the rows without a gradient."""
        if schema.is_view:
            return
        operation.bytes = sum(
            tensor.numel() * tensor.element_size()
            for tensor in (*(tensor for tensor, _, _ in before), *tensors(result))
        )
        operation.flops = schema.flops(args, kwargs, result)
        if schema.is_product and any(
            isinstance(value, int | float) and value == 0 for value in args[1:2]
        ):
            operation.factor_zero = True
        if schema.name == "aten::embedding" and args[1].dim() == 2 and args[1].numel():
            last = args[1][:, -1:]
            pad = schema.argument("padding_idx", args, kwargs)
            operation.declared = pad >= 0
            pads = args[1] == (pad if operation.declared else last.mode(0).values)
            operation.tail = pads.flip(1).cummin(1).values.float().mean()
        if operation.node is None:
            return
        if schema.ignores is not None:
            target, ignored = schema.ignored(args, kwargs)
            operation.ignored = (target == ignored).float().mean()
        gradient = before[0][0] if before else None
        if gradient is None or not gradient.is_floating_point() or gradient.dim() < 2:
            return
        if gradient.numel() < _COUNTED or gradient.layout is not schema.strided:
            return
        if schema.name == "aten::_log_softmax_backward_data":
            operation.left_out = (gradient == 0).all(args[2]).float().mean()
        nothing = (gradient == 0).flatten(0, -2).all(-1)
        operation.unused = nothing.float().mean()
        if schema.name == "aten::embedding_dense_backward":
            indices = args[1].reshape(-1)
            if indices.numel() == nothing.numel() and value_of(nothing.any()):
                ids = indices[nothing]
                operation.constant = bool(value_of((ids == ids[0]).all()))

    # Values.

    def _new(self) -> int:
        self._fresh += 1
        return hash(("new", self._fresh))

    def _value(self, schema: Schema, args: Any, kwargs: Any) -> int | None:
        nothing = schema.is_view or schema.reads_value or schema.name in _NEVER
        if nothing or schema.random(args, kwargs):
            return None
        if _OF_SHAPE(schema.name):  # what the tensor holds does not matter
            args = (tuple(args[0].shape), args[0].dtype, *args[1:])
        try:
            return hash((schema.key, self._described(args), self._described(tuple(kwargs.items()))))
        except TypeError:  # an argument that cannot be hashed
            return None

    def _described(self, value: Any) -> Any:
        torch = sys.modules["torch"]
        if isinstance(value, torch.Tensor):
            address = self._of(value)
            if address is None:
                return self._described(parts_of(value)) or self._new()
            try:
                where = (value.storage_offset(), tuple(value.shape), value.stride())
            except RuntimeError:
                return self._new()
            return self._storages[address].value, where, value.dtype, value.device.type
        return tuple(map(self._described, value)) if isinstance(value, list | tuple) else value

    def _of(self, tensor: Any, *, by_content: bool = True) -> int | None:
        """Return the address of a tensor's storage; None: it has none that can be followed."""
        address = address_of(tensor)
        if address is None:
            return None
        step, storage = len(self.ends), self._storages.get(address)
        if storage is not None and (storage.is_new or storage.step == step):
            return address
        if storage is not None and (address in self.weights or address in self.state):
            return address
        value = content_of(tensor) if by_content else None
        if by_content:
            self.entered[address] = self._stack(4), bytes_of(tensor)
        if storage is None:
            value = self._new() if value is None else value
            self._storages[address] = TensorStorage(
                reference_of(tensor), value, is_new=False, step=step
            )
        else:  # its memory may have been filled by somebody else since
            storage.step, storage.value = step, storage.value if value is None else value
        return address

    def _stack(self, depth: int) -> RawStack:
        """Return the stack below the caller; on a thread of autograd, that of the main thread."""
        is_main = threading.get_ident() == self._thread
        frame = sys._getframe(depth) if is_main else sys._current_frames().get(self._thread)
        stack = walk(frame)
        return self._stacks.setdefault(stack, stack)


hide(globals())
