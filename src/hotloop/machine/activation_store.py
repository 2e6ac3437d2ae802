"""Keeps what a forward pass saves for the backward pass in pinned host memory, and brings it back.

Copies go out on one stream and come in on another; the host waits for neither. The backward pass
asks for tensors in the reverse order in which they were saved, so the next ones come in while it
computes with one. What is saved several times in one layout is copied once.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.graph import saved_tensors_hooks

from hotloop.machine.host_memory import host_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["ActivationStore"]

_LEAST = 1 << 20  # bytes below which a tensor stays on the GPU: a copy takes 5 us besides its bytes
_AHEAD = 2  # tensors that come in while another one is computed with
# Tensors that go out while others are computed: then the GPU waits for the oldest one, so that its
# memory is free for what is computed next, however far the host is ahead.
_BEHIND = 4


@dataclass(slots=True, kw_only=True, eq=False, weakref_slot=True)
class _Kept:
    """One tensor that was moved to the host. Autograd holds it as long as it is needed."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    host: Tensor | None = None  # None: sizes alone are of interest
    out: Any = None  # the event behind the copy to the host
    back: Tensor | None = None  # on the GPU again
    arrived: Any = None  # the event behind the copy from the host
    events: list[Any] = field(default_factory=list)  # see `_set_free`


class ActivationStore:
    """Saves the large tensors of a block of code in host memory."""

    def __init__(self) -> None:
        self.moved_bytes = 0  # since the start
        self._order: list[weakref.ref[_Kept]] = []  # as they were saved
        # id of a storage -> the storage, and its copies by version and layout.
        self._known: dict[int, tuple[weakref.ref[Any], dict[Any, weakref.ref[_Kept]]]] = {}
        # Bytes, a power of two -> free memory, and the event since which it is free.
        self._pool: dict[int, list[tuple[Tensor, Any]]] = {}
        self._leaving: deque[tuple[Tensor, Any]] = deque()  # on the GPU, and the event of the copy
        self._going: Any = None
        self._coming: Any = None

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Move what autograd saves in this block, if it is large and no parameter."""
        with saved_tensors_hooks(self._out, self._in):
            yield

    def _out(self, tensor: Tensor) -> Any:
        """Begin to copy a saved tensor to the host; return what stands for it."""
        is_fake = isinstance(tensor, FakeTensor)  # of a forecast
        if not (is_fake or self._is_on_gpu(tensor)) or not _is_worth_it(tensor):
            return tensor
        place = (tensor.storage_offset(), tensor.shape, tensor.stride())
        layout = (tensor._version, tensor.dtype, *place)
        copies = self._copies_of(tensor.untyped_storage())
        known = copies.get(layout)
        kept = None if known is None else known()
        if kept is None:
            kept = self._sizes(tensor) if is_fake else self._copied(tensor)
            self._hold(tensor, kept.out)
            copies[layout] = weakref.ref(kept)
            self._drop_dead()
            self._order.append(weakref.ref(kept))
        return kept

    def _copies_of(self, storage: Any) -> dict[Any, weakref.ref[_Kept]]:
        key = id(storage)
        found = self._known.get(key)
        if found is None or found[0]() is not storage:
            gone = weakref.ref(storage, lambda _: self._known.pop(key, None))
            found = self._known[key] = gone, {}
        return found[1]

    def _in(self, kept: Any) -> Tensor:
        """Return a saved tensor on the GPU; begin to bring in those that will be asked for next."""
        if not isinstance(kept, _Kept):
            return kept  # type: ignore[no-any-return]
        self._bring(kept)
        self._drop_dead()
        following = (other for reference in reversed(self._order) if (other := reference()))
        for other in islice((each for each in following if each is not kept), _AHEAD):
            self._bring(other)
        back = kept.back
        assert back is not None
        if kept.arrived is not None:
            torch.cuda.current_stream(kept.device).wait_event(kept.arrived)
            kept.events[:] = [kept.arrived, None]
        return back

    def _drop_dead(self) -> None:
        """Forget what was saved last and is not needed any more."""
        while self._order and self._order[-1]() is None:
            self._order.pop()

    @staticmethod
    def _is_on_gpu(tensor: Tensor) -> bool:
        return tensor.is_cuda

    @staticmethod
    def _sizes(tensor: Tensor) -> _Kept:
        return _Kept(
            shape=tensor.shape,
            stride=tensor.stride(),
            dtype=tensor.dtype,
            device=tensor.device,
        )

    def _copied(self, tensor: Tensor) -> _Kept:
        kept, computing = self._sizes(tensor), torch.cuda.current_stream(tensor.device)
        if self._going is None:
            self._going, self._coming = (torch.cuda.Stream(tensor.device) for _ in range(2))  # type: ignore[no-untyped-call]
        rounded = 1 << (tensor.nbytes - 1).bit_length()  # torch pins no other sizes
        free = self._pool.setdefault(rounded, [])
        room, since = free.pop() if free else (host_memory(rounded), None)
        kept.host = (
            room[: tensor.nbytes].view(tensor.dtype).as_strided(tensor.shape, tensor.stride())
        )
        events = kept.events  # of the last copy, and of one that nobody has waited for
        weakref.finalize(kept, _set_free, free, room, events, kept.device).atexit = False
        self._going.wait_stream(computing)
        if since is not None:
            self._going.wait_event(since)
        with torch.cuda.stream(self._going):
            kept.host.copy_(tensor, non_blocking=True)
        kept.out = self._going.record_event()
        events[:] = [kept.out, None]
        self.moved_bytes += tensor.nbytes
        return kept

    def _bring(self, kept: _Kept) -> None:
        if kept.back is not None:
            return
        self._let_go(len(self._leaving))
        kept.back = torch.empty_strided(
            kept.shape, kept.stride, dtype=kept.dtype, device=kept.device
        )
        if kept.host is None:
            return
        # Its memory is the computing stream's, which may still use it for something else.
        self._coming.wait_stream(torch.cuda.current_stream(kept.device))
        self._coming.wait_event(kept.out)
        with torch.cuda.stream(self._coming):
            kept.back.copy_(kept.host, non_blocking=True)
        kept.arrived = self._coming.record_event()
        kept.events[:] = [kept.arrived, kept.arrived]

    def _hold(self, tensor: Tensor, out: Any) -> None:
        """Keep a tensor until the GPU waits for its copy, when four more have followed."""
        self._leaving.append((tensor.detach(), out))
        if len(self._leaving) > _BEHIND:
            self._let_go(1)

    def _let_go(self, count: int) -> None:
        """Free the oldest tensors that go out; the GPU waits for the last copy of them."""
        gone = [self._leaving.popleft() for _ in range(count)]
        if gone and gone[-1][1] is not None:
            tensor, out = gone[-1]
            torch.cuda.current_stream(tensor.device).wait_event(out)


def _set_free(
    free: list[tuple[Tensor, Any]], room: Tensor, events: list[Any], device: torch.device
) -> None:
    """Give host memory back to the pool, once the last copy from or to it is done."""
    last, unused = events
    if unused is not None:  # nobody computed with it, and its memory on the GPU is free now
        torch.cuda.current_stream(device).wait_event(unused)
    free.append((room, last))


def _is_worth_it(tensor: Tensor) -> bool:
    """Whether a tensor is large, and not one of the model, which stays on the GPU in any case."""
    owner = tensor if tensor._base is None else tensor._base  # of a view, such as weight.t()
    is_models = isinstance(owner, torch.nn.Parameter) or (owner.is_leaf and owner.requires_grad)
    is_large = tensor.layout == torch.strided and tensor.nbytes >= _LEAST
    return is_large and not is_models and _is_dense(tensor)


def _is_dense(tensor: Tensor) -> bool:
    """Whether a tensor's numbers lie without gaps, in any order of dimensions."""
    dims = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    expected = 1
    for stride, size in dims:
        if size != 1 and stride != expected:
            return False
        expected *= size if size != 1 else 1
    return True
