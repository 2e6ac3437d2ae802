"""Finds the tensors of a checkpoint by name, in whichever files they are.

A single process writes `model.safetensors`. Each of several ranks writes
`model-r<rank>.safetensors`. A tensor that all ranks have is whole in one of the files. Of a tensor
sharded by rows, each file has the rows of its rank; concatenated in the order of the ranks, they
are the whole tensor. Any number of ranks can read either form.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open

from hotloop.core.errors import CheckpointError
from hotloop.models.row_sharded import is_sharded, local, place
from hotloop.models.weights.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from torch import Tensor, nn

__all__ = ["Parts", "learned_by", "mine", "name_of", "read_all"]

Layout = tuple[torch.Size, torch.dtype]


def name_of(kind: str, rank: int, world: int) -> str:
    """Return the file of a kind of tensors ("model", "optimizer", "rng") that a rank writes."""
    return f"{kind}.safetensors" if world == 1 else f"{kind}-r{rank}.safetensors"


def learned_by(model: nn.Module) -> dict[str, Tensor]:
    """Return what training changes: all of a model's state except frozen parameters.

    Frozen parameters can be read from their source; they may be a hundred times as large.
    """
    state: dict[str, Tensor] = model.state_dict()
    parameters = dict(model.named_parameters())
    if all(parameter.requires_grad for parameter in parameters.values()):
        return state
    changes = {name for name, parameter in parameters.items() if parameter.requires_grad}
    changes.update(name for name, _ in model.named_buffers())  # running means, say
    return {name: tensor for name, tensor in state.items() if name in changes}


def mine(tensors: Mapping[str, Tensor], rank: int, world: int) -> dict[str, Tensor]:
    """Return what a rank writes: its rows, and its share of the tensors that all ranks have."""
    if world == 1:
        return dict(tensors)
    whole = {name: tensor for name, tensor in tensors.items() if not is_sharded(tensor)}
    total = sum(tensor.nbytes for tensor in whole.values()) or 1
    share, before = {}, 0
    for name, tensor in tensors.items():
        if is_sharded(tensor):
            if (rows := local(tensor)).numel():
                share[name] = rows
        else:
            if before * world // total == rank:
                share[name] = tensor
            before += tensor.nbytes
    return share


class Parts:
    """The tensors of one kind in the folder of a checkpoint."""

    def __init__(self, folder: Path, kind: str) -> None:
        """Read only the headers. Raises CheckpointError if files are missing or damaged."""
        self.path = folder / f"{kind}.safetensors"
        self._stream: dict[str, list[Any]] = {}
        self.layout: dict[str, Layout] = {}
        for path in _files(folder, kind):
            try:
                stream: Any = safe_open(path, framework="pt")
                for name in stream.keys():  # noqa: SIM118 - it is no mapping
                    self._add(path, name, stream)
            except (SafetensorError, OSError) as error:
                raise CheckpointError(f"{path} cannot be read: {error}") from error

    def _add(self, path: Path, name: str, stream: Any) -> None:
        part = stream.get_slice(name)
        shape, dtype = torch.Size(part.get_shape()), DTYPES[part.get_dtype()]
        if name in self.layout:
            before, known = self.layout[name]
            if not shape or shape[1:] != before[1:] or dtype != known:
                raise CheckpointError(f"{path}: the rows of {name} do not go with those before")
            shape = torch.Size([before[0] + shape[0], *shape[1:]])
        self.layout[name] = shape, dtype
        self._stream.setdefault(name, []).append((part, stream))

    def read(self, name: str) -> Tensor:
        """Return a whole tensor."""
        parts = self._stream[name]
        if len(parts) == 1:
            whole: Tensor = parts[0][1].get_tensor(name)
            return whole
        return torch.cat([stream.get_tensor(name) for _, stream in parts])

    def rows(self, name: str, first: int, count: int) -> Tensor:
        """Return `count` rows of a tensor from row `first` on; read only these."""
        pieces, begin = [], 0
        for part, _ in self._stream[name]:
            here = part.get_shape()[0]
            low, high = max(first - begin, 0), min(first + count - begin, here)
            if low < high:
                pieces.append(part[low:high])
            begin += here
        if not pieces:
            shape, dtype = self.layout[name]
            return torch.empty((0, *shape[1:]), dtype=dtype)
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0]

    def read_for(self, tensor: Tensor, name: str) -> Tensor:
        """Return the named tensor, or only this rank's rows if `tensor` is sharded."""
        return self.rows(name, *place(tensor)) if is_sharded(tensor) else self.read(name)


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files in the order of their ranks. Raises CheckpointError if one is missing."""
    alone = folder / f"{kind}.safetensors"
    if alone.exists():
        return [alone]
    pattern = re.compile(rf"{kind}-r(\d+)\.safetensors")
    ranks = {int(m[1]): p for p in folder.glob(f"{kind}-r*") if (m := pattern.fullmatch(p.name))}
    if sorted(ranks) != list(range(len(ranks))) or not ranks:
        there = ", ".join(ranks[rank].name for rank in sorted(ranks)) or "nothing of it"
        raise CheckpointError(f"{alone} cannot be read: it is not there, and of its parts {there}")
    return [ranks[rank] for rank in sorted(ranks)]


def read_all(folder: Path, kind: str = "model") -> dict[str, Tensor]:
    """Return all tensors of a kind, whole. Raises CheckpointError."""
    parts = Parts(folder, kind)
    return {name: parts.read(name) for name in parts.layout}
