"""One optimizer step: forward and backward over a window of micro batches, then the update."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from hotloop.core.errors import DivergedError
from hotloop.engine.fused_update import FusedStep, total_norm
from hotloop.machine.copy_stream import pinned
from hotloop.models.row_sharded import is_sharded, local

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from hotloop.engine.wall_time import WallTime
    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = [
    "NonFiniteGuard",
    "accumulate",
    "accumulate_shared",
    "drop_gradients",
    "halve_micro_batch",
    "is_out_of_memory",
    "refuse_collapse",
    "to_device",
    "update",
    "update_quickly",
]

_CLIP_EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_, torch 2.13
# Of the CPU's allocator, the libraries, and CUDA's own calls (torch.AcceleratorError).
_NO_MEMORY = (
    "can't allocate memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
)
SMALLEST_SCALE = 1.0  # an fp16 loss scale below this no longer keeps small gradients


def to_device(batch: Batch, device: torch.device) -> dict[str, Any]:
    """Return the batch's tensors on the device, together with the arguments of `Batch.beside`.

    On CUDA the tensors are copied from pinned memory, without a wait.
    """
    if device.type == "cpu":
        return {**batch.tensors, **batch.beside(device)}
    pins = device.type == "cuda"
    tensors = {
        name: tensor
        if tensor.device.type == device.type  # it was prefetched
        else pinned(tensor, device).to(device, non_blocking=pins)
        for name, tensor in batch.tensors.items()
    }
    return {**tensors, **batch.beside(device)}


def drop_gradients(session: Session) -> None:
    """Drop the gradients; the buffers of a recorded CUDA graph stay in place and are zeroed."""
    assert session.optimizer is not None
    session.optimizer.zero_grad(set_to_none=session.stepping.replay is None)


def accumulate(
    session: Session,
    window: Sequence[Batch],
    mark: Callable[[str], object],
    poll: Callable[[], None],
    *,
    targets: int | None = None,
) -> Tensor:
    """Add the gradients of a window; return its mean loss per target, a scalar on the device.

    Each micro batch is weighted by its number of targets, so the sum is the gradient of one big
    batch. `mark(phase)` is called as each phase ends, `poll()` before each micro batch. With
    several ranks, `targets` is the total of all ranks' windows, and gradients and loss are those
    of all windows, too.
    """
    shares = session.parallel.sync
    if targets is None:
        targets = sum(batch.targets for batch in window if batch.counts)
    targets = targets or 1  # a window may carry no loss at all
    losses, replay = [], session.stepping.replay
    if replay is not None:
        replay.begin()
    with session.stepping.steady():
        for number, batch in enumerate(window, 1):
            poll()
            if replay and (replayed := replay.micro(batch, batch.targets / targets)) is not None:
                losses.append(replayed)
                mark("forward")
                continue
            tensors = to_device(batch, session.device)
            with nullcontext() if shares is None else shares.micro(last=number == len(window)):
                loss = session.forward(tensors)
                if len(window) > 1 or shares is not None:
                    loss = loss * _weight(session, batch, targets)
                mark("forward")
                (session.scaler.scale(loss) if session.scaler else loss).backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
            mark("backward")
    loss = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
    group = session.parallel.group
    return loss if shares is None else group.total(loss.clone()) / group.world


def accumulate_shared(
    session: Session,
    window: Sequence[Batch],
    wall_time: WallTime,
    poll: Callable[[], None],
    *,
    targets: int,
) -> Tensor:
    """Add the gradients of a window as `accumulate` does, with those of the other ranks, if any.

    Waits for other ranks are charged to the phase "exchange". With several ranks, `poll` is not
    called, because a rank that drops its window would leave the others waiting. What is recorded
    for the window is charged to "compile".
    """
    if session.stepping.replay is not None:
        wall_time.pause("compile")
        try:
            session.stepping.replay.ready(window)
        finally:
            wall_time.go_on()
    if session.parallel.sync is None:
        return accumulate(session, window, wall_time.mark, poll)
    wall_time.mark("exchange")  # the ranks have waited for each other's windows
    loss = accumulate(session, window, wall_time.mark, lambda: None, targets=targets)
    wall_time.mark("exchange")
    for phase, seconds in session.parallel.sync.waits().items():
        wall_time.move(seconds, phase, "exchange")
    return loss


def _weight(session: Session, batch: Batch, targets: int) -> float:
    """Return a micro batch's weight in its window; the ranks' gradients are averaged, not added."""
    return batch.targets / targets * session.parallel.group.world if batch.counts else 0.0


class NonFiniteGuard:
    """Keeps non-finite gradients out of the weights, without a wait for the device if possible.

    With a fused optimizer on a GPU, a flag on the device makes it skip this and every later
    update until MetricsLog has read the norms. With a loss scaler or sharded parameters, or on
    another device, the norm is read at once.
    """

    def __init__(self, session: Session) -> None:
        groups = session.optimizer.param_groups if session.optimizer else []
        fused = bool(groups) and all(group.get("fused") for group in groups)
        rows = any(is_sharded(p) for group in groups for p in group["params"])
        on_cuda = session.device.type == "cuda"
        self.on_device = on_cuda and fused and session.scaler is None and not rows
        self.poisoned = torch.zeros((), device=session.device) if self.on_device else None
        self.quick: FusedStep | None = None
        if session.optimizer and not session.scaler and not FusedStep.why_not(session.optimizer):
            self.quick = FusedStep(session.optimizer)

    def admit(self, loss: Tensor, norm: Tensor) -> bool:
        """Return whether the update may be made (on the device: whether to launch it)."""
        if self.poisoned is None:
            return math.isfinite(norm.item()) and math.isfinite(loss.item())
        bad = ~(norm.isfinite() & loss.isfinite())
        torch.maximum(self.poisoned, bad.float(), out=self.poisoned)
        return True


def update(session: Session, guard: NonFiniteGuard, loss: Tensor, gradient_clip: float) -> Tensor:
    """Clip and step; return the gradient norm before clipping, a scalar on the device.

    Raises DivergedError before the weights change if loss or norm are known to be non-finite,
    or when the fp16 loss scale collapses. A single overflow in fp16 skips the step, as it should.
    """
    if session.parallel.sharded_optimizer is not None:
        return session.parallel.sharded_optimizer.update(loss, gradient_clip)
    replay = session.stepping.replay
    if replay and (replayed := replay.update(guard, loss, gradient_clip)) is not None:
        return replayed
    if guard.quick is not None and (gradients := guard.quick.gradients()) is not None:
        norm = update_quickly(guard, guard.quick, gradients, loss, gradient_clip)
        if replay is None:
            guard.quick.clear()
        else:
            drop_gradients(session)
        return norm
    optimizer, scaler = session.optimizer, session.scaler
    assert optimizer is not None
    if scaler:
        scaler.unscale_(optimizer)
    gradients = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
    if session.parallel.sync is None:
        norm = torch.nn.utils.get_total_norm(gradients, foreach=True)
    else:
        norm = session.parallel.sync.norm(gradients)
    if scaler:
        _clip(optimizer, norm, gradient_clip)
        scaler.step(optimizer)
        scaler.update()
        if not session.stepping.lag_reads:  # else MetricsLog checks it at the log interval
            refuse_collapse(scaler)
    else:
        _admit(guard, loss, norm)
        if guard.on_device:
            optimizer.found_inf = guard.poisoned  # type: ignore[attr-defined] # as GradScaler does
        _clip(optimizer, norm, gradient_clip)
        optimizer.step()
    drop_gradients(session)
    return norm


def _admit(guard: NonFiniteGuard, loss: Tensor, norm: Tensor) -> None:
    if not guard.admit(loss, norm):
        raise DivergedError(f"the loss is {loss.item()} and the gradient norm {norm.item()}")


def update_quickly(
    guard: NonFiniteGuard,
    quick: FusedStep,
    gradients: list[Tensor],
    loss: Tensor,
    gradient_clip: float,
    *,
    rates: Sequence[Tensor] | None = None,
) -> Tensor:
    """Clip and step with fused AdamW; return the norm before clipping, a scalar on the device.

    In a recording, `rates` are the learning rates of the parameter groups, read at each replay.
    """
    norm = total_norm(gradients)
    _admit(guard, loss, norm)
    divide = None
    if gradient_clip > 0 and (guard.on_device or norm.item() > gradient_clip):
        # clip_grad_norm_'s own formula, as a divisor: at least 1
        divide = ((norm + _CLIP_EPS) / gradient_clip).clamp(min=1.0)
    quick.step(gradients, divide=divide, found_inf=guard.poisoned, rates=rates)
    return norm


def refuse_collapse(scaler: torch.amp.GradScaler) -> None:
    """Raise DivergedError if the loss scale is too small to keep small gradients; waits for it."""
    if (scale := scaler.get_scale()) < SMALLEST_SCALE:
        raise DivergedError(f"the fp16 loss scale fell to {scale:g}")


def _clip(optimizer: torch.optim.Optimizer, norm: Tensor, gradient_clip: float) -> None:
    if gradient_clip <= 0:
        return
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if any(is_sharded(p) for p in parameters):  # by clip_grad_norm_'s own formula
        rows = [local(p.grad) for p in parameters if p.grad is not None]
        torch._foreach_mul_(rows, (gradient_clip / (norm + _CLIP_EPS)).clamp(max=1.0))
    else:
        torch.nn.utils.clip_grads_with_norm_(parameters, gradient_clip, norm, foreach=True)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that the device (for a CPU, the host) is out of memory."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return any(words in str(error) for words in _NO_MEMORY)


def halve_micro_batch(session: Session, batch_size: int) -> bool:
    """Halve the micro batch at an unchanged global batch; return False if it is 1 already."""
    if session.micro_batch == 1:
        return False
    session.micro_batch = (session.micro_batch + 1) // 2
    session.stepping.replay = None  # it was recorded for the larger one, and holds its memory
    session.accumulation = -(-batch_size // session.micro_batch)
    if session.device.type == "cuda":
        torch.cuda.empty_cache()  # once, after an out-of-memory; never in the loop
    return True
