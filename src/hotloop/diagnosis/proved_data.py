"""Compares the data of a run with those that its plan was proved on, once training begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.core.proved_run import data_identity, other_data
from hotloop.observe.hooks.describe import length_of, whole
from hotloop.observe.hooks.listener import Probe
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ProvedData"]


class ProvedData(Probe):
    """A probe that looks at the first loader that training reads."""

    def __init__(self, proved: Mapping[str, str], tell: Callable[[str], None]) -> None:
        """Compare with the run `proved` (core/proved_run.py); `tell` gets a difference."""
        self._proved, self._tell = proved, tell
        self._has_looked = False

    def on_epoch(self, loader: Any) -> None:
        """Compare the data of the first loader that is read with gradients."""
        from torch import is_grad_enabled

        if self._has_looked or not is_grad_enabled():
            return
        self._has_looked = True
        here = data_identity([(type(whole(loader.dataset)).__name__, length_of(loader.dataset))])
        if (note := other_data(self._proved, here)) is not None:
            self._tell(note)


hide(globals())
