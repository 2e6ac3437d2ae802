"""Says what the validations of a run show: learning by heart, and the best one against the last.

The best of several validations is chosen, so chance is part of its lead. Two models whose numbers
of right answers differ by five or fewer cannot be told apart at a risk of 5 %, whatever the number
of rows: even if they answer no other row differently, a sign test gives 2 x 0.5^5 = 6 %.
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
    _best: tuple[int, Evaluation] | None = None  # optimizer step, result
    _last: tuple[int, Evaluation] | None = None

    def after(
        self, position: Position, evaluation: Evaluation, training: float | None
    ) -> str | None:
        """Add a validation; return a warning if validations get worse while the loss falls.

        `training` is the mean training loss since the validation before.
        """
        best = position.best_step == position.step
        self._last = position.step, evaluation
        if best:
            self._best = self._last
        score = None if self.judge is None else self.judge.score
        if (value := self._value(evaluation)) is None:
            return None
        text = self._overfitting.after(training, value, best=best, score=score)
        return text if position.epoch > 0 else None

    def closing(self, position: Position, *, trained: bool) -> list[tuple[str, bool]]:
        """Return what to say at the end of a training, and whether each is a warning.

        `trained` says whether this process made a step.
        """
        said = [] if (text := self._against_last()) is None else [(text, False)]
        if self.judge is not None and trained:
            said += [(text, True) for text in self.judge.closing(position.best_score)]
        return said

    def _value(self, evaluation: Evaluation) -> float | None:
        """Return the score that selects the best model, or the loss."""
        if self.judge is None or self.judge.score is None:
            return evaluation.loss
        return evaluation.figures.get(self.judge.score)

    def _against_last(self) -> str | None:
        """Return how far the last validation is from the best; None if it is the best."""
        if self._best is None or self._last is None or self._best[0] == self._last[0]:
            return None
        (best_step, best), (last_step, last) = self._best, self._last
        name = "loss" if self.judge is None or self.judge.score is None else self.judge.score
        values = map(self._value, (best, last))
        shown = ["undefined" if value is None else f"{value:.4f}" for value in values]
        said = (
            f"the best validation is that of step {best_step:,} ({name} {shown[0]}); the last, of "
            f"step {last_step:,}, has {shown[1]}"
        )
        share = None if self.judge is None else self.judge.share_of_rows
        right = [None if share is None else one.figures.get(share) for one in (best, last)]
        if right[0] is None or right[1] is None:
            return said
        rows = abs(round(best.targets * right[0]) - round(last.targets * right[1]))
        if rows >= _TOLD_APART:
            return said
        return (
            f"{said}. They differ by {many(rows, 'right answer')} on "
            f"{many(last.targets, 'row')}, which may be chance (sign test, 5 %): --checkpoint last "
            "may be as good, and only more validation rows can tell"
        )
