"""Tells each probe of each event, and leaves out a probe that fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.listener import Probe
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Broken", "Probes", "broken_mark"]


class Probes(list[Probe]):
    """The probes of a script, in the order in which they receive events."""

    def __init__(self, probes: list[Probe]) -> None:
        super().__init__(probes)
        self.faults: list[tuple[str, BaseException]] = []  # class of a probe that failed, its error

    def notify(self, event: Callable[[Probe], None]) -> None:
        """Call `event` with each probe; drop a probe that fails."""
        for probe in tuple(self):
            try:
                event(probe)
            except Exception as error:  # noqa: BLE001 - kept, and told in the report
                self.failed(probe, error)

    def call(self, probe: Probe, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of one probe, from a hook of its own; drop the probe if it fails."""
        if probe not in self:
            return None
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - kept, and told in the report
            return self.failed(probe, error)

    def failed(self, probe: Probe, error: BaseException) -> None:
        """Remove a probe that failed, and keep its error."""
        self.remove(probe)
        self.faults.append((type(probe).__name__, error))


class Broken:
    """Stands for a probe in tests, and fails at each event that the probe defines."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._probe, name)
        if getattr(type(self._probe), name, None) is getattr(Probe, name, None):
            return method  # an event that the probe does not define

        def fail(*_: Any) -> None:
            raise RuntimeError(f"planted fault in {type(self._probe).__name__}.{name}")

        return fail


def broken_mark(mark: int) -> None:
    """Raise a planted fault of the event buffer, for tests."""
    raise RuntimeError(f"planted fault at mark {mark & 31}")


hide(globals())
