"""Record a session's steps, prove a replay against an eager pass, and keep it if it is faster."""

from __future__ import annotations

import gc
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from hotloop.engine.apply_plan import in_one_line, nothing_stays
from hotloop.engine.checkpoint.state import rng_state
from hotloop.engine.graphs.recorded_steps import RecordedSteps
from hotloop.engine.graphs.recording import CudaRecording
from hotloop.engine.timed_passes import MOST, PassRates, eager_seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hotloop.engine.graphs.recording import Recording
    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["BATCHES", "TrialOutcome", "record"]

ID: Final = "cuda-graphs"
RECOMPUTING: Final = "activation-checkpointing"
BATCHES: Final = 8  # first micro batches of a run that are looked at
_VERDICT, _REPLAYED = "the steps", "replayed"  # an entry of what was decided, besides the shapes
# Rounding of bf16, by which kernels that add in changing order may differ.
_EPS: Final = 2.0**-8
_TINY: Final = 1e-12  # in place of a loss or norms of 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """Why steps are not replayed; both None: they are."""

    failure: str | None = None
    needless: str | None = None


def record(
    session: Session, batches: Sequence[Batch], *, recording: Recording | None = None
) -> TrialOutcome:
    """Record the steps of a session from its first micro batches, if that works and pays.

    Weights, buffers and the random state are as before, and gradients are cleared. Without a
    recording the run stays eager. Whether replays are faster is measured once; a resumed run does
    as the first.
    """
    decided = session.stepping.decided
    if decided.get(_VERDICT, _REPLAYED) != _REPLAYED:
        _give_up(session)
        return TrialOutcome(needless=decided[_VERDICT])
    try:
        rates = _rates(session, batches, recording or CudaRecording())
    except RuntimeError as error:
        traceback.clear_frames(error.__traceback__)
        _give_up(session)
        return TrialOutcome(failure=in_one_line(error))
    if rates is None:
        return TrialOutcome()
    if session.stepping.graphs == "faster" and not rates.is_faster:
        decided[_VERDICT] = str(rates)
        _give_up(session)
        return TrialOutcome(needless=decided[_VERDICT])
    decided[_VERDICT], session.facts[ID] = _REPLAYED, str(rates)
    return TrialOutcome()


def _rates(session: Session, batches: Sequence[Batch], recording: Recording) -> PassRates | None:
    """Record, prove and time the steps; without a time if an earlier part of the run has it.

    Eager passes come first: their memory is gone when that of the recording is taken.
    """
    is_timed = _VERDICT not in session.stepping.decided
    with nothing_stays(session):
        steps = session.stepping.replay = RecordedSteps(session, recording)
        alike = steps.alike(batches)
        one, raced = alike[-1], alike[:MOST]
        steps.prepare(one)
        _refuse_redrawn(session, steps, one)
        eager = [_numbers(session, steps, steps.eager, one) for _ in range(2)]
        eager_pass = eager_seconds(session, raced) if is_timed else 0.0
        steps.add(alike[0])
        _refuse_other(_numbers(session, steps, steps.micro, one), *eager)
        if not is_timed:
            return None
        replayed = _replayed_seconds(session, steps, raced)
        return PassRates(other=1 / replayed, eager=1 / eager_pass)


def _give_up(session: Session) -> None:
    session.undo.pop(ID)()
    session.model.zero_grad(set_to_none=True)
    gc.collect()  # recordings are in cycles with the steps
    if session.device.type == "cuda":
        torch.cuda.empty_cache()  # of their pool


def _numbers(
    session: Session,
    steps: RecordedSteps,
    of: Callable[[Batch, float], Tensor | None],
    batch: Batch,
) -> Tensor:
    """Return the loss and the norm of each gradient of a pass; the gradients are zero again."""
    devices = [session.device] if session.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(0)  # dropout draws the same in all passes
        steps.begin()
        loss = of(batch, 1.0)
    assert loss is not None
    grads = [p.grad for p in session.model.parameters() if p.grad is not None]
    norms = torch.stack(torch._foreach_norm(grads)).float()
    torch._foreach_zero_(grads)
    return torch.cat([loss.reshape(1).float(), norms])


def _refuse_redrawn(session: Session, steps: RecordedSteps, batch: Batch) -> None:
    """Raise RuntimeError if layers that are computed again draw random numbers.

    Outside of a recording the generator is set back for the second time. In one it draws from where
    it stands (aten/src/ATen/cuda/CUDAGeneratorImpl.cpp, torch 2.11): the masks would be others.
    """
    if RECOMPUTING not in session.undo:
        return
    devices = [session.device] if session.device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        before = rng_state(session.device)
        steps.eager(batch, 1.0)
        after = rng_state(session.device)
    session.model.zero_grad(set_to_none=False)
    if any(not torch.equal(before[name], after[name]) for name in before):
        raise RuntimeError(
            "dropout of layers that are computed again would be drawn anew in a recording"
        )


def _refuse_other(replayed: Tensor, one: Tensor, another: Tensor) -> None:
    """Raise RuntimeError if a replay gives another loss or other gradients than eager passes.

    Its batch is not the one that was recorded, if there is another of its shape: what a recording
    has kept of the first would show.
    """
    noise, apart = _distance(one, another), _distance(one, replayed)
    if apart > max(4 * noise, _EPS):
        raise RuntimeError(
            f"a replay differs from an eager pass by {apart:.2g} of loss and gradients, two eager "
            f"passes by {noise:.2g}"
        )


def _distance(one: Tensor, other: Tensor) -> float:
    """Return the larger relative distance of the losses and of the gradients' norms."""
    loss = (one[0] - other[0]).abs() / one[0].abs().clamp(min=_TINY)
    norms = (one[1:] - other[1:]).norm() / one[1:].norm().clamp(min=_TINY)
    return float(torch.maximum(loss, norms))


def _replayed_seconds(session: Session, steps: RecordedSteps, batches: Sequence[Batch]) -> float:
    """Return the seconds of a replayed pass."""

    def pass_over(window: Sequence[Batch]) -> None:
        steps.begin()
        for batch in window:
            steps.micro(batch, 1.0)

    return seconds(session, batches, pass_over)
