"""The memory of tensors: an identity that outlives them, and a hash of what it holds."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Any

import xxhash

from hotloop.process.internal_frames import hide

__all__ = ["TensorStorage", "address_of", "bytes_of", "content_of", "parts_of", "reference_of"]

_HASHED = 64 << 20  # bytes; of a larger storage, every n-th byte is hashed


@dataclass(slots=True)
class TensorStorage:
    """What is known about the memory of a tensor."""

    reference: Any  # keeps the address from being used again
    value: int
    writers: list[int] = field(default_factory=list)  # operations whose results lie in it
    is_new: bool = True  # made in the window
    step: int = 0


def address_of(tensor: Any) -> int | None:
    """Return the address of a tensor's storage; None if it has none that can be followed."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a sparse tensor, or a subclass without memory
        return None


def parts_of(tensor: Any) -> tuple[Any, ...]:
    """Return the dense tensors of which a sparse one consists, and its shape; nothing of others."""
    torch = sys.modules["torch"]
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values(), tuple(tensor.shape)
    if tensor.layout is torch.sparse_csr:
        rows, columns = tensor.crow_indices(), tensor.col_indices()
        return rows, columns, tensor.values(), tuple(tensor.shape)
    return ()


def reference_of(tensor: Any) -> Any:
    """Return a weak reference, which also keeps the address from being used again."""
    reductions: Any = importlib.import_module("torch.multiprocessing.reductions")
    return reductions.StorageWeakRef(tensor.untyped_storage())


def bytes_of(tensor: Any) -> int:
    """Return the bytes of a tensor's storage."""
    return int(tensor.untyped_storage().nbytes())


def content_of(tensor: Any) -> int | None:
    """Return a hash of the bytes of a tensor's storage; None if the CPU cannot read it."""
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return 0
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    step = max(1, storage.nbytes() // _HASHED)
    numpy: Any = torch._C.TensorBase.numpy  # torch.Tensor's own is a read by the script
    return int(xxhash.xxh3_64_intdigest(memoryview(numpy(whole[::step].contiguous()))))


hide(globals())
