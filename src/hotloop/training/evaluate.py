"""Validation: under no_grad and the same forward pass, with a random stream of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from hotloop.core.errors import DataError
from hotloop.training.step import to_device

if TYPE_CHECKING:
    from collections.abc import Callable

    from hotloop.session import Samples, Session

__all__ = ["evaluate"]


def evaluate(
    session: Session, samples: Samples, poll: Callable[[], None], *, batches: int | None
) -> tuple[float, int]:
    """Return (mean loss per target, number of targets) of the first `batches` micro batches.

    All of them when `batches` is None. Sums stay on the device and are read once at the end.
    The random state is forked: evaluating more often changes no weight by a bit.
    """
    spans = session.job.cut(samples, 0, 0, len(samples), session.micro_batch)[:batches]
    devices = [session.device] if session.device.type == "cuda" else []
    total = torch.zeros((), dtype=torch.float64, device=session.device)
    targets = 0
    training = session.model.training
    session.model.eval()
    try:
        with torch.random.fork_rng(devices), torch.no_grad():
            for first, count in spans:
                poll()
                batch = samples.batch(0, first, count)
                total += session.forward(to_device(batch, session.device)).double() * batch.targets
                targets += batch.targets
    finally:
        session.model.train(training)
    if not targets:
        raise DataError(f"nothing of {samples.fingerprint} carries loss: there is none to report")
    return total.item() / targets, targets
