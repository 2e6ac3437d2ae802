"""The calls inside an outermost module during a forward pass: modules, inputs and times."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.core.finding import SourceLocation
from hotloop.observe.hooks.stack_frames import is_own

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Call", "Calls", "autocast", "keyed", "plain", "sample", "tensors"]

_NUMBERS = 64  # of a tensor that are sampled
_TENSORS = 4  # of a call's arguments
_SUMMED = 1_000_000  # numbers of one pass that are summed as a check: below 1 ms
_SPREAD = 4096  # numbers of a tensor that are summed beyond that
_DEEPEST = 80  # frames
_CHECKPOINT = os.path.join("torch", "utils", "checkpoint.py")
_AGAIN = {"backward", "recompute_fn", "unpack_hook"}  # its functions that run during backward
_clock = time.perf_counter_ns


@dataclass(slots=True)
class Call:
    """One call of an inner module."""

    module: int  # its id()
    parent: int  # index of the enclosing call of the pass, -1: the root
    inputs: tuple[Any, ...] = ()  # shape, dtype and a sample of each tensor
    summed: bool = False  # whether `inputs` has the sum of each tensor too
    moving: bool = False  # an input requires a gradient
    place: SourceLocation | None = None
    started: int = 0
    own: int = 0  # hotloop's own time (ns) at its start
    seconds: float | None = None
    events: tuple[Any, Any] | None = None  # on a GPU
    output: Any = None  # autograd's node of the first output; dropped after the pass
    requires: bool = False  # the first output requires a gradient
    made: int = 0  # numbers in it
    shape: tuple[int, ...] = ()  # of it
    autocast: str | None = None
    checkpointed: bool = False


class Calls:
    """Collects the calls of one forward pass."""

    def __init__(self) -> None:
        self.done: list[Call] = []
        self.twice: set[int] = set()  # modules called more than once in an earlier pass
        self._open: list[int] = []
        self._own = 0
        self._left = _SUMMED

    def enter(self, module: Any, args: Any, kwargs: Any) -> None:
        """Record the start of an inner module's call."""
        began = _clock()
        place, checkpoint = _where()
        if checkpoint & _AGAIN:  # backward computes the pass again
            return
        inputs = list(_distinct((args, kwargs)))
        call = Call(
            module=id(module),
            parent=self._open[-1] if self._open else -1,
            inputs=tuple(map(keyed, inputs)),
            moving=any(tensor.requires_grad for tensor in inputs),
            place=place,
            autocast=autocast(inputs),
            checkpointed=bool(checkpoint),
        )
        if call.module in self.twice:
            call.inputs += self._sums(inputs)
            call.summed = True
        self._open.append(len(self.done))
        self.done.append(call)
        if inputs and inputs[0].is_cuda:
            call.events = _event(), None
        self._own += _clock() - began
        call.own, call.started = self._own, _clock()

    def leave(self, module: Any, output: Any) -> None:
        """Record the end of a call; calls inside it that raised are closed with it."""
        ended, number = _clock(), id(module)
        while self._open:
            call = self.done[self._open.pop()]
            if call.module == number:
                break
        else:
            return
        call.seconds = (ended - call.started - (self._own - call.own)) / 1e9
        if call.events is not None:
            call.events = call.events[0], _event()
        first = next(tensors(output), None)
        if first is not None:
            call.output, call.requires = first.grad_fn, first.requires_grad
            call.made, call.shape = first.numel(), tuple(first.shape)
        self._own += _clock() - ended

    def take(self) -> list[Call]:
        """Return the calls of the pass that has ended, and begin the next pass."""
        calls, self.done, self._open, self._left = self.done, [], [], _SUMMED
        counts = Counter(call.module for call in calls)
        self.twice.update(number for number, count in counts.items() if count > 1)
        return calls

    def _sums(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Return the sum of the bits of each tensor, because equal samples alone are no proof.

        Beyond a limit it is the sum of numbers that are spread over the whole tensor.
        """
        import torch

        sums = []
        for tensor in inputs:
            self._left -= tensor.numel()
            if plain(tensor):
                numbers = tensor.detach()
                if self._left <= 0:  # an odd stride meets all columns
                    numbers = numbers.flatten()[:: tensor.numel() // _SPREAD | 1]
                if numbers.is_complex():
                    numbers = torch.view_as_real(numbers.resolve_conj())
                # Of their bits: one -inf or -1e9 of a mask would hide all other numbers.
                bits = numbers.view(getattr(torch, f"int{8 * numbers.element_size()}"))
                total = bits.sum(dtype=torch.int64)
                sums.append(total if total.is_cuda else int(total))
        return tuple(sums)


def tensors(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yield the tensors in arguments or outputs, however nested."""
    import torch

    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from tensors(part, depth - 1)


def _distinct(value: Any) -> Iterator[Any]:
    ids: set[int] = set()
    for tensor in tensors(value):
        if id(tensor) not in ids and len(ids) < _TENSORS:
            ids.add(id(tensor))
            yield tensor


def plain(tensor: Any) -> bool:
    """Whether its numbers can be read: not a fake, wrapped, sparse or captured tensor."""
    import torch

    if type(tensor) is not torch.Tensor and type(tensor) is not torch.nn.Parameter:
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return False
    if tensor.numel() == 0 or torch._C._len_torch_dispatch_stack():
        return False
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def keyed(tensor: Any) -> tuple[Any, ...]:
    """Return shape, dtype and sample; tensors with equal keys are treated as equal."""
    return tuple(tensor.shape), str(tensor.dtype), sample(tensor) if plain(tensor) else object()


def sample(tensor: Any) -> Any:
    """Return a hash of sampled numbers; on a GPU the numbers themselves, to be read later."""
    shape = tensor.shape
    per_dimension = max(1, round(_NUMBERS ** (1 / len(shape)))) if shape else 1
    steps = tuple(slice(None, None, -(-length // per_dimension)) for length in shape)
    numbers = tensor.detach()[steps].reshape(-1)
    return numbers.clone() if numbers.is_cuda else hash(tuple(numbers.tolist()))


def _event() -> Any:
    import torch

    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def autocast(inputs: list[Any]) -> str | None:
    """Return the dtype that autocast gives products on the device of these tensors, if it is on."""
    import torch

    device = inputs[0].device.type if inputs else "cpu"
    if device == "meta" or not torch.is_autocast_enabled(device):
        return None
    return str(torch.get_autocast_dtype(device)).removeprefix("torch.")


def _where() -> tuple[SourceLocation | None, set[str]]:
    """Return the project's innermost line, and the functions of torch's checkpoint on the stack."""
    place, checkpoint = None, set()
    for frame, line in itertools.islice(walk_stack(sys._getframe(2)), _DEEPEST):
        code = frame.f_code
        if place is None and is_own(code.co_filename):
            place = SourceLocation(file=os.path.abspath(code.co_filename), line=line)
        if code.co_filename.endswith(_CHECKPOINT):
            checkpoint.add(code.co_name)
    return place, checkpoint
