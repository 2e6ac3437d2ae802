"""Reads a model's weights from their files straight into the model: there is no second copy.

Only what the model has is read. Peak memory is the model and, where the files hold another dtype,
the one tensor that is being converted. A file is read, not mapped: what happens to it later, a
download over it for one, changes no weight.
"""

from __future__ import annotations

import pickle
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.core.errors import DataError
from hotloop.models.weights.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from hotloop.models.weights.discovery import FoundModel
    from hotloop.models.weights.safetensors_header import StoredTensor

__all__ = ["fill"]

_LEGACY: Final = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
_SHOWN: Final = 4  # names in a message


def fill(model: nn.Module, found: FoundModel) -> None:
    """Set every parameter and saved buffer of a transformers model.

    The prefix of the base model may be there or not: a base model is filled from a whole one and a
    whole one, where its head is tied, from a base model. Raises DataError, with names, where the
    files lack a tensor, hold one of another shape, or hold more layers than the model has.
    """
    assert found.files, "it was found without its weights"
    held: Mapping[str, Any] = found.tensors or _unpickled(found.files[0])
    prefix = f"{model.base_model_prefix}."
    wanted: dict[str, Tensor] = {}  # name in the files -> tensor of the model
    missing = []
    for names, tensor in _distinct(model):
        there = next((n for name in names for n in _names(name, prefix) if n in held), None)
        if there is None:
            missing.append(names[0])
        else:
            wanted[there] = tensor
    if missing:
        raise DataError(f"{found.name} lacks {_some(missing)}: its files are not of its config")
    for name, tensor in wanted.items():
        if (shape := tuple(held[name].shape)) != tuple(tensor.shape):
            raise DataError(
                f"{found.name}: {name} has the shape {list(shape)}, its config makes it "
                f"{list(tensor.shape)}: take config and weights of one model"
            )
    kinds = set(map(_kind, wanted))
    if more := [name for name in held if name not in wanted and _kind(name) in kinds]:
        raise DataError(
            f"{found.name} holds {_some(more)}, which its config has no layer for: take config and "
            "weights of one model"
        )
    with torch.no_grad():
        if found.tensors:
            _read((found.tensors[name], tensor) for name, tensor in wanted.items())
        else:
            for name, tensor in wanted.items():
                tensor.copy_(held[name])


def _distinct(model: nn.Module) -> Iterator[tuple[list[str], Tensor]]:
    """Yield each tensor of the model's state once, with all its names: a tied one has several."""
    names: dict[tuple[int, int], list[str]] = {}
    tensors: dict[tuple[int, int], Tensor] = {}
    for name, tensor in model.state_dict().items():
        # An empty tensor has no address, and several of them are not one.
        key = (tensor.data_ptr(), 0) if tensor.numel() else (0, len(tensors))
        names.setdefault(key, []).append(name)
        tensors[key] = tensor
    for key, tensor in tensors.items():
        yield names[key], tensor


def _names(name: str, prefix: str) -> Iterator[str]:
    """Yield the names under which a tensor may be saved."""
    for each in (name, prefix + name, name.removeprefix(prefix)):
        yield each
        for new, old in _LEGACY:  # of checkpoints of 2018
            if each.endswith(new):
                yield each.removesuffix(new) + old


def _kind(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more tensors" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _read(pairs: Iterable[tuple[StoredTensor, Tensor]]) -> None:
    in_order = sorted(pairs, key=lambda pair: (pair[0].path, pair[0].start))
    for path, of_file in groupby(in_order, key=lambda pair: pair[0].path):
        try:
            with path.open("rb", buffering=0) as stream:
                for at, tensor in of_file:
                    _read_one(stream, at, tensor)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _read_one(stream: Any, at: StoredTensor, tensor: Tensor) -> None:
    dtype = DTYPES[at.dtype]
    direct = tensor.dtype == dtype and tensor.is_contiguous() and tensor.device.type == "cpu"
    into = tensor if direct else torch.empty(at.shape, dtype=dtype)
    left = memoryview(into.detach().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    stream.seek(at.start)
    while left:
        count = stream.readinto(left)
        if not count:
            raise DataError(f"{at.path} became shorter while it was read: fetch it again")
        left = left[count:]
    if not direct:
        tensor.copy_(into)


def _unpickled(path: Path) -> dict[str, Tensor]:
    try:
        held = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:  # torch's text advises to run the file's code
        raise DataError(
            f"{path} is damaged or holds more than named tensors; hotloop runs no code of a file: "
            "take the model as safetensors"
        ) from error
    except (RuntimeError, OSError, EOFError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"cannot read {path}: {first}") from error
    if not isinstance(held, dict) or not all(map(torch.is_tensor, held.values())):
        raise DataError(f"{path} holds more than named tensors: take the model as safetensors")
    return held
