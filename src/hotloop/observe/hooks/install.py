"""Puts all doors up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.observe.hooks import module_hooks, training_hooks
from hotloop.observe.hooks.hooks import unseen
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["install"]


def install(doors: Hooks) -> None:
    """Put up all doors; torch has been imported."""
    unseen(doors.guarded, below=True)
    unseen(doors.quietly, below=True)
    training_hooks.loaders(doors)
    module_hooks.modules(doors)
    training_hooks.backward(doors)
    training_hooks.optimizers(doors)
    training_hooks.others(doors)


hide(globals())
