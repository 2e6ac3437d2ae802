"""Translate the options that messages advise into the words of the command that reads the data.

Messages are written with the options of `hotloop data`. A recipe has settings in their place; an
option without a counterpart is left out of the command's messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Said", "fields", "said"]

Said = Mapping[str, str] | None  # option -> the text to type instead; None: the options themselves


def said(option: str, by: Said) -> str | None:
    """Return the text to type for an option; None if the command has no counterpart."""
    return option if by is None else by.get(option)


def fields(parts: Sequence[str], by: Said) -> str | None:
    """Return the text to type to name the keys of these parts of a row; None as for `said`."""
    if by is None:
        return "--fields " + ",".join(f"{part}=KEY" for part in parts)
    words = [said(f"--fields {part}", by) for part in parts]
    known = [word for word in words if word is not None]
    return " ".join(known) if len(known) == len(words) else None
