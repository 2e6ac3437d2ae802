"""Converts the events and the record of a run folder into points and facts for a tracker."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

from hotloop.core.events import PHASES
from hotloop.export.trackers.sink import Point

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hotloop.core.events import Event
    from hotloop.export.trackers.sink import Fact

__all__ = ["began", "facts", "points"]

# By kind of event: key of the event -> name of the point in the tracker.
_NAMES: Mapping[str, Mapping[str, str]] = {
    "step": {
        "loss": "train/loss",
        "norm": "train/gradient_norm",
        "lr": "train/learning_rate",
        "wall": "time/step_s",
        **{phase: f"time/{phase}_s" for phase in PHASES},
    },
    "eval": {"loss": "valid/loss", "wall": "time/validation_s"},
    "save": {"wall": "time/save_s"},
    "reading": {
        "memory_bytes": "device/memory_bytes",
        "utilisation": "device/utilisation",
        "tokens_per_s": "speed/tokens_per_s",
    },
}


def points(event: Event, *, began: float) -> list[Point]:
    """Return the points of one event; a missing value gives no point.

    `began` is time 0 of the clock of the event's process, in seconds since 1970.
    """
    names = _NAMES.get(str(event["kind"]), {})
    timestamp, step = began + _number(event.get("t"), 0.0), int(_number(event["step"], 0))
    return [
        Point(name=name, step=step, value=float(value), at=timestamp)
        for key, name in names.items()
        if isinstance(value := event.get(key), int | float)
    ]


def began(session: Event) -> float | None:
    """Return time 0 of a session's clock, in seconds since 1970; None where it is not recorded."""
    try:
        timestamp = datetime.fromisoformat(str(session.get("at"))).timestamp()
    except ValueError:
        return None
    return timestamp - _number(session.get("t"), 0.0)


def facts(record: Mapping[str, object]) -> dict[str, Fact]:
    """Return a run's settings, hardware, versions and technique effects from its record.

    Keys are dotted and sorted; a list becomes its JSON text.
    """
    hardware = _map(record.get("hardware"))
    values = {key: record.get(key) for key in ("recipe", "created", "precision")}
    values |= _under("config", record.get("config"))
    values |= _under("about", record.get("facts"))
    values |= _under("versions", hardware.pop("versions", None))
    values |= _under("hardware", hardware)
    effects = record.get("effects")
    for row in effects if isinstance(effects, list) else ():
        values[f"technique.{_map(row).get('technique')}"] = _map(row).get("word")
    return {key: _plain(value) for key, value in sorted(values.items()) if value is not None}


def _number(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) else default


def _map(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _under(section: str, value: object) -> dict[str, object]:
    return {f"{section}.{key}": item for key, item in _map(value).items()}


def _plain(value: object) -> Fact:
    return value if isinstance(value, str | int | float | bool) else json.dumps(value)
