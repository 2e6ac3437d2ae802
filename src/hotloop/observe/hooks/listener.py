"""Who learns what a script does: the listener of the hooks, and the probes behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.core.case.case import Case

__all__ = ["Listener", "Probe"]


class Listener(Protocol):
    """Receives the calls of the hooks. They cost time: most come only while `Hooks.look` is set.

    If a method returns a number, the hooks put it into their marks.
    """

    def on_loader_built(self, loader: Any) -> None:
        """Take a new DataLoader; its options may still be changed in place."""

    def on_iterator_requested(self, loader: Any) -> None:
        """Take a loader whose iterator is about to be built."""

    def on_iterator_created(self, loader: Any, iterator: Any) -> int:
        """Return the loader's number; `iterator` was built for it and begins an epoch."""

    def on_epoch(self, loader: Any) -> None:
        """Take a loader whose persistent iterator begins its next epoch."""

    def on_batch(self, number: int, batch: Any) -> None:
        """Take a batch of a loader (while looking)."""

    def on_root_module(self, module: Any) -> int:
        """Return the number of an outermost module, at its first call."""

    def before_first_forward(self, module: Any) -> None:
        """Take an outermost module before its first call with gradients."""

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Take the call of an outermost module (while looking)."""

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Take the call of a module inside the outermost one, before it runs (while looking)."""

    def on_inner_return(self, module: Any, output: Any) -> None:
        """Take the output of that call (while looking)."""

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Take the tensors from which a pass begins, before it runs (while looking).

        `adds_up`: it adds gradients to those of the weights, as autograd.grad does not.
        """

    def on_optimizer_built(self, optimizer: Any) -> None:
        """Take a new optimizer."""

    def on_optimizer_first_step(self, optimizer: Any) -> int:
        """Return the optimizer's number, before its first step."""

    def after_step(self) -> None:
        """Look at the run after an optimizer step, once `Hooks.wake` updates have been made."""

    def on_scheduler_built(self, scheduler: Any) -> None:
        """Take a new learning-rate scheduler."""

    def on_scaler_built(self, scaler: Any) -> None:
        """Take a new gradient scaler."""

    def on_save(self, saved: Any, path: Any, seconds: float) -> None:
        """Take a saved object, its file and the seconds that the save took."""


class Probe:
    """Looks closely at one thing. Inherit from it, and define the events that matter."""

    def on_torch_imported(self) -> None:
        """Begin, after torch has been imported and the hooks have been installed."""

    def on_loader_built(self, loader: Any) -> None:
        """Take a new DataLoader; its options may still be changed in place."""

    def on_iterator_requested(self, loader: Any) -> None:
        """Take a loader whose iterator is about to be built."""

    def on_iterator_created(self, loader: Any, iterator: Any) -> None:
        """Take an iterator that was built for a loader."""

    def on_epoch(self, loader: Any) -> None:
        """Take a loader that begins an epoch, with a new iterator or with its persistent one."""

    def on_batch(self, number: int, batch: Any) -> None:
        """Take a batch of the loader with this number (while looking)."""

    def on_root_module(self, number: int, module: Any) -> None:
        """Take an outermost module and its number, at its first call."""

    def before_first_forward(self, module: Any) -> None:
        """Take an outermost module before its first call with gradients."""

    def after_forward(self, number: int, module: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Take the call of an outermost module (while looking)."""

    def on_inner_call(self, module: Any, args: Any, kwargs: Any) -> None:
        """Take the call of a module inside the outermost one, before it runs (while looking)."""

    def on_inner_return(self, module: Any, output: Any) -> None:
        """Take the output of that call (while looking)."""

    def on_backward(self, tensors: Any, adds_up: bool) -> None:
        """Take the tensors from which a pass begins, before it runs (while looking).

        `adds_up`: it adds gradients to those of the weights, as autograd.grad does not.
        """

    def on_optimizer_built(self, optimizer: Any) -> None:
        """Take a new optimizer."""

    def on_optimizer_first_step(self, optimizer: Any) -> None:
        """Take an optimizer before its first step."""

    def after_step(self, updates: int) -> None:
        """Look at the run after this many updates."""

    def add_to(self, case: Case) -> Case:
        """Return the case of a run that is over with what the probe has measured."""
        return case


hide(globals())
