"""Which calls without an update are evaluations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hotloop.core.observed import Evaluation

__all__ = ["evaluates"]


def evaluates(stretch: Evaluation) -> bool:
    """Whether a stretch surely evaluates: in eval mode, or on a loader that training does not read.

    An agent that acts, a step that was left out and a search for hard examples are not told from
    an evaluation otherwise.
    """
    return stretch.loader is not None or not stretch.training_mode
