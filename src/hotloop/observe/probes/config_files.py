"""Which configuration files were opened, by whom, and which of their words other programs use.

The script gets plain values from yaml, json and tomllib, so the code that reads a key is found in
the project's sources (rules/support/config_reads.py). Of the project's programs that did not run,
only the words are read here.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.case.environment import Config
from hotloop.observe.hooks.stack_frames import directly
from hotloop.process.internal_frames import hide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hotloop.core.case.case import Case
    from hotloop.core.finding import SourceLocation

__all__ = ["Configs"]

ENDINGS = (".yaml", ".yml", ".json", ".toml")
LONGEST = 256 << 10  # bytes of a configuration file, at most
MOST_OF_A_LINE = 3  # files that one line opens; if there are more, they hold data
# Modules that read a file for their caller and return its content.
_READERS = {"codecs", "json", "omegaconf", "pathlib", "tomli", "tomllib", "yaml"}
_PROGRAMS = (".py", ".ipynb", ".sh")
_WEIGHTS = (".bin", ".ckpt", ".gguf", ".h5", ".onnx", ".pt", ".pth", ".safetensors")
_NOT_ENTERED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
MOST_PROGRAMS, MOST_FOLDERS, LONGEST_PROGRAM = 400, 400, 200 << 10  # files, folders; bytes


class Configs:
    """Remembers who opened which configuration file."""

    def __init__(self) -> None:
        self._openers: dict[str, set[SourceLocation | None]] = defaultdict(set)  # None: a library
        self._written: set[str] = set()

    def opened(self, path: str, *, reading: bool) -> None:
        """Note that a file is opened now, to be read or to be written."""
        if path.endswith(ENDINGS):
            real = os.path.realpath(path)
            if reading:
                self._openers[real].add(directly(_READERS))
            else:
                self._written.add(real)

    def add_to(self, case: Case) -> Case:
        """Add the files to the case."""
        configs = [config for config in map(self._config, self._openers) if config is not None]
        own = [config for config in configs if config.place is not None]
        words = _words(_others(case, own)) if own else None
        with_words = (
            replace(config, elsewhere=tuple(sorted(words & set(re.findall(r"\w+", config.text)))))
            if words is not None and config.place is not None
            else config
            for config in configs
        )
        return replace(case, configs=(*case.configs, *with_words))

    def _config(self, path: str) -> Config | None:
        """Return a file, with its text only if it holds the project's settings."""
        place = self._place(path)
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > LONGEST:
                return None
            text = "" if place is None else Path(path).read_text("utf-8", "replace")
        except OSError:  # removed or not readable: its lines cannot be shown
            return None
        return Config(path=path, text=text, place=place)

    def _place(self, path: str) -> SourceLocation | None:
        """Return the line of the project's code that loads its settings from this file, or None.

        A file does not count as the project's settings if a library opens it too, if the script
        wrote it, if it belongs to a model, or if the line opens many files: those hold data.
        """
        openers = self._openers[path]
        place = next(iter(openers), None)
        if (len(openers) > 1 and None in openers) or place is None or path in self._written:
            return None
        if sum(place in others for others in self._openers.values()) > MOST_OF_A_LINE:
            return None
        return None if path.endswith(".json") and _is_of_a_model(os.path.dirname(path)) else place


def _is_of_a_model(folder: str) -> bool:
    return any(name.endswith(_WEIGHTS) for name in os.listdir(folder))


def _others(case: Case, configs: Iterable[Config]) -> Iterator[Path] | None:
    """Return the programs of the project that did not take part in this run; None if unbounded.

    They lie below the folder that holds the script, its imports and its configuration, or beside
    that folder.
    """
    files = [*case.sources, *(config.path for config in configs)]
    root = Path(os.path.commonpath([os.path.dirname(os.path.realpath(file)) for file in files]))
    if root in (Path.home(), *Path.home().parents):
        return None
    beside = [] if root.parent in (Path.home(), *Path.home().parents) else [root.parent]
    programs: list[Path] = []
    for number, (folder, folders, names) in enumerate(os.walk(root)):
        folders[:] = [f for f in folders if f[0] != "." and f not in _NOT_ENTERED]
        programs += [Path(folder, name) for name in names if name.endswith(_PROGRAMS)]
        if number >= MOST_FOLDERS or len(programs) > MOST_PROGRAMS:
            return None
    for near in beside:
        programs += [path for path in near.iterdir() if path.suffix in _PROGRAMS]
    part = {os.path.realpath(file) for file in case.sources}
    return iter([path for path in programs if os.path.realpath(path) not in part])


def _words(files: Iterable[Path] | None) -> set[str] | None:
    """Return all words of these files; None if one could not be read whole."""
    if files is None:
        return None
    words: set[str] = set()
    for path in files:
        try:
            if path.stat().st_size > LONGEST_PROGRAM:
                return None
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
        except OSError:  # its content is unknown
            return None
    return words


hide(globals())
