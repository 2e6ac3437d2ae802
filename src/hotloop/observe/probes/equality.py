"""Whether two values of a data set are equal bit for bit, however they are nested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["copied", "equal", "lent", "marks", "tensors"]

_PLAIN = (int, float, complex, str, bytes, bool, type(None))
_LOOKED_AT = 64  # elements of a list or an array


def equal(a: Any, b: Any) -> bool:
    """Whether both have the same types, shapes and bits; False for values of unknown types."""
    import numpy as np
    import torch

    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        same = a.dtype == b.dtype and a.shape == b.shape and a.device == b.device
        return same and bool(torch.equal(_bits(a), _bits(b)))
    if isinstance(a, np.ndarray | np.generic):
        same = a.dtype == b.dtype and a.shape == b.shape
        return same and (a.tobytes() == b.tobytes() if a.dtype != object else False)
    if isinstance(a, Mapping):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, _PLAIN):
        return bool(a == b) or (a != a and b != b)
    if hasattr(a, "tobytes") and hasattr(a, "size"):  # a PIL image
        return bool(a.size == b.size and a.tobytes() == b.tobytes())
    return False


def _bits(tensor: Any) -> Any:
    """Return the tensor's bits as integers, so that NaN equals itself."""
    import torch

    if tensor.is_floating_point() and tensor.element_size() in (2, 4, 8):
        kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        return tensor.detach().contiguous().view(kind)
    return tensor


def copied(value: Any) -> Any:
    """Return a copy that shares no memory. Raises LookupError for an unknown type."""
    copy = _COPIES.get(type(value))
    return _copied_first(value) if copy is None else copy(value)


def _copied_first(value: Any) -> Any:
    """Copy a value of a type that `_COPIES` does not have yet."""
    import numpy as np
    import torch

    if isinstance(value, _PLAIN):
        return value
    if type(value) is torch.Tensor:
        _COPIES[torch.Tensor] = _cloned
        return _cloned(value)
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "tobytes"):
        return value.copy()
    raise _unknown(value)


def _cloned(tensor: Any) -> Any:
    if tensor.requires_grad:
        raise _unknown(tensor)
    return tensor.clone()  # its strides are kept


def _unknown(value: Any) -> LookupError:
    return LookupError(f"a {type(value).__name__} in a sample cannot be copied safely")


_COPIES: dict[type, Callable[[Any], Any]] = {  # used for every sample that is read
    **dict.fromkeys(_PLAIN, lambda value: value),
    tuple: lambda values: tuple([copied(value) for value in values]),
    list: lambda values: [copied(value) for value in values],
    dict: lambda values: {key: copied(value) for key, value in values.items()},
}


def lent(value: Any) -> Any:
    """Return the value in new containers with the same tensors; everything else is copied."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([lent(element) for element in value])
    if kind is dict:
        return {key: lent(element) for key, element in value.items()}
    return value if kind.__name__ == "Tensor" else copied(value)


def tensors(value: Any) -> tuple[Any, ...]:
    """Return the tensors in a value, which `lent` would not copy."""
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        return tuple(tensor for element in value for tensor in tensors(element))
    return (value,) if type(value).__name__ == "Tensor" else ()


def marks(value: Any, *, depth: int = 3) -> Any:
    """Return identities and sampled contents, which change if a data set is changed in place."""
    import numpy as np
    import torch

    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, torch.Tensor):
        return id(value), value._version, value.data_ptr()
    if isinstance(value, np.ndarray):
        step = max(1, value.size // _LOOKED_AT)
        elements = value.flat[::step] if value.dtype != object else ()
        return id(value), value.shape, np.asarray(elements).tobytes()
    if isinstance(value, list | tuple):
        step = max(1, len(value) // _LOOKED_AT)
        return id(value), len(value), tuple(map(_shallow, value[::step]))
    if isinstance(value, Mapping):
        keys = list(value)[:: max(1, len(value) // _LOOKED_AT)]
        return id(value), len(value), tuple((str(key), _shallow(value[key])) for key in keys)
    if depth and hasattr(value, "__dict__") and not isinstance(value, type):
        inner = vars(value).items()
        return id(value), tuple((name, marks(element, depth=depth - 1)) for name, element in inner)
    return id(value)


def _shallow(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else id(value)
