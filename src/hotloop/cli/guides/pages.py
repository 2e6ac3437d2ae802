"""The guides, a Markdown file each in this folder: what to do about a symptom; several cards."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["guides", "title"]

_SUFFIX = ".md"


@cache
def guides() -> Mapping[str, str]:
    """Return the Markdown text of each guide by its name, in the order of the names."""
    found = (file for file in files(__package__).iterdir() if file.name.endswith(_SUFFIX))
    return MappingProxyType(
        {
            file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8")
            for file in sorted(found, key=lambda file: file.name)
        }
    )


def title(name: str) -> str:
    """Return the title of a guide, which is its first line; KeyError when there is none."""
    return guides()[name].partition("\n")[0].removeprefix("# ")
