"""Notes shapes and identities of tensors, of the operations that another form may replace."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any

from hotloop.observe.ledger.operation import Operand, Zeros
from hotloop.observe.ledger.operator_schema import tensors
from hotloop.observe.ledger.storages import value_of
from hotloop.observe.ledger.torch_functions import OF_ROWS, POINTWISE
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.observe.ledger.operation import Operation
    from hotloop.observe.ledger.storages import TensorStorage

__all__ = ["LOOPED", "note_operands"]

_MASKS: Mapping[str, tuple[str, ...]] = {  # operator -> its arguments that may be a mask
    "masked_fill": ("mask",),
    "where": ("condition",),
    "add": ("self", "other"),
    "baddbmm": ("self",),
}
_NOTED = {
    *_MASKS,
    *("mm", "bmm", "addmm", "native_dropout", "bernoulli", "clone", "_to_copy"),
    *("cat", "repeat", "copy", "linalg_vector_norm", "mkldnn_rnn_layer"),
    *("mse_loss", "smooth_l1_loss", "huber_loss"),
    *POINTWISE,
    *OF_ROWS,
}
LOOPED = 4  # calls of an operator at one place from which a loop may make them
_ITEMS = frozenset({"SelectBackward0", "SliceBackward0"})
_SHAPED = frozenset(
    f"{name}Backward0"
    for name in ("Unsqueeze", "Squeeze", "View", "T", "Transpose", "Permute", "Expand", "Alias")
) | {"SqueezeBackward1", "ReshapeAliasBackward0", "UnsafeViewBackward0"}
_VIEWS = 6  # of a tensor, one of the other, that are looked through
_PRODUCTS = frozenset({"mm", "addmm", "bmm"})
_LARGE = 1 << 14  # numbers of a factor from which its zeros are counted
_LOOKED_AT = 64  # rows and columns of the sample that says whether to count them all
_FEW = 0.2  # share of the sample's numbers that are not 0, above which a matrix is not sparse
_LOW = -1e4  # a number that, if it is added, leaves a score out


def note_operands(
    operation: Operation,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    inputs: Sequence[tuple[Any, int | None, str]],
    storages: Mapping[int, TensorStorage],
    result: Any,
    *,
    calls: int = 0,
) -> None:
    """Note them of an operation that has just run, before its results are known as such.

    `calls` are those of this operator at this place so far: a loop may call it.
    """
    name = operation.name.removeprefix("aten::").removesuffix("_")
    if name not in _NOTED and (calls < LOOPED or operation.is_view):
        return
    try:
        operands = _operands(name, inputs, storages)
    except RuntimeError:  # a tensor without strides or values, such as a nested one
        return
    torch = sys.modules["torch"]
    operation.operands = tuple(operands)
    operation.are_tensors = tuple(isinstance(value, torch.Tensor) for value in args)
    operation.numbers = tuple(value for value in args if not tensors(value))
    operation.options = tuple(kwargs.items())
    first = result[0] if isinstance(result, tuple | list) and result else result
    operation.shape = tuple(first.shape) if isinstance(first, torch.Tensor) else ()


def _operands(
    name: str,
    inputs: Sequence[tuple[Any, int | None, str]],
    storages: Mapping[int, TensorStorage],
) -> list[Operand]:
    """Return the tensors that an operation reads; none if one of them cannot be followed."""
    torch = sys.modules["torch"]
    grad = torch.is_grad_enabled()
    is_product = name in _PRODUCTS
    operands = []
    keeps = name == "where" and inputs[1][0].numel() > 1  # else the scores come last
    for tensor, address, argument in inputs:
        if address is None or tensor.layout is not torch.strided:
            return []
        storage, strides, full = storages[address], tensor.stride(), tuple(tensor.shape)
        shape = tuple(1 if stride == 0 else n for n, stride in zip(full, strides, strict=True))
        identity = (storage.value, tensor.storage_offset(), full, strides)
        may_mask = argument in _MASKS.get(name, ())
        operands.append(
            Operand(
                shape=shape,
                full=full,
                dtype=str(tensor.dtype).removeprefix("torch."),
                device=tensor.device.type,
                needs_grad=grad and tensor.requires_grad,
                identity=identity,
                storage=None if storage.is_new else address,
                writers=tuple(storage.writers),
                strides=tuple(strides),
                number=_number(tensor),
                is_causal=may_mask and _is_causal(tensor, keeps=keeps),
                is_item=grad and _is_item(tensor.grad_fn),
                zeros=_zeros_of(tensor, storage, identity) if is_product else None,
            )
        )
    return operands


def _is_item(node: Any) -> bool:
    """Whether a tensor is a view of an item or a slice of a larger one, by its autograd node."""
    for _ in range(_VIEWS):
        name = "" if node is None else node.name()
        if name in _ITEMS:
            return True
        if name not in _SHAPED:
            return False
        node = node.next_functions[0][0]
    return False


def _zeros_of(tensor: Any, storage: TensorStorage, identity: object) -> Zeros | None:
    """Return how much of a large factor is zero; None if it is differentiated, or small."""
    if tensor.requires_grad or tensor.numel() < _LARGE or not tensor.is_floating_point():
        return None
    if tensor.device.type not in ("cpu", "cuda"):
        return None
    if identity not in storage.zeros:
        storage.zeros[identity] = _zeros(tensor.flatten(0, -2))
    known: Zeros = storage.zeros[identity]
    return known


def _zeros(matrix: Any) -> Zeros:
    rows, columns = (max(1, size // _LOOKED_AT) for size in matrix.shape)
    sample = matrix[::rows, ::columns]
    filled = float(value_of((sample != 0).float().mean()))
    if filled > _FEW:  # most matrices: the sample decides
        return Zeros(filled)
    is_other = matrix != 0
    filled = float(value_of(is_other.float().mean()))
    is_one_hot = (is_other.sum(-1) == 1).all() & ((matrix == 0) | (matrix == 1)).all()
    return Zeros(filled, bool(value_of(is_one_hot)))


def _number(tensor: Any) -> float | None:
    """Return the value of a tensor that stands for a number."""
    if tensor.dim() or tensor.requires_grad or tensor.device.type != "cpu":
        return None
    if not tensor.is_floating_point():
        return None
    return float(value_of(tensor))


def _is_causal(mask: Any, *, keeps: bool) -> bool:
    """Whether a mask leaves out all above the diagonal, and nothing else.

    `keeps`: True in it stands for a score that stays.
    """
    torch = sys.modules["torch"]
    if mask.dim() < 2 or mask.shape[-1] != mask.shape[-2] or mask.shape[-1] < 2:
        return False
    if mask.device.type not in ("cpu", "cuda") or mask.requires_grad or not math.prod(mask.shape):
        return False
    first = mask[(0,) * (mask.dim() - 2)]
    is_bool = mask.dtype is torch.bool
    corner = value_of(first[0, 1])
    if corner is not (not keeps) if is_bool else corner > _LOW:
        return False
    expanded = [slice(0, 1) if stride == 0 else slice(None) for stride in mask.stride()[:-2]]
    mask = mask[tuple(expanded)]
    out = mask if is_bool and not keeps else ~mask if is_bool else mask <= _LOW
    later = torch.ones_like(first, dtype=torch.bool).triu(1)
    if not is_bool and not value_of(((mask == 0) | out).all()):
        return False
    return bool(value_of((out == later).all()))


hide(globals())
