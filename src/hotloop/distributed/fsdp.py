"""Weights, gradients and optimizer state in rows over the ranks; whole only where they compute.

torch's fully_shard does the work (https://arxiv.org/abs/2304.11277): each repeated block is a group
that is gathered before it computes, and the rest of the model is one more.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from hotloop.distributed.model_with_loss import Whole
from hotloop.machine.clock import clock
from hotloop.models.repeated_blocks import repeated_blocks
from hotloop.models.row_sharded import local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from hotloop.session.session import Session

__all__ = ["Sharded"]

# torch 2.13 has new names, and warns of the old ones.
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Sharded:
    """The exchange of one session whose model is in rows."""

    settles = False

    def __init__(self, session: Session, *, reshard: bool, keep: bool) -> None:
        model = session.model
        for tensor in (*model.parameters(), *model.buffers()):  # as on rank 0, whatever read it
            dist.broadcast(tensor.detach(), 0)
        self._keep = keep
        self._group = session.parallel.group
        self.blocks = repeated_blocks(model)
        mesh = init_device_mesh(session.device.type, (session.parallel.group.world,))
        for block in self.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
        self.module: Any = Whole(model, session.forward)
        fully_shard(self.module, mesh=mesh, reshard_after_forward=reshard)
        self._phase = "forward"
        self._waits: dict[str, float] = {}
        if session.device.type == "cpu":  # on a card the host is long past it
            self._time()
        session.forward = self._forward

    def _time(self) -> None:
        for module in self.module.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(_Timed(_GATHER, self))  # type: ignore[arg-type]
                module.set_custom_reduce_scatter(_Timed(_SCATTER, self))  # type: ignore[arg-type]

    def waited(self, seconds: float) -> None:
        """Count a wait of the pass in flight."""
        self._waits[self._phase] = self._waits.get(self._phase, 0.0) + seconds

    def _forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        self._phase = "forward"
        loss: Tensor = self.module(tensors)
        self._phase = "backward"
        if not torch.is_grad_enabled():
            self.module.reshard()  # what is no block stays whole until a backward pass
        return loss

    @contextmanager
    def micro(self, *, last: bool) -> Iterator[None]:
        """Hold the forward and backward pass of a micro batch."""
        exchanges = last or not self._keep
        self.module.set_requires_gradient_sync(exchanges)
        self.module.set_is_last_backward(last)
        yield

    def waits(self) -> Mapping[str, float]:
        """Return what passes waited for other ranks since the last call, seconds by phase."""
        found, self._waits = self._waits, {}
        return found

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of all rows of gradients, a scalar that is the same on every rank."""
        rows = [local(gradient) for gradient in gradients]
        norm = torch.nn.utils.get_total_norm([r for r in rows if r.numel()], foreach=True)
        return self._group.total(norm.to(rows[0].device) ** 2).sqrt()


class _Timed:
    """A collective call that is waited for and timed, where there is no stream beside."""

    def __init__(self, call: Any, told: Sharded) -> None:
        self._call, self._told = call, told

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return memory for it."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, **how: Any) -> None:
        """Wait until it is done."""
        began = clock()
        self._call(output_tensor, input_tensor, group=group, **{**how, "async_op": False})
        self._told.waited(clock() - began)
