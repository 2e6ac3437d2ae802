"""Shows by NaN whether a training depends on the result of a line, or on the gradient of it.

For two steps the result (or its gradient) is NaN. If losses and weights stay finite, nothing that
trains depends on it. Weights, optimizer states and buffers are restored afterwards.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from hotloop.observe.experiments.live_modules import buffers

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from hotloop.observe.experiments.lines import Lines, Mode

__all__ = ["POISONED", "Need", "Proofs"]

Need = Literal["unused", "gradient unused", "needed"]

POISONED = 2  # steps with NaN
_WARM, _PATIENCE = 3, 300  # steps before the first line is tried; until all lines were reached


class Proofs:
    """Follows the steps of a script and tries lines one after another."""

    def __init__(
        self, lines: Lines, numbers: Sequence[int], optimizers: Callable[[], list[Any]]
    ) -> None:
        self.needs: dict[int, Need] = {}
        self.broken: str | None = None  # why no further step is of use
        self._lines, self._numbers, self._optimizers = lines, numbers, optimizers
        self._losses: list[float] | None = None
        self._flow = self._try_lines()
        next(self._flow, None)

    def note_loss(self, tensors: Any) -> None:
        """Look at the loss while a line is tried."""
        import torch

        if self._losses is not None:
            roots = tensors if isinstance(tensors, list | tuple) else [tensors]
            losses = [root for root in roots if isinstance(root, torch.Tensor)]
            self._losses += [float(loss.detach().sum()) for loss in losses]

    def ended_step(self) -> bool:
        """Note the end of a step; return whether further steps are needed."""
        try:
            next(self._flow)
        except StopIteration:
            return False
        return True

    def _try_lines(self) -> Generator[None]:
        yield
        left = [number for number in self._numbers if number not in self._lines.problems]
        for step in range(_PATIENCE if left else 0):
            yield
            if step >= _WARM:
                left = [number for number in left if not self._lines.has_loop(number)]
                if all(map(self._lines.is_kept, left)):
                    break
        for number in filter(self._lines.is_kept, left):
            self.needs[number] = "needed"
            kinds: tuple[tuple[Mode, Need], ...]
            kinds = (("poison", "unused"), ("poison gradient", "gradient unused"))
            for mode, need in kinds:
                if (yield from self._stays_finite(number, mode)):
                    self.needs[number] = need
                    break
            if self.broken is not None:
                return

    def _stays_finite(self, number: int, mode: Mode) -> Generator[None, None, bool]:
        state = _State(self._optimizers())
        self._lines.modes[number], self._losses = mode, []
        for _ in range(POISONED):
            yield
        self._lines.modes[number] = "live"
        finite = all(map(math.isfinite, self._losses)) and state.is_finite()
        self._losses = []
        if not finite:
            state.restore()
            yield
            if not all(map(math.isfinite, self._losses)):
                self.broken = "the script keeps NaN in a place that cannot be restored"
        self._losses = None
        return finite


class _State:
    """The weights, optimizer states and buffers of this process."""

    def __init__(self, optimizers: list[Any]) -> None:
        import torch

        weights = [
            parameter
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        ]
        states = [
            value
            for optimizer in optimizers
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        self._weights = weights
        tensors = {id(t): t.detach() for t in [*weights, *states, *buffers()]}
        self._kept = [(tensor, tensor.clone()) for tensor in tensors.values()]

    def is_finite(self) -> bool:
        """Whether all weights are finite."""
        return all(bool(weight.detach().isfinite().all()) for weight in self._weights)

    def restore(self) -> None:
        """Write the kept values back."""
        import torch

        with torch.no_grad():
            for tensor, value in self._kept:
                tensor.copy_(value)
