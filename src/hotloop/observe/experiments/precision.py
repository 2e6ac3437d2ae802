"""Switches the number formats in which a script computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.experiments.live_modules import buffers
from hotloop.observe.experiments.variants import Variant
from hotloop.observe.whatif.batch_replay import rebuilt

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.machine.float32_precision import PrecisionSwitches

__all__ = ["Autocast", "Float32", "Tf32"]


class Tf32(Variant):
    """Float32 matrix products of a GPU round their inputs to TF32."""

    def __init__(self) -> None:
        self._usual: PrecisionSwitches | None = None

    def prepare(self) -> str | None:
        """See whether they are computed in full float32."""
        from hotloop.machine.float32_precision import PrecisionSwitches

        self._usual = PrecisionSwitches.now()
        if self._usual is None:
            return "the script mixes torch's older and newer switches of float32 precision"
        return None if self._usual.older == "highest" else "TF32 is on already"

    def switch_on(self) -> None:
        """Use TF32."""
        import torch

        torch.set_float32_matmul_precision("high")

    def switch_off(self) -> None:
        """Use the script's switch."""
        assert self._usual is not None
        self._usual.put_back()


class Autocast(Variant):
    """Forward passes on a GPU run under autocast to bfloat16."""

    def __init__(self) -> None:
        self._context: Any = None
        self._handle: Any = None

    def prepare(self) -> str | None:
        """See whether the script has autocast or gradient scaling of its own."""
        import torch

        is_on = torch.is_autocast_enabled("cuda")
        return "autocast is on between two steps" if is_on else None

    def switch_on(self) -> None:
        """Enter autocast; forget the cast weights at each update."""
        import torch
        from torch.optim.optimizer import register_optimizer_step_pre_hook

        self._context = torch.autocast("cuda", torch.bfloat16)
        self._context.__enter__()
        self._handle = register_optimizer_step_pre_hook(lambda *_: torch.clear_autocast_cache())

    def switch_off(self) -> None:
        """Leave autocast."""
        self._handle.remove()
        self._context.__exit__(None, None, None)


class Float32(Variant):
    """Weights, states and the inputs of modules are float32 in place of a slower format."""

    def __init__(self, optimizers: Callable[[], list[Any]]) -> None:
        self._optimizers = optimizers
        self._usual: Any = None  # the dtype of the weights
        self._handle: Any = None

    def prepare(self) -> str | None:
        """Look for weights that are all of another format."""
        import torch

        dtypes = {tensor.dtype for tensor in self._tensors() if tensor.is_floating_point()}
        if len(dtypes) != 1 or torch.float32 in dtypes:
            return "the weights are not of one other format"
        self._usual = dtypes.pop()
        return None

    def switch_on(self) -> None:
        """Cast weights, states and buffers; cast the inputs of modules when they are called."""
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook

        self._cast(self._usual, torch.float32)
        self._handle = register_module_forward_pre_hook(
            lambda _, args: rebuilt(args, lambda t: t.float() if t.dtype == self._usual else t)
        )

    def switch_off(self) -> None:
        """Cast back."""
        import torch

        self._handle.remove()
        self._cast(torch.float32, self._usual)

    def _tensors(self) -> list[Any]:
        groups = [group for optimizer in self._optimizers() for group in optimizer.param_groups]
        return [parameter for group in groups for parameter in group["params"]]

    def _cast(self, source: Any, target: Any) -> None:
        import torch

        for tensor in [*self._tensors(), *buffers()]:
            tensor.grad = None
            if tensor.dtype == source:
                tensor.data = tensor.data.to(target)
        for optimizer in self._optimizers():
            for state in optimizer.state.values():
                for name, value in state.items():
                    if isinstance(value, torch.Tensor) and value.dtype == source and value.dim():
                        state[name] = value.to(target)
