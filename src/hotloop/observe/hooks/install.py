"""Installs all hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.observe.hooks import module_hooks, training_hooks
from hotloop.observe.hooks.hooks import unseen
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from hotloop.observe.hooks.hooks import Hooks

__all__ = ["install"]


def install(hooks: Hooks) -> None:
    """Install all hooks, after torch has been imported."""
    unseen(hooks.guarded, below=True)
    unseen(hooks.quietly, below=True)
    training_hooks.loaders(hooks)
    module_hooks.modules(hooks)
    training_hooks.backward(hooks)
    training_hooks.optimizers(hooks)
    training_hooks.others(hooks)


hide(globals())
