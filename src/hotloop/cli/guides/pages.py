"""Reads the guides, Markdown files in this folder on symptoms and on several GPUs."""

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
    guide_files = (file for file in files(__package__).iterdir() if file.name.endswith(_SUFFIX))
    return MappingProxyType(
        {
            file.name.removesuffix(_SUFFIX): file.read_text(encoding="utf-8")
            for file in sorted(guide_files, key=lambda file: file.name)
        }
    )


def title(name: str) -> str:
    """Return the title of a guide, its first line; raise KeyError for an unknown guide."""
    return guides()[name].partition("\n")[0].removeprefix("# ")
