"""Shows by NaN whether a training can depend on the result of a line, or on the gradient of it.

For two steps the result (or the gradient that arrives at it) is NaN. If all losses and weights stay
finite, and no operator made something else of NaN (a choice, a comparison, a number that is read),
nothing that trains depends on it. A line that computes without a graph must leave all weights the
gradients that they had. Weights, optimizer states and buffers are restored afterwards.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Literal

from hotloop.observe.experiments.live_modules import buffers
from hotloop.observe.ledger.dispatch import dispatch_mode
from hotloop.observe.probes.module_calls import tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import CodeType, FrameType

    from hotloop.observe.experiments.lines import Lines, Mode

__all__ = ["POISONED", "Need", "Proofs"]

Need = Literal["unused", "gradient unused", "needed"]

POISONED = 2  # steps with NaN
_WARM, _PATIENCE = 3, 300  # steps before the first line is tried; until all lines were reached


class Proofs:
    """Follows the steps of a script and tries lines one after another."""

    def __init__(
        self,
        lines: Lines,
        numbers: Sequence[int],
        optimizers: Callable[[], list[Any]],
        *,
        stepped: Callable[[], list[Any]] | None = None,
    ) -> None:
        """`optimizers` returns those that exist, `stepped` those that the last step has used."""
        self.needs: dict[int, Need] = {}
        self.broken: str | None = None  # why no further step is of use
        self.passes: set[tuple[CodeType, int]] = set()  # where backward passes are started
        self._lines, self._numbers, self._optimizers = lines, numbers, optimizers
        self._stepped = stepped or optimizers
        self._losses: list[float] | None = None
        self._tried: tuple[int, _State, NanWatch | None] | None = None  # now
        self._flow = self._try_lines()
        next(self._flow, None)

    @property
    def tried_now(self) -> int | None:
        """Return the line that is tried now."""
        return None if self._tried is None else self._tried[0]

    def note_backward(self, tensors: Any) -> None:
        """Note where a backward pass is started; look at its loss while a line is tried."""
        import torch

        self.passes.add(_outside_torch())
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
        for step in range(_PATIENCE if left else _WARM):
            yield
            if step >= _WARM:
                left = [number for number in left if not self._lines.has_loop(number)]
                if all(map(self._lines.is_kept, left)):
                    break
        for number in filter(self._lines.is_kept, left):
            self.needs[number] = "needed"
            if self._lines.is_floating(number) and (yield from self._can_be_nan(number, "poison")):
                self.needs[number] = "unused"
            elif (
                self._lines.has_gradient(number)
                and (yield from self._can_be_nan(number, "poison gradient"))
                and (yield from self._trains_the_same(number))
            ):
                self.needs[number] = "gradient unused"
            if self.broken is not None:
                return

    def give_up(self) -> None:
        """Take back what is tried now; no further step is made."""
        if self._tried is not None:
            number, state, watch = self._tried
            self._lines.modes[number] = "live"
            if watch is not None:
                watch.stop()
            state.restore()
        self._tried = self._losses = None
        self._flow.close()

    def _can_be_nan(self, number: int, mode: Mode) -> Generator[None, None, bool]:
        state, watch = _State(self._optimizers()), NanWatch() if mode == "poison" else None
        self._tried = number, state, watch
        self._lines.poison(number, mode, POISONED)
        self._losses = []
        if watch is not None:
            watch.start()
        for _ in range(POISONED):
            yield
        if watch is not None:
            watch.stop()
        stayed = self._lines.modes[number] == mode  # else the script left out steps
        self._lines.modes[number], self._tried = "live", None
        has_loss, finite = bool(self._losses), all(map(math.isfinite, self._losses))
        finite = finite and state.is_finite()
        self._losses = []
        if not finite or not stayed:
            state.restore()
            yield
            if not all(map(math.isfinite, self._losses)):
                self.broken = "the script keeps NaN in a place that cannot be restored"
        self._losses = None
        return finite and stayed and has_loss and (watch is None or not watch.absorbed)

    def _trains_the_same(self, number: int) -> Generator[None, None, bool]:
        """Whether all weights have the gradients that they had, if a line makes no graph."""
        usual = self._with_gradients()
        state = _State(self._optimizers())
        self._tried = number, state, None
        self._lines.modes[number] = "no gradient"
        yield
        self._lines.modes[number], self._tried = "live", None
        return usual == self._with_gradients()

    def _with_gradients(self) -> set[int]:
        groups = [group for optimizer in self._stepped() for group in optimizer.param_groups]
        return {id(p) for group in groups for p in group["params"] if p.grad is not None}


class NanWatch:
    """Sees operators that take NaN and return none of it: choices, comparisons, numbers."""

    def __init__(self) -> None:
        self.absorbed = False
        self._mode = dispatch_mode(self._run)

    def start(self) -> None:
        """Begin to watch."""
        self._mode.__enter__()

    def stop(self) -> None:
        """Watch no more."""
        self._mode.__exit__(None, None, None)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        came = _has_nan((args, kwargs))
        result = func(*args, **kwargs)
        self.absorbed = self.absorbed or (came and not _has_nan(result))
        return result


def _has_nan(value: Any) -> bool:
    return any(
        bool(tensor.isnan().any()) for tensor in tensors(value) if tensor.is_floating_point()
    )


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


def _outside_torch() -> tuple[CodeType, int]:
    """Return where the script, or a library of its own, starts the backward pass that runs."""
    frame = sys._getframe(3)
    while frame.f_back is not None and _is_of_torch(frame):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _is_of_torch(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).split(".")[0] == "torch"
