"""Recognises names of data sets of the hub, and says how to get their rows as a file."""

from __future__ import annotations

import re
from typing import Final

from hotloop.data.readers.file_names import format_of

__all__ = ["hub_command", "is_hub_id"]

_ID: Final = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


def is_hub_id(text: str) -> bool:
    """Return whether a text has the form of an id of the hub, OWNER/NAME, and not of a file."""
    return _ID.fullmatch(text) is not None and format_of(text) is None


def hub_command(name: str) -> str:
    """Return the command that writes the rows of a data set to rows.jsonl.

    `name` may be name::split::configuration; the command needs a network and the package datasets.
    """
    hub, split, config = [*name.split("::"), "", ""][:3]
    which = ", ".join(repr(part) for part in (hub, config) if part)
    return (
        f'python -c "from datasets import load_dataset; load_dataset({which},'
        f" split={split or 'train'!r}).to_json('rows.jsonl')\""
    )
