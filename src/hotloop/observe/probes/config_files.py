"""Which files of settings were opened, by whom, and which of their words stand in other programs.

A script gets what yaml, json and tomllib give it. Who reads which key is learned from the project's
code (rules/support/config_reads.py); programs of the project that did not run are read here, by
their words.
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
LONGEST = 256 << 10  # bytes of a file that may be settings
MOST_OF_A_LINE = 3  # files that one line opens; of more, each holds data
# What reads a file for its caller, and gives back what stands in it.
_READERS = {"codecs", "json", "omegaconf", "pathlib", "tomli", "tomllib", "yaml"}
_PROGRAMS = (".py", ".ipynb", ".sh")
_WEIGHTS = (".bin", ".ckpt", ".gguf", ".h5", ".onnx", ".pt", ".pth", ".safetensors")
_NOT_ENTERED = {"__pycache__", "build", "dist", "node_modules", "site-packages", "venv"}
MOST_PROGRAMS, MOST_FOLDERS, LONGEST_PROGRAM = 400, 400, 200 << 10  # files, folders; bytes


class Configs:
    """Remembers who opened which file of settings."""

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
        try:
            if not os.path.isfile(path) or os.path.getsize(path) > LONGEST:
                return None
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:  # gone, or closed to us: its lines cannot be shown
            return None
        return Config(path=path, text=text, place=self._place(path))

    def _place(self, path: str) -> SourceLocation | None:
        """Return where the project's code loads its settings from this file; None: it does not.

        What a library opens too, the script wrote itself or belongs to a model, is no settings of
        the project's, and neither are data: one line opens many files.
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
    """Yield the programs of the project that are no part of this run; None where it has no bounds.

    They lie below the folder that holds the script, what it imported and its configuration, or
    beside that folder.
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
    """Return all words of these files; None where one of them could not be read whole."""
    if files is None:
        return None
    words: set[str] = set()
    for path in files:
        try:
            if path.stat().st_size > LONGEST_PROGRAM:
                return None
            words.update(re.findall(r"\w+", path.read_text(encoding="utf-8", errors="replace")))
        except OSError:  # what stands in it is unknown
            return None
    return words


hide(globals())
