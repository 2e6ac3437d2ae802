"""The command line that the parts of a call share, their time, and the file that they write."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.storage.files import make_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Deadline", "Writer", "options"]

_DAY_S = 86_400.0
_LAST_S = 3.0  # kept back: a child that is told to end writes its result first


def options(about: str | None, **more: str) -> argparse.Namespace:
    """Return the options of a part; `more` names further words that it takes, with their help."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, what in more.items():
        parser.add_argument(name, nargs="*", help=what)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the result")
    parser.add_argument("--short", action="store_true", help="tiny sizes: does it run?")
    parser.add_argument(
        "--seconds", type=float, default=_DAY_S, metavar="S", help="end by then (default: a day)"
    )
    return parser.parse_args()


class Deadline:
    """How much is left of the seconds that a part may take, its start included."""

    def __init__(self, seconds: float) -> None:
        """Begin to count at the start of this process."""
        began = psutil.Process().create_time()  # seconds since 1970; imports take some of a part
        self._end = time.monotonic() + seconds - max(0.0, time.time() - began) - _LAST_S

    def left(self) -> float:
        """Return the seconds that are left, at least 0."""
        return max(0.0, self._end - time.monotonic())


class Writer:
    """The result of a part, written anew with each entry."""

    def __init__(self, file: Path) -> None:
        self._file, self._result = file, dict[str, Any]()
        make_folder(file.parent)

    def put(self, name: str, value: Mapping[str, Any] | object) -> None:
        """Add an entry and write the file."""
        self._result[name] = value
        write_json(self._file, self._result)
