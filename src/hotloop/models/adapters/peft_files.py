"""Write adapters in PEFT's format: adapter_config.json and adapter_model.safetensors.

`peft.PeftModel.from_pretrained` loads them. The format is that of PEFT 0.21
(peft/tuners/lora/config.py, ia3/config.py, utils/save_and_load.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import ConfigError
from hotloop.models.adapters.attach import adapted, saved_modules
from hotloop.models.adapters.config import ALL_LINEAR

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor, nn

    from hotloop.models.adapters.config import AdapterConfig
    from hotloop.models.adapters.lora import Adapted

__all__ = ["CONFIG", "TENSORS", "AdapterState", "adapter_state"]

CONFIG: Final = "adapter_config.json"
TENSORS: Final = "adapter_model.safetensors"
_PREFIX: Final = "base_model.model."  # PEFT's own wrappers in the names


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterState:
    """The contents of the two files of a folder."""

    config: dict[str, Any]  # for CONFIG
    tensors: dict[str, Tensor]  # for TENSORS; views of the model, not copies


def adapter_state(
    model: nn.Module,
    *,
    base: str | None = None,
    task: str | None = None,
    of: Callable[[Adapted], Mapping[str, Tensor]] = methodcaller("trained"),
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
