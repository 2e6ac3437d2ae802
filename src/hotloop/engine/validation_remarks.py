"""Says what the validations of a run show: learning by heart, and the best one against the last.

The best of several validations is chosen, so chance is part of its lead. If the right answers of
two models differ by five or fewer, counted class by class, no sign test can tell the models apart
at a risk of 5 %, whatever the number of rows: even if they answer no other row differently, it
gives 2 x 0.5^5 = 6 %.
Source: McNemar 1947, "Note on the sampling error of the difference between correlated proportions
or percentages", Psychometrika 12.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from hotloop.core.overfitting import Overfitting
from hotloop.core.units import many

if TYPE_CHECKING:
    from hotloop.engine.evaluate import Evaluation
    from hotloop.session.accumulation_windows import Position
    from hotloop.session.job import ValidationMetrics

__all__ = ["ValidationRemarks"]

_TOLD_APART: Final = 6  # right answers; 2 x 0.5^6 is 3 %


@dataclass(slots=True)
class ValidationRemarks:
    """The validations that a process made."""

    judge: ValidationMetrics | None
    _overfitting: Overfitting = field(default_factory=Overfitting)
    _best: Evaluation | None = None  # None: an earlier process made it
    _last: tuple[int, Evaluation] | None = None  # optimizer step, result

    def after(
        self, position: Position, evaluation: Evaluation, training: float | None
    ) -> str | None:
        """Add a validation; return a warning if validations get worse while the loss falls.

        `training` is the mean training loss since the validation before.
        """
        best = position.best_step == position.step
        self._last = position.step, evaluation
        if best:
            self._best = evaluation
        score = None if self.judge is None else self.judge.score
        if (value := self._value(evaluation)) is None:
            return None
        text = self._overfitting.after(training, value, best=best, score=score)
        return text if position.epoch > 0 else None

    def closing(self, position: Position, *, trained: bool) -> list[tuple[str, bool]]:
        """Return what to say at the end of a training, and whether each is a warning.

        `trained` says whether this process made a step.
        """
        if not trained:
            return []
        said = [] if (text := self._against_best(position)) is None else [(text, False)]
        if self.judge is not None:
            said += [(text, True) for text in self.judge.closing(position.best_score)]
        return said

    def _value(self, evaluation: Evaluation) -> float | None:
        """Return the score that selects the best model, or the loss."""
        if self.judge is None or self.judge.score is None:
            return evaluation.loss
        return evaluation.figures.get(self.judge.score)

    def _against_best(self, position: Position) -> str | None:
        """Return how far the last validation is from the best; None if it is the best."""
        step = position.best_step
        if self._last is None or step is None or step == self._last[0]:
            return None
        by_loss = self.judge is None or self.judge.score is None
        best = position.best_loss if by_loss else position.best_score
        name = "loss" if by_loss or self.judge is None else self.judge.score
        values = [best, self._value(self._last[1])]
        shown = ["undefined" if value is None else f"{value:.4f}" for value in values]
        said = (
            f"the best validation is that of step {step:,} ({name} {shown[0]}); the last, of step "
            f"{self._last[0]:,}, has {shown[1]}"
        )
        right = None if self._best is None else self._best.right
        now = self._last[1].right
        if right is None or now is None:
            return said
        rows = sum(abs(one - other) for one, other in zip(right, now, strict=True))
        if rows >= _TOLD_APART:
            return said
        return (
            f"{said}. Their right answers differ by {rows} of {many(self._last[1].targets, 'row')}"
            ", counted class by class, which may be chance (sign test, 5 %): either checkpoint may "
            "be the better one (hotloop predict RUN --checkpoint last), and only more validation "
            "rows can tell"
        )
