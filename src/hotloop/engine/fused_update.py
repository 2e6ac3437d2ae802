"""Updates with fused AdamW, in one call per parameter group that also clips the gradients.

AdamW8bit clips in its own step in the same way.

The kernel divides gradients by a scale that is meant for GradScaler. With max(1, norm / clip) as
that scale it clips without another pass over the gradients. torch's `Optimizer.step` is the
fallback for anything that is not covered here; both give the same bits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from hotloop.models.adamw import AdamW
from hotloop.models.adamw_8bit import AdamW8bit
from hotloop.models.adapters.product import LOW
from hotloop.models.row_sharded import is_sharded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

__all__ = ["FusedStep", "total_norm"]

_STATE = ("exp_avg", "exp_avg_sq", "step")
# Hooks that torch.optim.optimizer.register_optimizer_step_*_hook registered for all optimizers.
_OPTIMIZER = importlib.import_module("torch.optim.optimizer")
_BEFORE = getattr(_OPTIMIZER, "_global_optimizer_pre_hooks", {})
_AFTER = getattr(_OPTIMIZER, "_global_optimizer_post_hooks", {})
_PLAIN = ("amsgrad", "maximize", "capturable", "differentiable")  # each one changes the arithmetic


def total_norm(gradients: list[Tensor]) -> Tensor:
    """Return the 2-norm of all gradients together, a scalar; those in 16 bits are added in fp32.

    Only for tensors of one device.
    """
    norms: list[Tensor] = []
    for dtype in dict.fromkeys(gradient.dtype for gradient in gradients):
        alike = [gradient for gradient in gradients if gradient.dtype == dtype]
        norms += torch._foreach_norm(alike, 2, torch.float32 if dtype in LOW else None)
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


class FusedStep:
    """Steps an optimizer for which `why_not` returns None."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._params: list[Tensor] = [p for g in optimizer.param_groups for p in g["params"]]
        self._groups: list[tuple[dict[str, Any], list[Tensor], list[list[Tensor]]]] = []

    @staticmethod
    def why_not(optimizer: torch.optim.Optimizer | None) -> str | None:
        """Return why the optimizer must make its own step, or None if it need not."""
        if type(optimizer) is AdamW8bit:
            return None
        if optimizer is None or type(optimizer) not in (torch.optim.AdamW, AdamW):
            return "it is not AdamW"  # a subclass may do anything
        missing = [
            name
            for name in ("_fused_adamw_", "_foreach_norm")
            if getattr(torch, name, None) is None
        ]
        if missing:
            return f"this torch has no {missing[0]}"
        groups = optimizer.param_groups
        if not all(group["fused"] for group in groups):
            return "it is not fused"
        if any(group[key] for group in groups for key in _PLAIN):
            return f"one of {', '.join(_PLAIN)} is on"
        if any(isinstance(group["lr"], torch.Tensor) for group in groups):
            return "its learning rate is a tensor"
        if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
            return "it has hooks"
        if any(is_sharded(p) for group in groups for p in group["params"]):
            return "its parameters are in rows over several ranks"
        kinds = {(p.device, p.dtype, p.layout) for group in groups for p in group["params"]}
        return None if len(kinds) == 1 else "its parameters have several dtypes or devices"

    def gradients(self) -> list[Tensor] | None:
        """Return the gradients of all parameters in order; None if a parameter has none."""
        gradients_there = [p.grad for p in self._params if p.grad is not None]
        return gradients_there if len(gradients_there) == len(self._params) else None

    @property
    def is_ready(self) -> bool:
        """Whether the next step allocates nothing and is made here, not by the optimizer."""
        return bool(self._groups) or self._ready()

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Return the optimizer's parameter groups."""
        groups: list[dict[str, Any]] = self._optimizer.param_groups
        return groups

    def step(
        self,
        gradients: list[Tensor],
        *,
        divide: Tensor | None,
        found_inf: Tensor | None,
        rates: Sequence[Tensor] | None = None,
    ) -> None:
        """Update every parameter by its gradient over `divide` (a scalar; None is 1).

        If `found_inf` (a scalar) is above 0, nothing changes. Never waits for the device. With
        `rates` (a scalar for each parameter group) a step is recorded, and no hook is called.
        """
        if not self.is_ready:
            self._public(divide, found_inf)
        elif rates is not None:
            self._updated(gradients, divide, found_inf, rates)
        else:
            rates_now = [options["lr"] for options in self.groups]
            self.hooked(lambda: self._updated(gradients, divide, found_inf, rates_now))

    def hooked(self, step: Callable[[], object]) -> None:
        """Make a step between the hooks that are registered for all optimizers."""
        self._call(_BEFORE)
        step()
        self._call(_AFTER)

    def _updated(
        self,
        gradients: list[Tensor],
        divide: Tensor | None,
        found_inf: Tensor | None,
        rates: Sequence[Tensor | float],
    ) -> None:
        first = 0
        with torch.no_grad():
            for (options, params, (averages, squares, steps)), rate in zip(
                self._groups, rates, strict=True
            ):
                mine = gradients[first : first + len(params)]
                first += len(params)
                beta1, beta2 = options["betas"]
                torch._foreach_add_(steps, 1)
                torch._fused_adamw_(
                    params,
                    mine,
                    averages,
                    squares,
                    [],
                    steps,
                    lr=rate,  # type: ignore[arg-type, unused-ignore] # a tensor is taken as well
                    beta1=beta1,
                    beta2=beta2,
                    weight_decay=options["weight_decay"],
                    eps=options["eps"],
                    amsgrad=False,
                    maximize=False,
                    grad_scale=divide,
                    found_inf=found_inf,
                )
                if found_inf is not None:  # a step that was skipped does not count
                    torch._foreach_sub_(steps, [found_inf] * len(steps))

    def _call(self, hooks: Mapping[int, Callable[..., Any]]) -> None:
        for hook in tuple(hooks.values()):
            hook(self._optimizer, (), {})

    def clear(self) -> None:
        """Drop the gradients."""
        for parameter in self._params:
            parameter.grad = None

    def _ready(self) -> bool:
        """Collect the optimizer's state; return False if it has none yet, or one of its own."""
        state = self._optimizer.state
        if type(self._optimizer) is AdamW8bit or any(not state[p] for p in self._params):
            return False
        self._groups = [
            (group, group["params"], [[state[p][key] for p in group["params"]] for key in _STATE])
            for group in self._optimizer.param_groups
        ]
        return True

    def _public(self, divide: Tensor | None, found_inf: Tensor | None) -> None:
        """Step as GradScaler does, through the two attributes that fused optimizers read."""
        optimizer = self._optimizer
        optimizer.grad_scale, optimizer.found_inf = divide, found_inf  # type: ignore[attr-defined]
        try:
            optimizer.step()
        finally:
            del optimizer.grad_scale, optimizer.found_inf  # type: ignore[attr-defined]
