"""Steps of a training that are replayed as CUDA graphs: passes of micro batches, and updates.

A pass reads its batch from fixed memory and adds to gradients that stay in place, so that
accumulation works. torch's `make_graphed_callables` would return one gradient buffer twice
(pytorch issues 96693, 169545). Each shape is recorded when it comes: an eager pass would need its
activations' memory beside that of the recordings. Batches run eagerly where there are too many
shapes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from hotloop.engine.apply_plan import nothing_stays
from hotloop.engine.graphs.fixed_inputs import FixedInputs, Shapes
from hotloop.engine.step import is_out_of_memory, update_quickly
from hotloop.models.adapters.held import FixedAdapters
from hotloop.models.trainable_parameters import Gradients

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hotloop.engine.graphs.fixed_inputs import Shape
    from hotloop.engine.graphs.recording import Recording
    from hotloop.engine.step import NonFiniteGuard
    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["RecordedSteps"]

MOST: Final = 32  # shapes that are recorded; each graph takes some megabytes
FAILURES: Final = 4  # recordings that may fail before no other is tried
_RECORDED, _EAGER = "recorded", "eager"  # what was decided for a shape


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pass:
    """The forward and backward pass of one shape."""

    inputs: FixedInputs
    replay: Callable[[], object]
    loss: Tensor  # weighted; the next replay writes over it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Update:
    """The update: norm, clipping, optimizer and new zeros in the gradients."""

    replay: Callable[[], object]
    loss: Tensor
    rates: Sequence[Tensor]  # learning rates of the parameter groups
    norm: Tensor


class RecordedSteps:
    """Replays the steps of a session; a `session.RecordedStepping`.

    `session.stepping.decided` keeps which shapes were recorded, so that a resumed run replays the
    same ones.
    """

    def __init__(self, session: Session, recording: Recording) -> None:
        """Give each trained parameter a gradient that stays in place."""
        job = session.job
        widest = None if job.widest is None else job.widest(session.micro_batch)
        self._session, self._recording = session, recording
        self._fillers, self._shapes = job.fillers, Shapes(job.fillers, widest)
        self._adapters = FixedAdapters(session.model)
        if job.learns_all:
            Gradients(session.model)  # begins to watch shares of adapters, which is then recorded
        self._weight = torch.ones((), device=session.device)
        self._inputs: dict[Shape, FixedInputs] = {}
        self._passes: dict[Shape, _Pass] = {}
        self._begin: Callable[[], object] | None = None
        self._update: _Update | None = None
        self._updates = 0  # made eagerly
        for parameter in session.model.parameters():
            if parameter.requires_grad:  # backward adds to it in place
                parameter.grad = torch.zeros_like(parameter)

    def prepare(self, batch: Batch) -> None:
        """Take the memory from which batches of this shape are read."""
        shape = self._shapes.of(batch)
        if shape not in self._inputs:
            self._inputs[shape] = FixedInputs(shape, self._fillers, self._session.device)

    def add(self, batch: Batch) -> None:
        """Record the passes of batches of this shape. Gradients must be zero, and are after it."""
        session, shape = self._session, self._shapes.of(batch)
        self.prepare(batch)
        inputs = self._inputs[shape]
        inputs.load(batch)
        once = partial(self._computed, inputs)
        with nothing_stays(session):
            if self._begin is None:
                replay, loss = self._recording(once)
                self._adapters.refresh()
                self._begin = self._recording.record(self._refreshed)[0]
            else:
                try:
                    replay, loss = self._recording.record(once)
                except RuntimeError:
                    replay, loss = self._recording(once)
            self._passes[shape] = _Pass(inputs=inputs, replay=replay, loss=loss)
        session.stepping.decided[str(shape)] = _RECORDED

    def alike(self, batches: Sequence[Batch]) -> list[Batch]:
        """Return those of the batches that have the commonest shape."""
        shapes = [self._shapes.of(batch) for batch in batches]
        commonest = max(shapes, key=shapes.count)
        return [b for b, shape in zip(batches, shapes, strict=True) if shape == commonest]

    def ready(self, window: Sequence[Batch]) -> None:
        """Record the shapes of the window that are new. Gradients must be zero."""
        decided = self._session.stepping.decided
        for batch in window:
            shape = self._shapes.of(batch)
            if shape in self._passes or decided.get(str(shape)) == _EAGER:
                continue
            failed = [*decided.values()].count(_EAGER)
            if (len(self._passes) < MOST and failed < FAILURES) or str(shape) in decided:
                self._try(batch, shape)

    def begin(self) -> None:
        """Prepare the adapters from their parameters of now."""
        if self._begin is not None:
            self._begin()

    def micro(self, batch: Batch, weight: float) -> Tensor | None:
        """Add the gradients of `weight` times the loss; return that product, a scalar.

        Return None if the batch's shape is not recorded.
        """
        found = self._passes.get(self._shapes.of(batch))
        if found is None:
            return None
        self._weight.fill_(weight * found.inputs.load(batch))
        found.replay()
        return found.loss.clone()

    def eager(self, batch: Batch, weight: float) -> Tensor:
        """Do what `micro` does, for a prepared shape, without its recording."""
        inputs = self._inputs[self._shapes.of(batch)]
        self._weight.fill_(weight * inputs.load(batch))
        return self._computed(inputs)

    def update(self, guard: NonFiniteGuard, loss: Tensor, gradient_clip: float) -> Tensor | None:
        """Update the weights and zero the gradients; return their norm, a scalar.

        Return None where it must be made eagerly: at first, and where the host reads numbers.
        """
        quick = guard.quick
        if quick is None or not guard.on_device or not quick.is_ready:
            return None
        self._updates += 1
        if self._updates == 2:  # the first one has loaded the kernels
            with contextlib.suppress(RuntimeError):
                self._update = self._recorded_update(guard, loss, gradient_clip)
        if (made := self._update) is None:
            return None
        for rate, options in zip(made.rates, quick.groups, strict=True):
            rate.fill_(options["lr"])
        made.loss.copy_(loss)
        quick.hooked(made.replay)
        return made.norm.clone()

    def _try(self, batch: Batch, shape: Shape) -> None:
        try:
            self.add(batch)
        except RuntimeError as error:
            self._session.stepping.decided[str(shape)] = _EAGER
            if is_out_of_memory(error):
                torch.cuda.empty_cache()

    def _computed(self, inputs: FixedInputs) -> Tensor:
        """Add the gradients of a batch; return its weighted loss."""
        session = self._session
        with self._adapters.used():
            loss = session.forward(inputs.arguments) * self._weight
            (session.scaler.scale(loss) if session.scaler else loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _refreshed(self) -> Tensor:
        self._adapters.refresh()
        return self._weight

    def _recorded_update(self, guard: NonFiniteGuard, loss: Tensor, clip: float) -> _Update:
        quick = guard.quick
        assert quick is not None
        gradients = quick.gradients()
        assert gradients is not None  # they stay in place
        held, device = loss.clone(), self._session.device
        rates = [torch.tensor(float(group["lr"]), device=device) for group in quick.groups]

        def once() -> Tensor:
            norm = update_quickly(guard, quick, gradients, held, clip, rates=rates)
            torch._foreach_zero_(gradients)
            return norm

        replay, norm = self._recording.record(once)
        return _Update(replay=replay, loss=held, rates=rates, norm=norm)
