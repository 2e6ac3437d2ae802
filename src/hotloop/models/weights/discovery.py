"""Find a pretrained model in a folder or by its hub id, and describe it, without torch.

A model folder is foreign input: only config.json and safetensors files are used (or one
pytorch_model.bin, read without its pickle code), files must be in the folder, and a model that
needs its own code is refused.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError, DeviceError
from hotloop.core.storage.manifest import hash_file, is_plain, read_json
from hotloop.models.weights.safetensors_header import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hotloop.models.weights.safetensors_header import StoredTensor

__all__ = ["FoundModel", "find_model"]

_CONFIG, _ONE, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_PICKLE = "pytorch_model.bin"
_EXPLAIN = "(hotloop explain cache-not-found)"
_LARGEST_CONFIG = 1 << 24  # bytes
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_SIZES: Final = {  # size -> its names in config.json, and the largest plausible value
    "hidden_size": (("hidden_size", "n_embd", "d_model", "dim"), 1 << 20),
    "layers": (("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 1 << 12),
    "vocabulary": (("vocab_size",), 1 << 26),
}
_POSITIONS = ("max_position_embeddings", "n_positions")
_LARGEST_POSITIONS = 1 << 24  # Llama 4 Scout has 10,485,760
_CODE: Final = ("auto_map", "custom_pipelines", "trust_remote_code")
_KERNELS: Final = ("attn_implementation", "experts_implementation")
# Architectures of transformers 5.23 that attend both ways.
_ENCODERS: Final = frozenset({
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "esm",
    "eurobert", "modernbert", "mpnet", "nomic_bert", "roberta", "roberta-prelayernorm",
    "xlm-roberta", "xlm-roberta-xl", "xmod",
})  # fmt: skip
# Models whose positions begin after the id of padding.
_AFTER_PADDING: Final = frozenset({
    "camembert", "esm", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta",
    "xlm-roberta-xl", "xmod",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundModel:
    """A model on this machine, as described by its config.json and the headers of its weights."""

    name: str  # as the user gave it
    folder: Path
    config: Mapping[str, Any]  # of config.json
    architecture: str  # the class that was saved: Qwen3ForCausalLM, BertModel
    model_type: str  # transformers' name: qwen3, bert
    hidden_size: int
    layers: int
    vocabulary: int  # ids are below it
    positions: int | None  # tokens of the longest sequence; None: no limit is known
    is_decoder: bool  # attends only to the left
    files: tuple[Path, ...]  # of weights; empty if only the config was requested
    tensors: Mapping[str, StoredTensor] = field(default_factory=dict)  # of safetensors files
    notes: tuple[str, ...] = ()  # for the user

    @property
    def fingerprint(self) -> str:
        """Return a digest of the config and all weights; the first call reads the files."""
        config = self.folder / _CONFIG
        return digest(*map(_digest_of, (config, *self.files)))


def _digest_of(path: Path) -> str:
    about = path.stat()
    return _hashed(path, about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=1024)
def _hashed(path: Path, size: int, changed: int) -> str:
    del size, changed  # part of the key
    return hash_file(path)


def find_model(name: str, *, weights: bool = True) -> FoundModel:
    """Return the model of a folder or of a hub id; HF_HUB_OFFLINE and HF_HOME are respected.

    Without `weights` only config.json is needed, which suffices for a forecast. Raises ConfigError
    if there is no such model or it cannot be trusted or trained, DataError if its files are
    damaged, DeviceError if a package is missing.
    """
    place = Path(name).expanduser()
    get: Callable[[str], Path | None]
    if name and place.is_dir():
        folder = place.resolve()
        if code := next(iter(sorted(folder.glob("*.py"))), None):
            raise ConfigError(
                f"{name} holds Python code ({code.name}), and hotloop runs no code of a model "
                "folder: if the model does not need it, move it away"
            )
        get = functools.partial(_local, name, folder)
    elif place.is_file() or name.startswith((".", "/", "~")) or not _ID.fullmatch(name):
        problem = "is a file" if place.is_file() else f"does not exist (looked from {Path.cwd()})"
        raise ConfigError(f"{name!r} {problem}: name a model folder or a hub id {_EXPLAIN}")
    else:
        get = _Hub(name).get
    path = get(_CONFIG)
    if path is None:
        raise ConfigError(_no_config(name, place))
    config = _config(name, path)
    files, notes = _weights(name, get) if weights else ((), ())
    return _model(name, path, config, files, notes)


def _no_config(name: str, place: Path) -> str:
    if (place / "adapter_config.json").is_file():
        return f"{name} is an adapter: name the folder or id of the model that it was made for"
    return f"{name} has no {_CONFIG}: name the folder that a model was saved into"


def _local(name: str, folder: Path, file: str) -> Path | None:
    """Return a file of the folder; a link may lead only to the blobs of its own hub cache."""
    path = folder / file
    if not path.exists():
        return None
    inside = [folder]
    if folder.parent.name == "snapshots" and folder.parent.parent.name.startswith("models--"):
        inside.append(folder.parent.parent / "blobs")
    target = path.resolve()
    if not target.is_file() or not any(target.is_relative_to(place) for place in inside):
        raise ConfigError(
            f"{name}: {file} is no file of that folder but leads to {target}: put the file itself "
            "there"
        )
    return path


class _Hub:
    """The files of one revision of a hub id, from this machine's cache if they are there."""

    def __init__(self, name: str) -> None:
        if importlib.util.find_spec("huggingface_hub") is None:
            raise DeviceError("the package huggingface_hub is missing: pip install 'hotloop[hf]'")
        self._name = name
        self._revision: str | None = None  # of the first file, used for all others

    def get(self, file: str) -> Path | None:
        """Return the path of a file; None if the revision does not have it."""
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import (
            EntryNotFoundError,
            HfHubHTTPError,
            LocalEntryNotFoundError,
        )

        try:
            path = Path(hf_hub_download(self._name, file, revision=self._revision))
        except LocalEntryNotFoundError as error:
            if self._revision is not None:
                return None
            raise ConfigError(
                f"{self._name} is neither a folder here nor in this machine's hub cache, and the "
                "hub cannot be reached: name a folder, or fetch it where there is a network with "
                f"`hf download {self._name}` {_EXPLAIN}"
            ) from error
        except EntryNotFoundError:
            return None
        except (HfHubHTTPError, OSError, ValueError) as error:
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ConfigError(f"{self._name} cannot be had from the hub: {first}") from error
        self._revision = path.parent.name
        return _local(self._name, path.parent.resolve(), file)


def _weights(
    name: str, get: Callable[[str], Path | None]
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the files of the weights, and notes about them."""
    if (single := get(_ONE)) is not None:
        return (single,), ()
    if (index := get(_INDEX)) is not None:
        of = read_json(index).get("weight_map")
        names: list[Any] = list(of.values()) if isinstance(of, dict) else []
        wrong = [file for file in names if not (is_plain(file) and file.endswith(".safetensors"))]
        if wrong or not names:
            raise DataError(f"{index} must name .safetensors files beside it, not {wrong[:3]}")
        shards = {file: get(file) for file in sorted(set(names))}
        if gone := [file for file, path in shards.items() if path is None]:
            raise DataError(
                f"{name} lacks {', '.join(gone)}, which {_INDEX} names: fetch the whole model "
                f"{_EXPLAIN}"
            )
        return tuple(path for path in shards.values() if path is not None), ()
    if (pickle := get(_PICKLE)) is not None:
        note = (
            f"{name} has its weights in {_PICKLE}, a pickle: only tensors are taken from it, no "
            "code of it runs, and it is read whole; saved as safetensors it loads faster"
        )
        return (pickle,), (note,)
    raise ConfigError(
        f"{name} has no weights: expected {_ONE}, {_INDEX} with its files, or {_PICKLE} {_EXPLAIN}"
    )


def _model(
    name: str,
    path: Path,
    config: dict[str, Any],
    files: tuple[Path, ...],
    notes: tuple[str, ...],
) -> FoundModel:
    sizes = {size: _size(path, config, *known) for size, known in _SIZES.items()}
    tensors = _tensors(files)
    if tensors:
        _compare(name, config, sizes, tensors)
    model_type, classes = str(config["model_type"]), config.get("architectures")
    saved = classes[0] if isinstance(classes, list) and classes else None
    return FoundModel(
        name=name,
        folder=path.parent,
        config=config,
        architecture=saved if isinstance(saved, str) else model_type,
        model_type=model_type,
        positions=_positions(path, config),
        is_decoder=_is_decoder(config),
        files=files,
        tensors=tensors,
        notes=notes,
        **sizes,
    )


def _config(name: str, path: Path) -> dict[str, Any]:
    """Return config.json; ConfigError if it needs code or its model cannot be trained."""
    if path.stat().st_size > _LARGEST_CONFIG:
        raise DataError(f"{path} has more than {_LARGEST_CONFIG} bytes: that is no {_CONFIG}")
    config: dict[str, Any] = read_json(path)
    if asks := [key for key in _CODE if config.get(key)]:
        raise ConfigError(
            f"{name} needs code of its own ({', '.join(asks)} in {_CONFIG}), and hotloop runs no "
            "code of a model: take a model whose architecture is in transformers"
        )
    if odd := [key for key in config if not key.isidentifier() or key.startswith("__")]:
        raise ConfigError(f"{name}: {odd[0]!r} is no key for a {_CONFIG}: remove it")
    for key in _KERNELS:
        for kernel in (config.get(key), config.get(f"_{key}")):
            if isinstance(kernel, str) and "/" in kernel:
                raise ConfigError(
                    f"{name} asks for the kernel {kernel}, which is code: remove {key}"
                )
    if config.get("quantization_config"):
        raise ConfigError(
            f"{name} is quantised already, and cannot be trained from that: take the model that it "
            "was made of"
        )
    if config.get("is_encoder_decoder") is True:
        raise ConfigError(f"{name} is an encoder-decoder: take a decoder or an encoder")
    if any(isinstance(config.get(key), dict) for key in ("text_config", "vision_config")):
        raise ConfigError(f"{name} is not for text alone: take a text model of the same family")
    if not isinstance(config.get("model_type"), str):
        raise ConfigError(f"{name}: {_CONFIG} must say its model_type: save the model again")
    return config


def _size(path: Path, config: Mapping[str, Any], names: tuple[str, ...], largest: int) -> int:
    values = [(key, config[key]) for key in names if config.get(key) is not None]
    if not values:
        raise DataError(f"{path} does not say {names[0]}: save the model again")
    key, value = values[0]
    if type(value) is not int or not 0 < value <= largest:
        raise DataError(f"{path}: {key} must be a whole number of 1 to {largest}, not {value!r}")
    return value


def _positions(path: Path, config: Mapping[str, Any]) -> int | None:
    if all(config.get(key) is None for key in _POSITIONS):
        return None
    number = _size(path, config, _POSITIONS, _LARGEST_POSITIONS)
    if config["model_type"] in _AFTER_PADDING:
        pad = config.get("pad_token_id", 1)
        number -= 1 + (pad if type(pad) is int else 0)
    return number


def _is_decoder(config: Mapping[str, Any]) -> bool:
    both = config.get("use_bidirectional_attention") is True or config.get("is_causal") is False
    if both or config.get("is_decoder") is True:
        return not both
    return config["model_type"] not in _ENCODERS


def _tensors(files: tuple[Path, ...]) -> dict[str, StoredTensor]:
    every: dict[str, StoredTensor] = {}
    for path in files:
        if path.name == _PICKLE:
            continue
        for name, tensor in stored(path).items():
            if name in every:
                raise DataError(f"{name} stands in {every[name].path} and in {path}: keep one")
            every[name] = tensor
    return every


def _compare(
    name: str,
    config: Mapping[str, Any],
    sizes: Mapping[str, int],
    tensors: Mapping[str, StoredTensor],
) -> None:
    """Raise DataError if config and weights are not of one model, before anything is allocated."""
    embedding = sizes["vocabulary"], config.get("embedding_size", sizes["hidden_size"])
    if not any(tensor.shape == embedding for tensor in tensors.values()):
        raise DataError(
            f"{name}: {_CONFIG} says {embedding[0]} ids x {embedding[1]} numbers, and no tensor of "
            "the weights has that shape: take config and weights of one model"
        )
    if len(tensors) < sizes["layers"]:
        raise DataError(
            f"{name}: {_CONFIG} says {sizes['layers']} layers, and the weights hold "
            f"{len(tensors)} tensors in all: take config and weights of one model"
        )
