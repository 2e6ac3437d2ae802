"""Report how far the reading of files is, and how fast it is."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.data.readers.portions import Portion, RecordFile
    from hotloop.data.tokenising.tokenize_portion import Turned

__all__ = ["PortionCounter", "TokenizeProgress", "told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizeProgress:
    """The progress of the work."""

    what: str  # the activity, or the file
    bytes: int = 0  # read in this process, unpacked
    share: float | None = None  # of all data, 0 to 1; None if unknown
    tokens: int = 0  # made in this process
    seconds: float = 0.0


class PortionCounter:
    """Count portions of `sources`, which are read in order, and report the progress."""

    def __init__(
        self, sources: Sequence[RecordFile], notify: Callable[[TokenizeProgress], None]
    ) -> None:
        self._sources, self._notify = sources, notify
        self._all = max(1, sum(source.bytes for source in sources))
        self._began = time.perf_counter()
        self._bytes, self._tokens = 0, 0

    def say(self, activity: str) -> None:
        """Report an activity before anything can be counted."""
        self._notify(TokenizeProgress(what=activity))

    def count(self, portion: Portion, result: Turned) -> None:
        """Count one portion that was turned into tokens."""
        self._bytes += result.bytes
        self._tokens += len(result.encoded.ids)
        done = offset = 0
        for source in self._sources:
            if source.name == portion.name:
                offset = min(source.bytes, portion.offset + result.bytes)
                break
            done += source.bytes
        self._notify(
            TokenizeProgress(
                what=portion.name,
                bytes=self._bytes,
                share=(done + offset) / self._all,
                tokens=self._tokens,
                seconds=time.perf_counter() - self._began,
            )
        )


def told(
    progress: Callable[[str, float], None] | None, poll: Callable[[], None] | None
) -> Callable[[TokenizeProgress], None]:
    """Return a callback that reports to a recipe's listener; `poll` comes first, and may raise."""

    def notify(event: TokenizeProgress) -> None:
        if poll is not None:
            poll()
        if progress is not None:
            progress(event.what, event.share or 0.0)

    return notify
