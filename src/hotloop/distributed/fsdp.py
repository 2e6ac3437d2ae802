"""Shard weights, gradients and optimizer state by rows over the ranks; gather them to compute.

torch's fully_shard does the work (https://arxiv.org/abs/2304.11277): each repeated block is one
group, gathered before it computes; the rest of the model is one more group.
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

# torch 2.13 renamed both functions and warns about the old names.
_GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


class Sharded:
    """The gradient exchange of one session whose model is sharded by rows."""

    settles = False

    def __init__(self, session: Session, *, reshard: bool, keep: bool) -> None:
        model = session.model
        for tensor in (*model.parameters(), *model.buffers()):  # start from rank 0's values
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
        if session.device.type == "cpu":  # with a GPU, the host runs ahead of the exchange
            self._time()
        session.forward = self._forward

    def _time(self) -> None:
        for module in self.module.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(_Timed(_GATHER, self))  # type: ignore[arg-type]
                module.set_custom_reduce_scatter(_Timed(_SCATTER, self))  # type: ignore[arg-type]

    def waited(self, seconds: float) -> None:
        """Add a wait to the pass in flight."""
        self._waits[self._phase] = self._waits.get(self._phase, 0.0) + seconds

    def _forward(self, tensors: Mapping[str, Tensor]) -> Tensor:
        self._phase = "forward"
        loss: Tensor = self.module(tensors)
        self._phase = "backward"
        if not torch.is_grad_enabled():
            self.module.reshard()  # parameters outside blocks stay gathered until a backward pass
        return loss

    @contextmanager
    def micro(self, *, last: bool) -> Iterator[None]:
        """Wrap the forward and backward pass of a micro batch."""
        exchanges = last or not self._keep
        self.module.set_requires_gradient_sync(exchanges)
        self.module.set_is_last_backward(last)
        yield

    def waits(self) -> Mapping[str, float]:
        """Return the seconds that passes waited for other ranks since the last call, by phase."""
        waits, self._waits = self._waits, {}
        return waits

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of all gradient rows, a scalar that is the same on every rank."""
        rows = [local(gradient) for gradient in gradients]
        norm = torch.nn.utils.get_total_norm([r for r in rows if r.numel()], foreach=True)
        return self._group.total(norm.to(rows[0].device) ** 2).sqrt()


class _Timed:
    """A collective call that blocks and is timed, for devices without streams."""

    def __init__(self, call: Any, exchange: Sharded) -> None:
        self._call, self._exchange = call, exchange

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return memory for the call."""
        return torch.empty(size, dtype=dtype, device=device)

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, **how: Any) -> None:
        """Make the call, wait until it is done, and add the wait to the exchange."""
        began = clock()
        self._call(output_tensor, input_tensor, group=group, **{**how, "async_op": False})
        self._exchange.waited(clock() - began)
