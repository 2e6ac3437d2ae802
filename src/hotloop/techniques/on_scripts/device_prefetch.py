"""Copies a script's next batch to the GPU before its loop asks for it there.

The loop receives its batch in host memory, as before. When it calls .to(device) or .cuda(), it gets
a copy that was started one step earlier on a separate stream. A subclass of Tensor intercepts these
two methods and behaves as a plain tensor otherwise.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.machine.copy_stream import CopyStream

__all__ = ["BatchPrefetch"]

_END: Any = object()
# Functions after which memory can be written without a change of the tensor's version.
_OPENS = ("numpy", "__array__", "data_ptr", "untyped_storage", "__dlpack__")
# What an unusual batch or a GPU without free memory may raise; prefetching then ends.
_FAILS = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)


class BatchPrefetch:
    """Prefetches one loader's batches to the device; a `session.LoaderChange`.

    `kind` is the device type to which batches are copied: "cuda", except in tests. The device and
    the tensors that the loop moves are learned from its batches; other tensors are not copied. If
    prefetching fails, the reason is added to `troubles`, and batches pass through unchanged.
    """

    def __init__(
        self,
        stream: Callable[[torch.device], CopyStream],
        kind: str,
        troubles: list[str] | None = None,
    ) -> None:
        self._make_stream, self._kind = stream, kind
        self._troubles = [] if troubles is None else troubles
        self._is_off = False
        self._stream: CopyStream | None = None
        self.device: torch.device | None = None  # where the loop moves its batches
        self.moved: set[int] = set()  # indices of the tensors of a batch that the loop moves
        self.sent = self.taken = 0  # tensors that were prefetched, and those that the loop took

    def on_iterator_requested(self, loader: Any) -> None:
        """Do nothing."""

    def on_iterator_created(self, iterator: Any) -> None:
        """Make the iterator read one batch ahead of the loop."""
        iterator._hotloop_ahead = _Ahead(self)
        iterator.__class__ = _with_ahead(iterator.__class__)

    def hand(self, batch: Any) -> Any:
        """Return a batch whose tensors report their moves; start the copies the loop will need."""
        if self._is_off:
            return batch
        try:
            return self._sent(batch)
        except _FAILS as error:
            self._is_off = True
            self._troubles.append(f"it was ended: {type(error).__name__}: {error}"[:300])
            return batch

    def _sent(self, batch: Any) -> Any:
        tensors = list[Tensor]()
        marked = _rebuilt(batch, tensors)
        wanted = [at for at in range(len(tensors)) if at in self.moved]
        copies, event = dict[int, Tensor](), None  # only tensors that are sent have a copy
        if wanted and self.device is not None:
            if self._stream is None:
                self._stream = self._make_stream(self.device)
            sent, event = self._stream.send([_plain(tensors[at]) for at in wanted])
            copies, self.sent = dict(zip(wanted, sent, strict=True)), self.sent + len(sent)
        for at, tensor in enumerate(tensors):
            parcel = _Parcel(self, at, tensor._version, copies.get(at), self._stream, event)
            tensor.__dict__["_parcel"] = parcel
        return marked

    def ask(
        self, parcel: _Parcel, tensor: Tensor, device: torch.device, *, wait: bool
    ) -> Tensor | None:
        """Record that the loop moves a tensor to `device`; return its prefetched copy or None.

        With `wait` the host memory may be overwritten as soon as this returns.
        """
        if device.type != self._kind:
            return None
        if self.device != device:
            self.device, self._stream = device, None
            self.moved.clear()
        self.moved.add(parcel.number)
        sent, parcel.copy = parcel.copy, None  # a second call must get separate memory
        if sent is None or sent.device != device or tensor._version != parcel.version:
            return None
        parcel.stream.arrive([sent], parcel.event, wait=wait)
        self.taken += 1
        return sent


@dataclass(slots=True)
class _Parcel:
    """The link from a tensor of a batch to its prefetched copy."""

    prefetch: BatchPrefetch
    number: int
    version: int
    copy: Tensor | None
    stream: Any
    event: Any


class _Batched(Tensor):
    """A tensor of a batch in host memory that intercepts .to() and .cuda()."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        parcel = first.__dict__.get("_parcel") if type(first) is _Batched else None
        if parcel is not None:
            if func in (Tensor.to, Tensor.cuda):
                device = _goal(func is Tensor.cuda, args[1:], kwargs)
                wait = not kwargs.get("non_blocking", False)
                copied = device and parcel.prefetch.ask(parcel, first, device, wait=wait)
                if copied is not None:
                    return copied
            elif getattr(func, "__name__", "") in _OPENS:
                parcel.copy = None
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _plain(self).__reduce_ex__(protocol)  # type: ignore[no-untyped-call]

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.deepcopy(_plain(self), memo)

    def __repr__(self, **given: Any) -> str:  # type: ignore[override]
        return repr(_plain(self))


def _plain(tensor: Tensor) -> Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(Tensor)


def _goal(is_cuda: bool, args: Any, kwargs: Any) -> torch.device | None:
    """Return the device of .to(device) or .cuda(device); None if there are other arguments."""
    if kwargs.keys() - {"device", "non_blocking"} or len(args) > 1:
        return None
    given = args[0] if args else kwargs.get("device", "cuda" if is_cuda else None)
    if isinstance(given, str | torch.device):
        device = torch.device(given)
    elif type(given) is int:
        device = torch.device("cuda", given)
    else:
        return None
    if device.type == "cuda" and device.index is None:
        return torch.device("cuda", torch.cuda.current_device())
    return device


def _rebuilt(value: Any, tensors: list[Tensor]) -> Any:
    """Return a batch in new containers, with its plain tensors marked and added to `tensors`."""
    if type(value) is Tensor:
        odd = value.requires_grad or value.is_inference()  # their version is not reliable
        if odd or value.device.type != "cpu" or value.layout != torch.strided:
            return value
        tensors.append(value.as_subclass(_Batched))
        return tensors[-1]
    if type(value) in (list, tuple):
        return type(value)([_rebuilt(item, tensors) for item in value])
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rebuilt(item, tensors) for item in value))
    if isinstance(value, Mapping) and hasattr(value, "__setitem__"):
        new: Any = copy.copy(value)
        for key in value:
            new[key] = _rebuilt(value[key], tensors)
        return new
    return value


class _Ahead:
    """The batch that an iterator read ahead of its loop, or the exception that reading raised."""

    def __init__(self, prefetch: BatchPrefetch) -> None:
        self.prefetch = prefetch
        self.held: Any = None
        self.began = False
        self.fault: Exception | None = None

    @property
    def holds(self) -> bool:
        """Whether there is a batch that the loop has not received yet."""
        return self.began and self.held is not _END

    def next(self, read: Callable[[], Any]) -> Any:
        """Return the batch that was read ahead, and read one more."""
        if not self.began:
            self.began = True
            self._read(read)
        if self.fault is not None:
            fault, self.fault, self.began = self.fault, None, False
            raise fault
        if self.held is _END:
            self.began = False
            raise StopIteration
        held = self.held
        self._read(read)
        return held

    def _read(self, read: Callable[[], Any]) -> None:
        self.held = None
        try:
            batch = read()
        except StopIteration:
            self.held = _END
        except Exception as error:  # noqa: BLE001 - the script's own, which gets it at that batch
            self.fault = error
        else:
            self.held = self.prefetch.hand(batch)


@functools.cache
def _with_ahead(kind: type) -> Any:
    """Return a subclass of an iterator class that reads one batch ahead."""

    def following(self: Any) -> Any:
        return self._hotloop_ahead.next(super(made, self).__next__)

    def reset(self: Any, loader: Any, first_iter: bool = False) -> None:
        self._hotloop_ahead = _Ahead(self._hotloop_ahead.prefetch)
        super(made, self)._reset(loader, first_iter)

    methods = {"__next__": following, "_reset": reset, "__module__": kind.__module__}
    made: Any = type(kind.__name__, (kind,), methods)
    return made


hide(globals())
