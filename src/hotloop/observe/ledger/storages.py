"""The memory of tensors: an identity that outlives them, and a hash of what it holds."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from typing import Any

import xxhash

from hotloop.process.internal_frames import hide

__all__ = [
    "TensorStorage",
    "address_of",
    "are_probabilities",
    "bytes_of",
    "content_of",
    "parts_of",
    "reference_of",
    "value_of",
]

_HASHED = 64 << 20  # bytes; of a larger storage, every n-th byte is hashed
_WORDS = 1 << 20  # the same on a GPU, which needs three times 8 bytes a word meanwhile
_ROUNDING = 1e-3  # of the sum of probabilities
_ODD = 0x9E3779B97F4A7C15 - (1 << 64)  # 2**64 divided by the golden ratio, as a signed number


@dataclass(slots=True)
class TensorStorage:
    """What is known about the memory of a tensor."""

    reference: Any  # keeps the address from being used again
    value: int
    writers: list[int] = field(default_factory=list)  # operations whose results lie in it
    is_new: bool = True  # made in the window
    step: int = 0
    zeros: dict[Any, Any] = field(default_factory=dict)  # of each view of it that was looked at


def address_of(tensor: Any) -> int | None:
    """Return the address of a tensor's storage; None if it has none that can be followed."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a sparse tensor, or a subclass without memory
        return None


def value_of(tensor: Any) -> Any:
    """Return the value of a tensor of one number; torch.Tensor.item would count as the script's."""
    return sys.modules["torch"]._C.TensorBase.item(tensor)


def are_probabilities(value: Any, dimension: int) -> bool:
    """Whether the numbers of a tensor are not negative and sum to 1 along a dimension."""
    rows = value.detach().float()
    is_one = ((rows.sum(dimension) - 1).abs() < _ROUNDING).all() & (rows >= 0).all()
    return bool(value_of(is_one))


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
    """Return a hash of the bytes of a tensor's storage; None if nobody can read it."""
    torch = sys.modules["torch"]
    if tensor.device.type not in ("cpu", "cuda") or tensor.layout is not torch.strided:
        return None
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return 0
    if tensor.device.type == "cuda":
        return _content_on_gpu(torch, storage, tensor.device)
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    step = max(1, storage.nbytes() // _HASHED)
    numpy: Any = torch._C.TensorBase.numpy  # torch.Tensor's own is a read by the script
    return int(xxhash.xxh3_64_intdigest(memoryview(numpy(whole[::step].contiguous()))))


def _content_on_gpu(torch: Any, storage: Any, device: Any) -> int:
    """Return a hash that the GPU computes: a sum of words with odd weights, modulo 2**64."""
    word, kind = (8, torch.int64) if storage.nbytes() % 8 == 0 else (1, torch.uint8)
    whole = torch.empty(0, dtype=kind, device=device).set_(storage)
    part = whole[:: max(1, len(whole) // _WORDS)].to(torch.int64)
    weights = torch.arange(1, 2 * len(part), 2, dtype=torch.int64, device=device)
    mixed = (part ^ (part >> 31)) * (weights * _ODD)
    return hash((word, int(value_of(mixed.sum()))))


hide(globals())
