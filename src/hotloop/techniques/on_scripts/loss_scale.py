"""Scales a script's loss before backward() and unscales the gradients after it.

The script sees unscaled gradients, so it may clip, print or accumulate them. A step whose gradients
overflow is skipped, as torch.amp.GradScaler does; see
https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling (2026-11).
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["LossScale"]

# GradScaler's own defaults. Powers of two: scaling and unscaling round nothing in float32.
FIRST, LEAST, MOST, GROWS_AFTER = 2.0**16, 1.0, 2.0**24, 2000


class LossScale:
    """The loss scale that all networks of a script share."""

    def __init__(self, troubles: list[str], scale: float = FIRST) -> None:
        self.scale, self._troubles = scale, troubles
        self._parameters: list[weakref.ref[Any]] = []
        self._good = 0  # steps since the scale was changed
        self._overflowed = False
        self._held: list[tuple[Any, Any]] = []  # parameters and gradients, during a skipped step

    def watch(self, parameters: Iterable[Any]) -> None:
        """Add parameters whose gradients are to be unscaled."""
        self._parameters += [weakref.ref(tensor) for tensor in parameters]

    def __call__(self, run: Callable[[Any], None], loss: Any) -> None:
        """Run the backward pass of `loss` with scaling; `run(loss)` is the plain backward pass.

        A loss of more than one element is not scaled.
        """
        one = loss[0] if isinstance(loss, list | tuple) and len(loss) == 1 else loss
        if getattr(one, "numel", lambda: 0)() != 1:
            run(loss)
            return
        import torch

        if there := self._gradients():
            torch._foreach_mul_(there, self.scale)
        run(one * self.scale)
        gradients = self._gradients()
        if gradients and not self._unscale(gradients):
            self._overflowed = True
            torch._foreach_zero_(gradients)

    def _gradients(self) -> list[Any]:
        alive = (ref() for ref in self._parameters)
        return [p.grad for p in alive if p is not None and p.grad is not None]

    def _unscale(self, gradients: list[Any]) -> bool:
        """Divide by the scale; return whether all are finite. Waits for the GPU, as step() does."""
        import torch

        torch._foreach_mul_(gradients, 1 / self.scale)
        norms = torch._foreach_norm(gradients)
        return bool(torch.isfinite(torch.stack([n.float() for n in norms])).all())

    def before(self, optimizer: Any, *_: Any) -> None:
        """Remove the gradients before a step that must be skipped, so that it changes nothing."""
        if self._overflowed:
            tensors = [t for group in optimizer.param_groups for t in group["params"]]
            self._held = [(t, t.grad) for t in tensors if t.grad is not None]
            for tensor, _ in self._held:
                tensor.grad = None

    def after(self, optimizer: Any, *_: Any) -> None:
        """Restore the removed gradients, which are zeros, and update the scale."""
        del optimizer
        for tensor, gradient in self._held:
            tensor.grad = gradient
        self._held = []
        if self._overflowed:
            at_least = " at the least scale" if self.scale == LEAST else ""
            self._troubles.append(f"a step whose gradients overflowed was left out{at_least}")
            self.scale, self._good = max(LEAST, self.scale / 2), 0
        else:
            self._good += 1
            if self._good >= GROWS_AFTER:
                self.scale, self._good = min(MOST, self.scale * 2), 0
        self._overflowed = False


hide(globals())
