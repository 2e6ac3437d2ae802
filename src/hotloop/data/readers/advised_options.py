"""How the user of a command says what a message advises: data are read by several commands.

A message is written with the options of `hotloop data`. A recipe has settings in their place, and
what a command has no words for is left out of its messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Said", "fields", "said"]

Said = Mapping[str, str] | None  # option -> what is typed in its place; None: the options


def said(option: str, by: Said) -> str | None:
    """Return what is typed in the place of an option; None where the command has nothing."""
    return option if by is None else by.get(option)


def fields(parts: Sequence[str], by: Said) -> str | None:
    """Return what is typed to name the keys of these parts of a row; None as `said`."""
    if by is None:
        return "--fields " + ",".join(f"{part}=KEY" for part in parts)
    words = [said(f"--fields {part}", by) for part in parts]
    known = [word for word in words if word is not None]
    return " ".join(known) if len(known) == len(words) else None
