"""The processes that train together, and how they share gradients, weights and the optimizer."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import torch
    from torch import Tensor

__all__ = ["SINGLE_PROCESS", "GradientSync", "ProcessGroup", "ShardedOptimizer"]


class ProcessGroup(Protocol):
    """The processes that train together; all make collective calls, in the same order."""

    rank: int
    world: int
    has_restarted: bool  # whether torchrun restarted the group for this run
    job: str | None  # name of the launcher's job that restarts the group; None without one
    signalled: Callable[[], float | None]  # seconds since a signal; None: no signal

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the numbers of all ranks, in order, equally many each, without a device sync."""

    def total(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over all ranks, in place on its device."""

    def exchange(self, value: object) -> list[Any]:
        """Return the JSON values of all ranks, in order; for rare exchanges."""

    def put(self, name: str, value: object) -> None:
        """Publish a JSON value under a name; from any thread."""

    def take(self, name: str) -> Any:
        """Wait for a value that another rank publishes under a name; from any thread."""

    def together(self) -> AbstractContextManager[None]:
        """Make a block fail on all ranks if it fails on one; one rank reports the error."""

    def leave(self) -> None:
        """Stop waiting for other ranks, because this rank cannot keep step."""

    def is_gone(self, error: BaseException) -> bool:
        """Whether an error says that another process of the group is gone."""


class _Alone:
    """The process group of a single process."""

    rank, world = 0, 1
    signalled: Callable[[], float | None]

    has_restarted = False
    job: str | None = None

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        return [list(values)]

    def total(self, tensor: Tensor) -> Tensor:
        return tensor

    def exchange(self, value: object) -> list[Any]:
        return [value]

    def put(self, name: str, value: object) -> None:
        raise AssertionError("there is nobody to say it to")

    def take(self, name: str) -> Any:
        raise AssertionError("there is nobody to say it")

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def leave(self) -> None:
        pass

    def is_gone(self, error: BaseException) -> bool:
        return False


SINGLE_PROCESS: ProcessGroup = _Alone()


class GradientSync(Protocol):
    """How the ranks of a session share its gradients, and its weights if sharded by rows."""

    settles: bool  # its first passes, before step 1, decide the order of sums

    def micro(self, *, last: bool) -> AbstractContextManager[None]:
        """Wrap the forward and backward pass of a micro batch; `last`: the last of its window."""

    def waits(self) -> Mapping[str, float]:
        """Return the seconds, by phase, that passes waited for other ranks since the last call."""

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of all gradients, a scalar that is equal on all ranks."""


class ShardedOptimizer(Protocol):
    """Holds the optimizer, and perhaps weights, in pieces over the ranks, and makes the update.

    A piece is not a block of rows. All ranks request whole tensors in the same order.
    """

    names: tuple[str, ...]  # of the optimizer's parameters, in its order

    def update(self, loss: Tensor, gradient_clip: float) -> Tensor:
        """Clip and step; return the norm before clipping. DivergedError leaves all as it was."""

    def whole(self) -> AbstractContextManager[None]:
        """Gather the whole weights on every rank; keep what the block writes into them."""

    def shape(self, parameter: Tensor) -> torch.Size:
        """Return the shape of a parameter in the model as it was built."""

    def weight(self, parameter: Tensor) -> Tensor:
        """Return a whole trained parameter."""

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return a parameter's whole gradient of a window, before the update."""

    @property
    def steps(self) -> float:
        """Return the number of updates in the optimizer's state."""

    def moment(self, name: str, entry: str) -> Tensor:
        """Return a whole entry of the optimizer's state for a parameter."""

    def load(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Load the optimizer's state, by parameter and entry. Raises CheckpointError."""
