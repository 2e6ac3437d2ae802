"""Listener, what the doors call."""

from __future__ import annotations

from typing import Any, Protocol

__all__ = ["Listener"]


class Listener(Protocol):
    """Who is told. Calls cost time, so most of them come only while `Doors.look` is set."""

    def built_loader(self, loader: Any) -> None:
        """A DataLoader was built; its options may still be changed in place."""

    def asked(self, loader: Any) -> None:
        """An iterator of the loader is asked for; none is built yet."""

    def iterating(self, loader: Any, iterator: Any) -> int:
        """Return the loader's number; an iterator for it was built, and begins an epoch."""

    def epoch(self, loader: Any) -> None:
        """The loader's iterator, which is persistent, begins its next epoch."""

    def took(self, number: int, batch: Any) -> None:
        """A loader gave a batch (while looking)."""

    def root(self, module: Any) -> int:
        """Return the module's number; it is the outermost one, called for the first time."""

    def arriving(self, module: Any) -> None:
        """An outermost module is about to run with gradients for the first time."""

    def passed(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """An outermost module was called (while looking)."""

    def inside(self, module: Any, args: Any, kwargs: Any) -> None:
        """A module inside the outermost one is called (while looking)."""

    def left(self, module: Any, output: Any) -> None:
        """Its call is over (while looking)."""

    def loss(self, tensors: Any) -> None:
        """Backward begins from these (while looking)."""

    def built_optimizer(self, optimizer: Any) -> None:
        """An optimizer was built."""

    def updates(self, optimizer: Any) -> int:
        """Return the optimizer's number; it is stepped for the first time."""

    def stepped(self) -> None:
        """An optimizer was stepped, and `Doors.wake` steps have been made."""

    def built_scheduler(self, scheduler: Any) -> None:
        """A learning-rate scheduler was built."""

    def built_scaler(self, scaler: Any) -> None:
        """A gradient scaler was built."""

    def saved(self, thing: Any, path: Any, seconds: float) -> None:
        """A file was saved."""
