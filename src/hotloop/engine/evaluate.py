"""Validation: under no_grad and the same forward pass, with a random stream of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from hotloop.core.errors import DataError
from hotloop.engine.step import to_device
from hotloop.session.accumulation_windows import batch_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hotloop.session.accumulation_windows import Position
    from hotloop.session.batch import Samples
    from hotloop.session.job import ValidationMetrics
    from hotloop.session.session import Session

__all__ = ["Evaluation", "evaluate", "judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The result of a validation."""

    loss: float  # mean over targets
    targets: int
    figures: Mapping[str, float | None] = field(default_factory=dict)  # metrics of the job's judge
    groups: Mapping[str, Mapping[str, float | None]] | None = None  # scores of groups of rows
    right: Sequence[int] | None = None  # right answers of each class; None: not counted


def evaluate(
    session: Session,
    samples: Samples,
    poll: Callable[[], None],
    *,
    batches: int | None,
    micro_batch: int | None = None,
) -> Evaluation:
    """Return loss and metrics over the first `batches` micro batches; None: over all samples.

    `micro_batch` is the size in which these batches are counted (None: the session's), so that
    fewer rows in a pass, on several ranks or after an out of memory, do not mean fewer rows in all.
    Sums stay on the device and are read once at the end. The random state is forked, so evaluating
    more often does not change a single bit of the weights. Ranks share the micro batches, and each
    is read once. Raises DataError if there are no targets.
    """
    judge, ranks = session.job.judge, session.parallel.group
    counts = {} if judge is None else {"counts": judge.start(session.device)}
    cut, size = session.job.cut, len(samples)
    if batches is not None:
        counted = cut(samples, 0, 0, size, micro_batch or session.micro_batch)[:batches]
        size = sum(count for _, count in counted)
    spans = _own(cut(samples, 0, 0, size, session.micro_batch), ranks.rank, ranks.world)
    devices = [session.device] if session.device.type == "cuda" else []
    total = torch.zeros((), dtype=torch.float64, device=session.device)
    targets = 0
    training = session.model.training
    session.model.eval()
    try:
        with torch.random.fork_rng(devices), torch.no_grad(), session.stepping.steady():
            for first, count in spans:
                poll()
                batch = batch_at(samples, (0, first, count))
                own_counts = counts if batch.counts else {k: v.clone() for k, v in counts.items()}
                tensors = {**to_device(batch, session.device), **own_counts}
                loss = session.forward(tensors).double()
                if batch.counts:
                    total += loss * batch.targets
                    targets += batch.targets
    finally:
        session.model.train(training)
    if ranks.world > 1:
        targets = int(sum(own for (own,) in ranks.gather([targets])))
        for figure in (total, *counts.values()):
            ranks.total(figure)
    if not targets:
        raise DataError(f"nothing of {samples.fingerprint} carries loss: there is none to report")
    mean = total.item() / targets
    if judge is None:
        return Evaluation(loss=mean, targets=targets)
    on_host = counts["counts"].cpu()
    return Evaluation(
        loss=mean,
        targets=targets,
        figures=judge.figures(on_host),
        groups=None if judge.groups is None else judge.groups(on_host),
        right=None if judge.right is None else judge.right(on_host),
    )


def _own(spans: list[tuple[int, int]], rank: int, world: int) -> list[tuple[int, int]]:
    """Return every `world`-th span; ranks that have one fewer keep step with a count of 0."""
    own = spans[rank::world]
    most = -(-len(spans) // world)
    return own if len(own) == most else [*own, (spans[-1][0], 0)]


def judged(
    position: Position, evaluation: Evaluation, judge: ValidationMetrics | None, min_delta: float
) -> tuple[Position, bool]:
    """Return the position after a validation, and whether it is the best one so far.

    The best has the lowest loss or, if the job's judge names a score, the highest score.
    """
    score = None
    cost: float | None = evaluation.loss
    before = position.best_loss
    if judge is not None and judge.score is not None:  # a missing score is no progress
        score = evaluation.figures.get(judge.score)
        cost = None if score is None else -score
        before = None if position.best_score is None else -position.best_score
    best = cost is not None and (before is None or cost < before)
    progress = cost is not None and (
        position.reference is None or cost < position.reference - min_delta
    )
    after = replace(
        position,
        evaluated=position.step,
        best_loss=evaluation.loss if best else position.best_loss,
        best_score=score if best else position.best_score,
        best_step=position.step if best else position.best_step,
        reference=cost if progress else position.reference,
        stale=0 if progress else position.stale + 1,
    )
    return after, best
