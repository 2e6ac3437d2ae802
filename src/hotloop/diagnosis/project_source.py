"""Reads a script with the modules of its folder that it imports, without running any of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.diagnosis.script_source import ScriptSource, read_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["Project", "read_project"]

_MOST = 200  # files; an import that leads further is not followed


@dataclass(frozen=True)  # no slots: cached_property needs a dict
class Project:
    """A script and the modules of its folder that it imports, directly or indirectly."""

    sources: tuple[ScriptSource, ...]  # the script first

    @property
    def script(self) -> ScriptSource:
        """The script itself."""
        return self.sources[0]

    @cached_property
    def calls(self) -> Sequence[tuple[ScriptSource, ast.Call]]:
        """All calls of all files, each with its file."""
        return [
            (source, node)
            for source in self.sources
            for node in source.module.nodes
            if isinstance(node, ast.Call)
        ]

    @cached_property
    def classes(self) -> dict[str, tuple[ScriptSource, ast.ClassDef]]:
        """The classes of all files by their names."""
        return {
            node.name: (source, node)
            for source in self.sources
            for node in source.module.nodes
            if isinstance(node, ast.ClassDef)
        }


def read_project(path: Path) -> Project:
    """Read a script and what it imports; raise UsageError if the script itself cannot be read.

    A module that cannot be read is left out.
    """
    folder = path.resolve().parent
    sources = {path.resolve(): read_source(path.resolve())}
    pending = [path.resolve()]
    while pending and len(sources) < _MOST:
        for file in _imported(sources[pending.pop(0)], folder):
            if file in sources:
                continue
            try:
                sources[file] = read_source(file)
            except UsageError:  # the script may catch the error of this import
                continue
            pending.append(file)
    return Project(tuple(sources.values()))


def _imported(source: ScriptSource, folder: Path) -> Iterator[Path]:
    """Yield the files below the script's folder that the imports of a file name."""
    for node in source.module.nodes:
        names: list[str] = []
        start = folder
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                start = source.path.parents[node.level - 1]
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]
        for name in filter(None, names):
            base = start.joinpath(*name.split("."))
            for file in (base.with_suffix(".py"), base / "__init__.py"):
                if file.is_file() and file.resolve().is_relative_to(folder):
                    yield file.resolve()
