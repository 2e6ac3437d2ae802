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
    """The processes that train together; collective calls are made by all, in the same order."""

    rank: int
    world: int
    has_restarted: bool  # whether torchrun started this group after another one, for the same run
    job: str | None  # a name of what starts the group anew; None where nothing does
    signalled: Callable[[], float | None]  # seconds since a signal came; None: none did

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return the numbers of every rank, in order; each gives as many. The device goes on."""
        ...

    def total(self, tensor: Tensor) -> Tensor:
        """Add up a tensor over all ranks, in place on its device."""
        ...

    def exchange(self, value: object) -> list[Any]:
        """Return the JSON values of every rank, in order; for what happens seldom."""
        ...

    def put(self, name: str, value: object) -> None:
        """Say a JSON value under a name; from any thread."""
        ...

    def take(self, name: str) -> Any:
        """Return what another rank says under a name, once it is said; from any thread."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Have a block fail on every rank where it fails on one, and tell it once."""
        ...

    def leave(self) -> None:
        """Wait for no other rank any more: this one cannot keep step."""
        ...

    def is_gone(self, error: BaseException) -> bool:
        """Whether an error says that another process of the group is gone."""
        ...


class _Alone:
    """One process: it is all ranks."""

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
    """How the ranks of a session share its gradients, and its weights where these are in rows."""

    settles: bool  # its first passes decide the order of sums: then they come before step 1

    def micro(self, *, last: bool) -> AbstractContextManager[None]:
        """Hold the forward and backward pass of a micro batch; `last` is of its window."""
        ...

    def waits(self) -> Mapping[str, float]:
        """Return what passes waited for other ranks since the last call, seconds by phase."""
        ...

    def norm(self, gradients: list[Tensor]) -> Tensor:
        """Return the norm of all gradients, a scalar that is the same on every rank."""
        ...


class ShardedOptimizer(Protocol):
    """Keeps the optimizer, and perhaps weights, in pieces over the ranks, and makes the update.

    A piece is no part by rows. What asks for whole tensors is asked by all ranks, in one order.
    """

    names: tuple[str, ...]  # of the optimizer's parameters, in its order

    def update(self, loss: Tensor, gradient_clip: float) -> Tensor:
        """Clip and step; return the norm of all gradients before. DivergedError changes nothing."""
        ...

    def whole(self) -> AbstractContextManager[None]:
        """Have the weights whole on every rank, and take over what is written into them."""
        ...

    def shape(self, parameter: Tensor) -> torch.Size:
        """Return the shape of a parameter as the model was built."""
        ...

    def weight(self, parameter: Tensor) -> Tensor:
        """Return a trained parameter, whole."""
        ...

    def gradient(self, parameter: Tensor) -> Tensor | None:
        """Return a parameter's gradient of a window, before the update, whole."""
        ...

    @property
    def steps(self) -> float:
        """Return how many updates the optimizer's state is of."""
        ...

    def moment(self, name: str, entry: str) -> Tensor:
        """Return an entry of the optimizer's state of a parameter, whole."""
        ...

    def load(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Take over the optimizer's state, by parameter and entry. Raises CheckpointError."""
        ...
