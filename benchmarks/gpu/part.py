"""The command line that the parts of a call share, and the file that they write."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.storage.files import make_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Writer", "options"]


def options(about: str | None, **more: str) -> argparse.Namespace:
    """Return the options of a part; `more` names further words that it takes, with their help."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, what in more.items():
        parser.add_argument(name, nargs="*", help=what)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="the result")
    parser.add_argument("--short", action="store_true", help="tiny sizes: does it run?")
    return parser.parse_args()


class Writer:
    """The result of a part, written anew with each entry."""

    def __init__(self, file: Path) -> None:
        self._file, self._result = file, dict[str, Any]()
        make_folder(file.parent)

    def put(self, name: str, value: Mapping[str, Any] | object) -> None:
        """Add an entry and write the file."""
        self._result[name] = value
        write_json(self._file, self._result)
