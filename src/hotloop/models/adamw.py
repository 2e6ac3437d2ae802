"""torch's AdamW without torch's compiler: the same numbers, without a second of imports.

`torch.optim` keeps the compiler out of five of its functions, and to do so imports it when the
first optimizer is built: torch._dynamo with sympy, 970 modules. Nothing here compiles an optimizer,
so the functions below those guards are used. `inspect.unwrap` goes by `functools.wraps`: where a
torch has no guard, the function stays as it is.
"""

from __future__ import annotations

from inspect import unwrap
from typing import TYPE_CHECKING

import torch

__all__ = ["AdamW"]

_TORCHS = torch.optim.AdamW


class AdamW(_TORCHS):
    """Loshchilov and Hutter 2019, arXiv:1711.05101; takes what torch.optim.AdamW takes.

    Not for `differentiable=True`: a step is never part of a graph.
    """

    if not TYPE_CHECKING:
        add_param_group = unwrap(_TORCHS.add_param_group)
        zero_grad = unwrap(_TORCHS.zero_grad)
        state_dict = unwrap(_TORCHS.state_dict)
        load_state_dict = unwrap(_TORCHS.load_state_dict)
        step = torch.no_grad()(unwrap(_TORCHS.step))
