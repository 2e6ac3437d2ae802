"""Detects a validation loss that rises while the training loss falls.

A model that learns its training rows by heart does so. Four validations in a rising order come by
chance once in 24 times.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

__all__ = ["Overfitting"]

_RISES = 3  # validations in a row, each worse than the one before


@dataclass(slots=True)
class Overfitting:
    """The validations of a run so far, in order."""

    _seen: list[tuple[float, float]] = field(default_factory=list)  # training and validation loss

    def after(self, training: float | None, validation: float) -> str | None:
        """Add a validation; return what to say, the first time that its loss has kept rising.

        `training` is the mean training loss of the steps since the validation before; None: there
        were none.
        """
        if training is None:
            return None
        self._seen.append((training, validation))
        last = self._seen[-_RISES - 1 :]
        rises = all(before < after for (_, before), (_, after) in pairwise(last))
        falls = all(before > after for (before, _), (after, _) in pairwise(last))
        if len(self._seen) <= _RISES or not (rises and falls):
            return None
        self._seen = []  # it is said again only after as many validations
        (first_training, first), (last_training, newest) = last[0], last[-1]
        return (
            f"the validation loss has risen {_RISES} times in a row, from {first:.4g} to "
            f"{newest:.4g}, while the training loss fell from {first_training:.4g} to "
            f"{last_training:.4g}: the model learns its training rows by heart. The best "
            f"checkpoint is kept. training.patience={_RISES} stops such a run; fewer epochs or a "
            "lower training.learning_rate may avoid it"
        )
