"""Changes the tensors in the inputs or outputs of a forward pass, however they are nested."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["in_float32", "mapped"]


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return `value` with `change` applied to each tensor; containers are copied, not modified.

    Containers of unknown types are returned unchanged, with their contents.
    """
    import torch

    if isinstance(value, torch.Tensor):
        return change(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        new = {name: mapped(item, change) for name, item in given.items()}
        same = all(new[name] is item for name, item in given.items())
        return value if same else dataclasses.replace(value, **new)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, mapped(item, change)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, change) for item in value))
    if type(value) in (list, tuple):
        return type(value)(mapped(item, change) for item in value)
    return value


def in_float32(value: Any) -> Any:
    """Return `value` with its 16-bit floating tensors in float32, as accelerate returns outputs.

    https://huggingface.co/docs/accelerate/package_reference/utilities (convert_outputs_to_fp32)
    """
    import torch

    low = (torch.bfloat16, torch.float16)
    return mapped(value, lambda tensor: tensor.float() if tensor.dtype in low else tensor)


hide(globals())
