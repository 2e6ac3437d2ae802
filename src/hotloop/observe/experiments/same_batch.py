"""Training goes on with one batch again and again: a model that can learn fits it."""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Any, Final

from hotloop.observe.experiments.variants import Variant

if TYPE_CHECKING:
    from hotloop.observe.whatif.batch_replay import Loaders

__all__ = ["SameBatch"]

_STEPS: Final = 90  # updates on the batch
_FEWEST: Final = 30  # from which something is said


class SameBatch(Variant):
    """Each loader that feeds training serves its latest batch again and again.

    The weights are another model's afterwards, so this is the last change of all; nothing is timed.
    """

    is_last = True
    untimed_steps = _STEPS

    def __init__(self, loaders: Loaders) -> None:
        self._loaders = loaders
        loaders.keeps_pristine = True
        self._is_on = False
        self._of_step = 0.0
        self._losses: list[float] = []  # of the steps

    def prepare(self) -> str | None:
        """Look for a loader that feeds training."""
        return None if self._loaders.training else "no DataLoader was read in training"

    def switch_on(self) -> None:
        """Serve one batch."""
        self._is_on = self._loaders.replay = self._loaders.one_batch = True

    def switch_off(self) -> None:
        """Read again."""
        self._is_on = self._loaders.replay = self._loaders.one_batch = False

    def note_backward(self, tensors: Any) -> None:
        """Add the losses of a backward pass to those of the step."""
        torch: Any = sys.modules["torch"]
        if self._is_on:
            roots = tensors if isinstance(tensors, list | tuple) else [tensors]
            losses = [float(root.detach().sum()) for root in roots if torch.is_tensor(root)]
            self._of_step += sum(losses)

    def ended_step(self) -> None:
        """Keep the loss of the step."""
        if self._is_on:
            self._losses.append(self._of_step)
            self._of_step = 0.0

    @property
    def losses(self) -> tuple[float, float] | None:
        """Return the loss of the first and of the last third of the steps; None: they are few."""
        third = len(self._losses) // 3
        if len(self._losses) < _FEWEST:
            return None
        return statistics.median(self._losses[:third]), statistics.median(self._losses[-third:])

    @property
    def steps(self) -> int:
        """Return how many steps were made."""
        return len(self._losses)
