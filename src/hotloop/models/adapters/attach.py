"""Put adapters on a model's linear layers, in place, and merge them into its weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from torch import nn

from hotloop.core.errors import ConfigError, did_you_mean
from hotloop.models.adapters.config import ALL_LINEAR, matches
from hotloop.models.adapters.dora import DoraLinear
from hotloop.models.adapters.in_16_bits import LowLinear
from hotloop.models.adapters.lora import Adapted, Ia3Linear, LoraLinear
from hotloop.models.adapters.nf4_linear import dtype_of, is_quantised, unpacked
from hotloop.models.adapters.shared_input import share_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from hotloop.models.adapters.config import AdapterConfig

__all__ = [
    "adapted",
    "attach",
    "become",
    "heads",
    "linears",
    "merged_state",
    "saved_modules",
    "targeted",
]

_LAYERS: dict[str, type[Adapted]] = {"lora": LoraLinear, "dora": DoraLinear, "ia3": Ia3Linear}
_HEADS = ("lm_head", "score", "classifier")  # names in transformers
_MOST = 12  # names listed in a message


def attach(model: nn.Module, config: AdapterConfig) -> list[str]:
    """Put adapters on the targets, freeze all but `modules_to_save`; return the targets' names.

    At first the model computes the same as before. Raises ConfigError if a target or a module to
    save does not exist, or the model has adapters already.
    """
    targets = become(model, config, _LAYERS[config.kind])
    share_inputs(model)
    for module in saved_modules(model, config.modules_to_save).values():
        module.requires_grad_(True)
    return targets


def become(model: nn.Module, config: AdapterConfig, kind: type[Adapted], **own: Any) -> list[str]:
    """Freeze the model and make its targets layers of a kind, with attributes of their own."""
    if present := adapted(model):
        raise ConfigError(f"the model has adapters already, the first on {next(iter(present))}")
    targets = targeted(model, config)
    model.requires_grad_(False)
    for name, linear in targets.items():
        linear.__class__ = kind
        assert isinstance(linear, Adapted)
        for key, value in own.items():
            setattr(linear, key, value)
        linear.adopt(config, name)
    return list(targets)


def adapted(model: nn.Module) -> dict[str, Adapted]:
    """Return the layers with adapters, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, Adapted)}


def saved_modules(model: nn.Module, ends: Iterable[str]) -> dict[str, nn.Module]:
    """Return the modules that `modules_to_save` names; ConfigError for one that does not exist."""
    modules = dict(model.named_modules())
    saved: dict[str, nn.Module] = {}
    for end in ends:
        matching = {name: m for name, m in modules.items() if name and matches(name, end)}
        if not matching:
            tails = _tails(name for name, m in modules.items() if any(True for _ in m.parameters()))
            raise ConfigError(
                f"modules_to_save names {end!r}, and no module ends in it{did_you_mean(end, tails)}"
            )
        saved.update(matching)
    return saved


def heads(model: nn.Module) -> list[str]:
    """Return the names of the linear layers of the model's output, which `all-linear` excludes.

    They are its output embeddings, layers with transformers' head names at the top, and every layer
    that shares its weight with an embedding.
    """
    of_model = getattr(model, "get_output_embeddings", None)
    output = of_model() if callable(of_model) else None
    tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    return [
        name
        for name, linear in linears(model).items()
        if linear is output or id(linear.weight) in tables or name.partition(".")[0] in _HEADS
    ]


def linears(model: nn.Module) -> dict[str, nn.Linear]:
    """Return the layers that can get an adapter; subclasses may be used other than by a call."""
    return {
        name: module
        for name, module in model.named_modules()
        if type(module) in (nn.Linear, LowLinear)
        or (
            isinstance(module, nn.Linear)
            and is_quantised(module.weight)
            and not isinstance(module, Adapted)
        )
    }


def merged_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the state of the same model without adapters; their updates are in its weights.

    Weights keep their dtype; packed ones are unpacked to their original dtype. Tensors without an
    adapter are not copied. Raises ConfigError for an adapter on a weight that something else
    shares.
    """
    modules = dict(model.named_modules(remove_duplicate=False))  # one may have two names
    users: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        users.setdefault(id(parameter), []).append(name)
    state: dict[str, Tensor] = {}
    for key, value in model.state_dict(keep_vars=True).items():
        name, _, leaf = key.rpartition(".")
        layer = modules[name]
        if not isinstance(layer, Adapted):
            state[key] = unpacked(value).detach()
        elif leaf == "weight":
            twins = [n for n in users[id(value)] if modules[n.rpartition(".")[0]] is not layer]
            if twins:
                raise ConfigError(
                    f"{twins[0]} and {key} are one tensor, and the adapter is on {name} alone: it "
                    "cannot be merged; keep the adapter as it is"
                )
            weight, bias = layer.merged()
            state[key] = weight.to(dtype_of(value))
            if bias is not None:
                state[f"{name}.bias"] = bias.to(layer.bias.dtype)
    return state


def targeted(model: nn.Module, config: AdapterConfig) -> dict[str, nn.Linear]:
    """Return the linear layers that the configuration names, without those to be saved.

    Raises ConfigError for a target that matches no linear layer.
    """
    saved = saved_modules(model, config.modules_to_save)
    inside = {id(part) for module in saved.values() for part in module.modules()}
    present = {n: m for n, m in linears(model).items() if id(m) not in inside}
    if config.targets == ALL_LINEAR:
        last = set(heads(model))
        targets = {name: m for name, m in present.items() if name not in last}
        if not targets:
            raise ConfigError("the model has no linear layer but its head: nothing to adapt")
        return targets
    if isinstance(config.targets, str):
        targets = {name: m for name, m in present.items() if re.fullmatch(config.targets, name)}
        if not targets:
            raise _no_target(model, config.targets, present)
        return targets
    for end in config.targets:
        if not any(matches(name, end) for name in present):
            raise _no_target(model, end, present)
    return {n: m for n, m in present.items() if any(matches(n, e) for e in config.targets)}


def _tails(names: Iterable[str]) -> list[str]:
    return sorted({name.rpartition(".")[2] for name in names if name} - set("0123456789"))


def _no_target(model: nn.Module, target: str, linears: dict[str, nn.Linear]) -> ConfigError:
    """Return the error for a target that matches no linear layer, with what exists instead."""
    tails = _tails(linears)
    text = f"adapter target {target!r} is no linear layer of this model"
    matching = [
        f"{name} is {type(module).__name__}"
        for name, module in model.named_modules()
        if name and matches(name, target)
    ]
    if matching:
        text += f" ({matching[0]})"
    shown = ", ".join(tails[:_MOST]) + (", ..." if len(tails) > _MOST else "")
    return ConfigError(
        f'{text}; its linear layers end in {shown}, or take "{ALL_LINEAR}"'
        f"{did_you_mean(target, [*tails, *linears, ALL_LINEAR])}"
    )
