"""`init_from`: load the weights of another run, checkpoint or file, and name differences."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from hotloop.core.errors import ConfigError
from hotloop.core.storage.files import read_json
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import newest_sound
from hotloop.engine.checkpoint.tensors import read_all
from hotloop.models.row_sharded import is_sharded, place, put

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor, nn

__all__ = ["load_weights", "read_weights", "vocabulary_beside"]

_NESTED = ("model", "state_dict", "model_state_dict")  # keys that wrap them in .pt files


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors file, a .pt/.pth/.bin/.ckpt file, a checkpoint or run.

    A .pt file is read with weights_only, so no code in it runs. Raises ConfigError if `path` does
    not exist, cannot be read, or holds more than named tensors.
    """
    if path.is_dir():
        return _within(path)
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ConfigError(
            f"init_from={path} does not exist (hotloop explain cache-not-found)"
        ) from error
    except pickle.UnpicklingError as error:  # torch's message advises running the code in the file
        raise ConfigError(
            f"init_from={path} is damaged or holds more than named tensors; hotloop reads weights "
            "only and runs no code from a file: save the state_dict alone, best as .safetensors"
        ) from error
    except (SafetensorError, RuntimeError, OSError, EOFError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ConfigError(f"init_from={path} cannot be read: {first}") from error
    for key in _NESTED:
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
            break
    if not isinstance(loaded, dict):
        raise ConfigError(f"init_from={path} holds a {type(loaded).__name__}, not named tensors")
    return {str(name): value for name, value in loaded.items() if isinstance(value, torch.Tensor)}


def _within(folder: Path) -> dict[str, Tensor]:
    if (folder / "model.safetensors").is_file():
        return read_weights(folder / "model.safetensors")
    if (folder / "model-r0.safetensors").is_file():
        return read_all(folder)
    if (RunDir(folder).checkpoints).is_dir():
        newest, _ = newest_sound(RunDir(folder).checkpoints)
        if newest is not None:
            return read_all(newest.path)
    raise ConfigError(f"init_from={folder} is neither a run nor a checkpoint nor a model folder")


def vocabulary_beside(source: Path) -> dict[str, object] | None:
    """Return the vocabulary of the run that holds a run folder, checkpoint or file, if any."""
    for folder in (source, *source.parents[:3]):
        if (path := RunDir(folder).vocabulary).is_file():
            return read_json(path)
    return None


def _shapes(tensors: dict[str, Tensor]) -> str:
    first = [f"{name} {list(tensors[name].shape)}" for name in sorted(tensors)[:4]]
    return ", ".join(first) + (" ..." if len(tensors) > 4 else "")


def load_weights(model: nn.Module, *paths: Path) -> list[str]:
    """Load every tensor whose name and shape fit; return one line for each difference.

    Each of several files has a part of the tensors. The prefixes that torch.compile and
    DataParallel add are removed. Frozen weights are those of the pretrained model, so no file needs
    them. Raises ConfigError if nothing fits, with the first tensors of both sides.
    """
    tensors = {
        name.removeprefix("module.").replace("_orig_mod.", ""): tensor
        for path in paths
        for name, tensor in read_weights(path).items()
    }
    own, path = model.state_dict(), ", ".join(map(str, paths))
    every = model.named_parameters(remove_duplicate=False)  # tied ones have two names
    frozen = {name for name, parameter in every if not parameter.requires_grad}
    fitting = {n: t for n, t in tensors.items() if n in own and own[n].shape == t.shape}
    if not fitting:
        raise ConfigError(
            f"init_from={path}: none of its {len(tensors)} tensors fits this model. It has "
            f"{_shapes(tensors)}; the model has {_shapes(own)}"
        )
    if any(map(is_sharded, own.values())):
        for name, tensor in fitting.items():
            first, count = place(own[name]) if is_sharded(own[name]) else (0, None)
            put(own[name], tensor if count is None else tensor[first : first + count])
    else:
        model.load_state_dict(fitting, strict=False)
    shapes = [
        f"{n}: file has {list(tensors[n].shape)}, model has {list(own[n].shape)}; "
        "left as initialised"
        for n in sorted(tensors.keys() & own.keys())
        if n not in fitting
    ]
    missing = [
        f"{n}: not in the file; left as initialised" for n in sorted(own.keys() - tensors - frozen)
    ]
    foreign = [f"{n}: only in the file; not used" for n in sorted(tensors.keys() - own.keys())]
    return shapes + missing + foreign
