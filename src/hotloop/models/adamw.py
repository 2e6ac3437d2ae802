"""torch's AdamW without torch's compiler: the same numbers, without a second of imports.

`torch.optim` excludes five of its functions from compilation and to do so imports the compiler
(torch._dynamo with sympy, 970 modules) when the first optimizer is built. Nothing here compiles an
optimizer, so the functions below those guards are used. `inspect.unwrap` follows `functools.wraps`:
in a torch without the guard, the function stays as it is.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING

import torch

__all__ = ["AdamW"]

_TORCHS = torch.optim.AdamW


class AdamW(_TORCHS):
    """Loshchilov and Hutter 2019, arXiv:1711.05101; the arguments are those of torch.optim.AdamW.

    Does not support `differentiable=True`: a step is never part of a graph.
    """

    if not TYPE_CHECKING:
        add_param_group = unwrap(_TORCHS.add_param_group)
        zero_grad = unwrap(_TORCHS.zero_grad)
        state_dict = unwrap(_TORCHS.state_dict)
        load_state_dict = unwrap(_TORCHS.load_state_dict)
        step = torch.no_grad()(unwrap(_TORCHS.step))
