"""Read and write adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.

They are written so that `peft.PeftModel.from_pretrained` loads them, and read as foreign input:
every key, name and shape is checked before the model changes. The format is that of PEFT 0.21
(peft/tuners/lora/config.py, ia3/config.py, utils/save_and_load.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from hotloop.core.errors import CheckpointError, ConfigError, did_you_mean
from hotloop.core.storage.files import read_json
from hotloop.models.adapters.attach import adapted, attach, linears, saved_modules, targeted
from hotloop.models.adapters.config import ALL_LINEAR, AdapterConfig, matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch import Tensor, nn

    from hotloop.models.adapters.lora import Adapted

__all__ = ["CONFIG", "TENSORS", "AdapterState", "adapter_state", "load_adapter", "read_config"]

CONFIG: Final = "adapter_config.json"
TENSORS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."  # PEFT's own wrappers in the names
_LARGEST = 1 << 20  # bytes of a configuration
_MOST = 4  # names in a message
_LORA = {"r", "lora_alpha", "lora_dropout", "use_dora", "use_rslora"}
_IA3 = {"feedforward_modules"}
_SHARED = {"peft_type", "target_modules", "modules_to_save", "bias"}
_ABOUT = {  # keys without influence on the computation
    "auto_mapping",
    "base_model_name_or_path",
    "inference_mode",
    "init_ia3_weights",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
}
_INITIAL = (True, False, "gaussian", "orthogonal")  # those that do not change frozen weights


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterState:
    """The contents of the two files of a folder."""

    config: dict[str, Any]  # for CONFIG
    tensors: dict[str, Tensor]  # for TENSORS; views of the model, not copies


def _all_trained(layer: Adapted) -> Mapping[str, Tensor]:
    return layer.trained()


def adapter_state(
    model: nn.Module,
    *,
    base: str | None = None,
    task: str | None = None,
    of: Callable[[Adapted], Mapping[str, Tensor]] = _all_trained,
) -> AdapterState:
    """Return the model's adapters and its `modules_to_save` in PEFT's format.

    `base` is the folder or hub id of the frozen model, `task` PEFT's task_type (None: any model),
    `of` returns the parameters of a layer by their names in the file. Raises ConfigError without
    adapters, or if PEFT would save more modules than the configuration means.
    """
    layers = adapted(model)
    if not layers:
        raise ConfigError("the model has no adapters to keep")
    config = next(iter(layers.values())).adapter
    saved = saved_modules(model, config.modules_to_save)
    _refuse_more(model, saved)
    tensors = {
        f"{_PREFIX}{name}.{key}": parameter.detach()
        for name, layer in layers.items()
        for key, parameter in of(layer).items()
    }
    for name, module in saved.items():
        tensors |= {f"{_PREFIX}{name}.{k}": v.detach() for k, v in module.state_dict().items()}
    about = {"base_model_name_or_path": base, "task_type": task, "inference_mode": True}
    return AdapterState(config={**_written(config, layers, saved), **about}, tensors=tensors)


def _written(
    config: AdapterConfig, layers: Mapping[str, Adapted], saved: Mapping[str, nn.Module]
) -> dict[str, Any]:
    """Return the keys of CONFIG that describe the adapters."""
    shared = {
        "peft_type": "IA3" if config.kind == "ia3" else "LORA",
        "modules_to_save": list(saved) or None,
        "fan_in_fan_out": False,
    }
    if config.kind == "ia3":  # whole names: PEFT expects feedforward modules among the targets
        inputs = [n for n, x in layers.items() if getattr(x, "is_feedforward", False)]
        return {**shared, "target_modules": list(layers), "feedforward_modules": inputs}
    targets: Any = list(layers) if config.targets == ALL_LINEAR else config.targets
    return {
        **shared,
        "target_modules": list(targets) if isinstance(targets, tuple) else targets,
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": config.dropout,
        "use_rslora": config.rslora,
        "use_dora": config.kind == "dora",
        "bias": "none",
        "init_lora_weights": True,
    }


def _refuse_more(model: nn.Module, saved: Mapping[str, nn.Module]) -> None:
    """Raise ConfigError if PEFT would match a name to other modules with the same ending."""
    for name in saved:
        more = [n for n, _ in model.named_modules() if n.endswith(name) and n not in saved]
        if more:
            raise ConfigError(
                f"PEFT's format cannot say {name!r} in modules_to_save without {more[0]!r}: it "
                "goes by how names end; name both, or neither"
            )


def read_config(folder: Path) -> dict[str, Any]:
    """Return the checked contents of a folder's CONFIG.

    Raises ConfigError for a key that is unknown or not supported here, and DataError for a file
    that is not JSON.
    """
    path = folder / CONFIG
    if path.is_file() and path.stat().st_size > _LARGEST:
        raise ConfigError(f"{path} has more than {_LARGEST:,} bytes: it is no adapter's")
    raw: dict[str, Any] = read_json(path)
    kind = raw.get("peft_type")
    if kind not in ("LORA", "IA3"):
        raise ConfigError(f"{path}: peft_type is LORA or IA3, not {kind!r}")
    used = _SHARED | (_LORA if kind == "LORA" else _IA3)
    for key, value in raw.items():
        empty = value is None or value is False or value in ({}, [], "")
        if empty or key in used or key in _ABOUT:
            continue  # an empty value requests nothing: newer PEFTs write more such keys
        if key == "init_lora_weights" and value in _INITIAL:
            continue
        raise ConfigError(
            f"{path}: {key}={value!r} is unknown here or asks for what hotloop's adapters do not do"
            f"{did_you_mean(key, used)}"
        )
    if raw.get("bias", "none") != "none":
        raise ConfigError(f"{path}: bias={raw['bias']!r}; only adapters without biases are known")
    return raw


def _config_for(model: nn.Module, folder: Path, shapes: Mapping[str, object]) -> AdapterConfig:
    """Return a folder's configuration with the model's own full names in it."""
    raw, path = read_config(folder), folder / CONFIG
    if isinstance(raw.get("target_modules"), str):  # a foreign regex is not run
        ends = [
            name.removeprefix(_PREFIX).removesuffix(end)
            for name in shapes
            for end in (".lora_A.weight", ".ia3_l")
            if name.endswith(end)
        ]
    else:  # PEFT allows names in the list that a model does not have
        ends = _strings(path, raw, "target_modules")
    layers = adapted(model) or linears(model)
    targets = tuple(n for n in layers if any(matches(n, end) for end in ends))
    if not targets:
        raise ConfigError(
            f"{path}: none of target_modules ({', '.join(ends[:_MOST])}) is a linear layer here"
        )
    module_names = [name for name, _ in model.named_modules() if name]
    saved = _strings(path, raw, "modules_to_save")
    modules: dict[str, Any] = {
        "targets": targets,
        "modules_to_save": tuple(n for n in module_names if n.endswith(tuple(saved))),
    }
    if raw["peft_type"] == "IA3":
        ends = _strings(path, raw, "feedforward_modules")
        return AdapterConfig(
            kind="ia3",
            feedforward=tuple(n for n in linears(model) if n.endswith(tuple(ends))),
            **modules,
        )
    return AdapterConfig(
        kind="dora" if _value(path, raw, "use_dora", default=False) else "lora",
        rank=_value(path, raw, "r", default=8),
        alpha=_value(path, raw, "lora_alpha", default=8.0),
        dropout=_value(path, raw, "lora_dropout", default=0.0),
        rslora=_value(path, raw, "use_rslora", default=False),
        **modules,
    )


def _value(path: Path, raw: Mapping[str, Any], key: str, *, default: Any) -> Any:
    """Return a value of the default's type; an integer may stand for a float."""
    value = raw.get(key, default)
    fits = type(value) is type(default) or (type(default) is float and type(value) is int)
    if not fits:
        raise ConfigError(f"{path}: {key} is a {type(default).__name__}, not {value!r}")
    return value


def _strings(path: Path, raw: Mapping[str, Any], key: str) -> list[str]:
    value = raw.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
        raise ConfigError(f"{path}: {key} is a list of names, not {value!r}")
    return value


def load_adapter(model: nn.Module, folder: Path) -> AdapterConfig:
    """Load a folder's adapters into a model, attached first if it has none; return the config.

    Nothing is changed unless everything fits. Raises ConfigError for a configuration that is not
    supported, CheckpointError for tensors that are missing, surplus, of another shape or not
    finite.
    """
    path = folder / TENSORS
    shapes = _shapes(path)
    config, present = _config_for(model, folder, shapes), adapted(model)
    if present:
        config = _same(next(iter(present.values())).adapter, config, folder)
    _refuse_misfits(path, shapes, _expected(model, config, present))
    tensors = _read(path)
    if not present:
        attach(model, config)
    targets: dict[str, Tensor] = {}
    for name, layer in adapted(model).items():
        targets |= {f"{_PREFIX}{name}.{key}": value for key, value in layer.trained().items()}
    for name, module in saved_modules(model, config.modules_to_save).items():
        targets |= {f"{_PREFIX}{name}.{key}": value for key, value in module.state_dict().items()}
    with torch.no_grad():
        for name, tensor in tensors.items():
            targets[name].copy_(tensor)
    return config


def _same(present: AdapterConfig, config: AdapterConfig, folder: Path) -> AdapterConfig:
    for key in ("kind", "rank", "scaling"):
        mine, theirs = getattr(present, key), getattr(config, key)
        if mine != theirs:
            raise ConfigError(f"the model's adapters have {key} {mine}, those of {folder} {theirs}")
    return present


def _expected(
    model: nn.Module, config: AdapterConfig, present: Mapping[str, Adapted]
) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all tensors by their names in the file."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, linear in (present or targeted(model, config)).items():
        height, width, prefix = linear.out_features, linear.in_features, f"{_PREFIX}{name}."
        if config.kind == "ia3":
            shapes[f"{prefix}ia3_l"] = (1, width) if config.is_feedforward(name) else (height, 1)
            continue
        shapes[f"{prefix}lora_A.weight"] = (config.rank, width)
        shapes[f"{prefix}lora_B.weight"] = (height, config.rank)
        if config.kind == "dora":
            shapes[f"{prefix}lora_magnitude_vector"] = (height,)
    for name, module in saved_modules(model, config.modules_to_save).items():
        state = module.state_dict()
        shapes |= {f"{_PREFIX}{name}.{key}": tuple(value.shape) for key, value in state.items()}
    return shapes


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a file's tensors by name, without reading them."""
    try:
        with safe_open(path, framework="pt") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error


def _read(path: Path) -> dict[str, Tensor]:
    """Return a file's tensors, all of them finite."""
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise CheckpointError(f"{path}: {name} has values that are not finite")
    return tensors


def _refuse_misfits(
    path: Path, shapes: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]
) -> None:
    lacks, more = sorted(expected.keys() - shapes.keys()), sorted(shapes.keys() - expected.keys())
    differ = [
        f"{name} is {list(shape)}, not {list(expected[name])}"
        for name, shape in shapes.items()
        if name in expected and shape != expected[name]
    ]
    faults = [f"lacks {', '.join(lacks[:_MOST])} ({len(lacks)} in all)"] if lacks else []
    faults += [f"has {', '.join(more[:_MOST])} ({len(more)} in all) too many"] if more else []
    faults += [f"{differ[0]} ({len(differ)} such in all)"] if differ else []
    if faults:
        raise CheckpointError(f"{path} does not fit this model: it {'; '.join(faults)}")
