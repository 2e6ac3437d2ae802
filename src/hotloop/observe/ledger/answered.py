"""Whether something outside of the models may answer to each of their calls, such as a game."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hotloop.observe.ledger.recorder import Recorder
    from hotloop.observe.ledger.window import Window

__all__ = ["is_answered"]

_LEAST: Final = 0.5  # values that Python reads for each call of a model


def is_answered(windows: Iterable[Window]) -> bool:
    """Whether Python reads a value for every second call of a model, or more often.

    The next call may then depend on it in a way that no operator shows.
    """
    recorders = [window.recorder for window in windows]
    calls = sum(map(_calls, recorders))
    return calls > 0 and sum(len(one.reads) for one in recorders) >= _LEAST * calls


def _calls(recorder: Recorder) -> int:
    """Return how often the forward passes read the weight that they read least often."""
    uses = Counter(
        storage
        for operation in recorder.operations
        if operation.node is None and recorder.weights.isdisjoint(operation.changed)
        for storage in recorder.weights.intersection(operation.outside)
    )
    return min(uses.values(), default=0)
