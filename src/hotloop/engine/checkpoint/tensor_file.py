"""Writes tensors as a safetensors file, and copies them from a GPU with one wait for many.

A copy to ordinary memory makes the host wait for each tensor. Here the copies of a window go to
pinned memory of a fixed size, one after another, and the host waits once for all of them: once for
each 64 MiB of a checkpoint. No other memory is needed, on the GPU or on the host.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from hotloop.machine.host_memory import host_memory
from hotloop.models.weights.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from torch import Tensor

__all__ = ["HostCopies", "in_order", "tensor_chunks"]

_NAMES: Final = {dtype: name for name, dtype in DTYPES.items()}
# A wait in 64 MiB costs nothing beside the 5 ms that they take at 12 GB/s (PCIe 3.0, 16 lanes), and
# torch's pinned memory, which it rounds up to a power of two and keeps, is as large as was asked.
WINDOW_BYTES: Final = 1 << 26


def in_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names in the order in which a safetensors file holds the tensors."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def tensor_chunks(
    tensors: Mapping[str, Tensor], copies: HostCopies | None = None
) -> Iterator[memoryview | bytes]:
    """Yield a safetensors file piece by piece; each piece is valid until the next.

    `copies` brings them from a GPU; several files can share it.
    """
    order = in_order(tensors)
    header, end = {}, 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    copies = copies or HostCopies(tensors[name] for name in order)
    for name in order:
        yield from copies.read(tensors[name])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Bytes of a tensor, and their place in a window."""

    bytes_: Tensor  # [n] uint8, on the GPU
    window: int
    at: int


class HostCopies:
    """The bytes of tensors on the host, in the order in which they are given.

    Another order is right too, but may copy a window several times. What is returned is valid until
    the next tensor is read.
    """

    def __init__(self, tensors: Iterable[Tensor], *, window_bytes: int = WINDOW_BYTES) -> None:
        """Plan the windows; nothing is copied yet."""
        self._pieces: dict[int, list[_Piece]] = {}  # by the id of the tensor
        self._kept: list[Tensor] = []  # so that no id is given twice
        self._windows: list[list[_Piece]] = []
        self._loaded: int | None = None
        self._room, self._at = window_bytes, window_bytes
        for tensor in tensors:
            if _is_staged(tensor) and id(tensor) not in self._pieces:
                self._kept.append(tensor)
                self._pieces[id(tensor)] = list(self._cut(tensor.detach()))
        used = max((piece.at + len(piece.bytes_) for w in self._windows for piece in w), default=0)
        self._memory = host_memory(used)

    def read(self, tensor: Tensor) -> Iterator[memoryview]:
        """Yield the bytes of a tensor in C order; each piece is valid until the next."""
        if not _is_staged(tensor):
            yield _bytes_of(tensor.detach().cpu().contiguous()).numpy().data
            return
        for piece in self._pieces[id(tensor)]:
            if piece.window != self._loaded:
                self._load(piece.window)
            yield self._memory[piece.at : piece.at + len(piece.bytes_)].numpy().data

    def _cut(self, tensor: Tensor) -> Iterator[_Piece]:
        flat, begin = _bytes_of(tensor), 0
        while begin < len(flat):
            if self._at == self._room:
                self._windows.append([])
                self._at = 0
            count = min(len(flat) - begin, self._room - self._at)
            piece = _Piece(
                bytes_=flat[begin : begin + count], window=len(self._windows) - 1, at=self._at
            )
            self._windows[-1].append(piece)
            self._at, begin = self._at + count, begin + count
            yield piece

    def _load(self, window: int) -> None:
        for piece in self._windows[window]:
            room = self._memory[piece.at : piece.at + len(piece.bytes_)]
            room.copy_(piece.bytes_, non_blocking=True)
        for device in {piece.bytes_.device for piece in self._windows[window]}:
            torch.cuda.current_stream(device).synchronize()
        self._loaded = window


def _is_staged(tensor: Tensor) -> bool:
    """Return whether a window serves the tensor: others lie on the host, or need a copy first."""
    return tensor.is_cuda and tensor.is_contiguous()


def _bytes_of(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)
