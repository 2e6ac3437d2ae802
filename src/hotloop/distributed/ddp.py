"""Keep the whole model on every rank; average gradients in the last backward pass of a window.

torch's DistributedDataParallel does the work (https://arxiv.org/abs/2006.15704).
"""

from __future__ import annotations

from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any, Final

import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from hotloop.distributed.model_with_loss import Whole
from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import Tensor

    from hotloop.session.session import Session

__all__ = ["Replicas"]

# Buffers are the same on all ranks and must not be broadcast in each forward pass. torch 2.13
# renamed the argument and warns about the old name.
_NEW: Final = "forward_sync_buffers"
_NO_BUFFERS: Final[dict[str, Any]] = {
    _NEW if _NEW in signature(DistributedDataParallel).parameters else "broadcast_buffers": False
}


class Replicas:
    """The gradient exchange of one session whose model is whole on every rank."""

    settles = True  # torch rebuilds the buckets in the order in which gradients first arrived

    def __init__(self, session: Session, *, bucket_mib: int, unused: bool) -> None:
        whole = Whole(session.model, session.forward)
        self.module = DistributedDataParallel(
            whole,
            bucket_cap_mb=bucket_mib,
            gradient_as_bucket_view=True,  # gradients live in the buckets: no second copy
            **_NO_BUFFERS,
            find_unused_parameters=unused,
        )
        self.bucket_mib = bucket_mib
        self._waits: dict[str, float] = {}
        self._last = 0.0  # when this rank's newest bucket was complete
        if session.device.type == "cpu":  # with a GPU, the host runs ahead of the exchange
            # A lambda, because torch compares annotations, and annotations are strings here.
            self.module.register_comm_hook(None, lambda _, bucket: self._average(bucket))
        session.forward = self.module

    def _average(self, bucket: Any) -> Any:
        self._last = clock()
        return allreduce_hook(None, bucket)  # type: ignore[arg-type] # None: the default group

    @contextmanager
    def micro(self, *, last: bool) -> Iterator[None]:
        """Wrap the forward and backward pass of a micro batch."""
        if not last:
            with self.module.no_sync():
                yield
            return
        self._last = 0.0
        yield
        if self._last:
            self._waits["backward"] = self._waits.get("backward", 0.0) + clock() - self._last

    def waits(self) -> Mapping[str, float]:
        """Return the seconds that passes waited for other ranks since the last call, by phase."""
        waits, self._waits = self._waits, {}
        return waits

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of gradients that are the same on every rank, a scalar."""
        return torch.nn.utils.get_total_norm(gradients, foreach=True)
