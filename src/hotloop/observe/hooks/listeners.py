"""Those who are told what passes the doors, each alone with its faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Broken", "Probes", "broken_mark"]


class Probes(list[Any]):
    """A list of watchers. What a watcher has no method for, it is not told."""

    def __init__(self, watchers: list[Any]) -> None:
        super().__init__(watchers)
        self.faults: list[tuple[str, BaseException]] = []  # of those that were left out: whose

    def tell(self, what: str, *args: Any) -> None:
        """Tell all of them; one that fails is left out from then on."""
        for watcher in tuple(self):
            told: Callable[..., None] | None = getattr(watcher, what, None)
            if told is None:
                continue
            try:
                told(*args)
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                self.failed(watcher, error)

    def failed(self, watcher: Any, error: BaseException) -> None:
        """Leave a watcher out that failed, and keep why."""
        self.remove(watcher)
        self.faults.append((type(watcher).__name__, error))


class Broken:
    """Stands for a watcher with a fault, where a test asks for it."""

    def __init__(self, watcher: Any) -> None:
        self._watcher = watcher

    def __getattr__(self, name: str) -> Any:
        getattr(self._watcher, name)  # what it has not stays an AttributeError

        def fail(*_: Any) -> None:
            raise RuntimeError(f"planted fault in {type(self._watcher).__name__}.{name}")

        return fail


def broken_mark(mark: int) -> None:
    """Stand for a fault of the tape, where a test asks for it."""
    raise RuntimeError(f"planted fault at mark {mark & 31}")


hide(globals())
