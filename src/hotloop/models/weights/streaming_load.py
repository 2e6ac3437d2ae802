"""Read a model's weights from their files straight into the model, without a second copy.

Only the tensors of the model are read. Peak memory is the model and, if the files have another
dtype, the one tensor that is being converted. A file is read, not mapped, so later changes to it,
such as a new download, change no weight.
"""

from __future__ import annotations

import pickle
import re
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import torch

from hotloop.core.errors import DataError
from hotloop.models.adapters.product import LOW
from hotloop.models.weights.dtypes import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from hotloop.models.weights.discovery import FoundModel
    from hotloop.models.weights.safetensors_header import StoredTensor

__all__ = ["fill", "low_dtype"]

_LEGACY: Final = (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
_SHOWN: Final = 4  # names in a message


def fill(model: nn.Module, source: FoundModel) -> None:
    """Set every parameter and saved buffer of a transformers model.

    The prefix of the base model is optional: a base model is filled from a whole one and a whole
    one, if its head is tied, from a base model. Raises DataError, with names, if the files lack a
    tensor, hold one of another shape, or hold more layers than the model has.
    """
    assert source.files, "it was found without its weights"
    stored: Mapping[str, Any] = source.tensors or _unpickled(source.files[0])
    prefix = f"{model.base_model_prefix}."
    targets: dict[str, Tensor] = {}  # name in the files -> tensor of the model
    missing = []
    for names, tensor in _distinct(model):
        file_name = next((n for name in names for n in _names(name, prefix) if n in stored), None)
        if file_name is None:
            missing.append(names[0])
        else:
            targets[file_name] = tensor
    if missing:
        raise DataError(f"{source.name} lacks {_some(missing)}: its files are not of its config")
    for name, tensor in targets.items():
        if (shape := tuple(stored[name].shape)) != tuple(tensor.shape):
            raise DataError(
                f"{source.name}: {name} has the shape {list(shape)}, its config makes it "
                f"{list(tensor.shape)}: take config and weights of one model"
            )
    kinds = set(map(_kind, targets))
    if more := [name for name in stored if name not in targets and _kind(name) in kinds]:
        raise DataError(
            f"{source.name} holds {_some(more)}, which its config has no layer for: take config "
            "and weights of one model"
        )
    with torch.no_grad():
        if source.tensors:
            _read((source.tensors[name], tensor) for name, tensor in targets.items())
        else:
            for name, tensor in targets.items():
                tensor.copy_(stored[name])


def low_dtype(source: FoundModel) -> torch.dtype | None:
    """Return the dtype of all numbers in a model's files if it has 16 bits, else None."""
    dtypes = {DTYPES[tensor.dtype] for tensor in source.tensors.values()}
    floating = {dtype for dtype in dtypes if dtype.is_floating_point}
    return floating.pop() if len(floating) == 1 and floating <= LOW else None


def _distinct(model: nn.Module) -> Iterator[tuple[list[str], Tensor]]:
    """Yield each tensor of the model's state once, with all names; a tied tensor has several."""
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
    for candidate in (name, prefix + name, name.removeprefix(prefix)):
        yield candidate
        for new, old in _LEGACY:  # in checkpoints of 2018
            if candidate.endswith(new):
                yield candidate.removesuffix(new) + old


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
                for stored, tensor in of_file:
                    _read_one(stream, stored, tensor)
        except OSError as error:
            raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _read_one(stream: Any, stored: StoredTensor, tensor: Tensor) -> None:
    dtype = DTYPES[stored.dtype]
    direct = tensor.dtype == dtype and tensor.is_contiguous() and tensor.device.type == "cpu"
    into = tensor if direct else torch.empty(stored.shape, dtype=dtype)
    remaining = memoryview(into.detach().reshape(-1).view(torch.uint8).numpy())  # type: ignore[arg-type]
    stream.seek(stored.start)
    while remaining:
        count = stream.readinto(remaining)
        if not count:
            raise DataError(f"{stored.path} became shorter while it was read: fetch it again")
        remaining = remaining[count:]
    if not direct:
        tensor.copy_(into)


def _unpickled(path: Path) -> dict[str, Tensor]:
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:  # torch's message advises to run the file's code
        raise DataError(
            f"{path} is damaged or holds more than named tensors; hotloop runs no code of a file: "
            "take the model as safetensors"
        ) from error
    except (RuntimeError, OSError, EOFError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(f"cannot read {path}: {first}") from error
    if not isinstance(tensors, dict) or not all(map(torch.is_tensor, tensors.values())):
        raise DataError(f"{path} holds more than named tensors: take the model as safetensors")
    return tensors
