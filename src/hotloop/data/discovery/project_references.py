"""Read possible names of data sets in the manifests, configurations and scripts of a project.

No code runs. YAML goes through PyYAML's event parser, which builds no objects and follows no alias;
JSON is split into tokens, Python is parsed to a syntax tree.
"""

from __future__ import annotations

import ast
import json
import os
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml  # type: ignore[import-untyped]  # only its event parser, which builds no objects

from hotloop.core.storage.rundir import RunDir
from hotloop.data.discovery.results import Reference
from hotloop.data.readers.file_names import format_of
from hotloop.data.readers.formats import BY_SUFFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

__all__ = ["SUFFIX", "Word", "words"]

LARGEST = 1 << 20  # bytes: larger files are not read
FILES = 2000
DEPTH = 6  # levels of folders below the project's
LONGEST = 1024  # characters: longer words are skipped
PASSED = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages"})
_Event = tuple[str, str, int]  # a bracket or "text"; the text; its line
_NAMES = ("expert", "name", "id")
_SUFFIXES = (".py", ".json", ".yaml", ".yml")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is not in every build of PyYAML
_JSON = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s{}\[\],:"]+')
_DATA_KEY = re.compile(r"(?<!meta)data(?!base|class|loader|parallel|_?type)|corpus|corpora", re.I)
_PATH_KEY = re.compile(
    r"(?:^|[_.-])(paths?|files?|dirs?|folders?|root|sources?|train|training|val|valid|validation|"
    r"dev|test|eval)(?:$|[_.-])",
    re.I,
)
_WRITTEN_KEY = re.compile(
    r"(?:^|[_.-])(out|outputs?|saved?|logs?|logging|caches?|dest|results?)(?:$|[_.-])", re.I
)
_EXPERTS = re.compile(r"experts?|adapters?|domains?", re.I)
SUFFIX = re.compile(rf"({'|'.join(map(re.escape, BY_SUFFIX))})(\.(bz2|gz|zst))?$", re.I)
_RAW = re.compile(rf"data[\w.-]*/|/[\w.-]*data|({'|'.join(map(re.escape, BY_SUFFIX))})\b", re.I)
_OPEN = re.compile(r"[*?{}$<>|\t\n]|://")  # a pattern, a template, an address, more than a path


@dataclass(slots=True)
class _Frame:
    """A map or list that is being read."""

    key: str | None  # the key of this map or list in its parent
    is_map: bool
    names: dict[str, str] = field(default_factory=dict)  # name, expert, id of this map
    above: _Frame | None = None
    waiting: str | None = None  # the key whose value comes next


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A string in a file of the project that may name data."""

    text: str
    file: Path
    line: int
    keys: tuple[str, ...] = ()  # that lead to it, outermost first; empty in Python
    frame: _Frame | None = None  # the map or list around it; None in Python
    is_key: bool = False

    @property
    def name(self) -> str | None:
        """Return the name of the manifest's entry: the nearest `expert`, else `name`, else `id`."""
        frames = list(_outwards(self.frame))
        for key in _NAMES:
            for frame in frames:
                if frame.names.get(key, self.text) != self.text:
                    return frame.names[key]
        inner = self.keys[-1] if frames and frames[0].is_map and not self.is_key else None
        for frame in frames:  # {"experts": {"math": ...}}
            if inner is not None and frame.key is not None and _EXPERTS.fullmatch(frame.key):
                return inner
            inner = frame.key if frame.above is not None and frame.above.is_map else None
        return None

    @property
    def is_under_data(self) -> bool:
        """Return whether its keys say that it names data."""
        if self.is_key or not self.keys:
            return False
        is_path = bool(_PATH_KEY.search(self.keys[-1])) and any(map(_DATA_KEY.search, self.keys))
        return is_path or bool(_DATA_KEY.search(self.keys[-1]))

    @property
    def is_data(self) -> bool:
        """Return whether its position or its suffix says that it names data."""
        if _OPEN.search(self.text) or (" " in self.text and not _is_file(self.text)):
            return False
        in_code = self.frame is None and "/" in self.text and "data" in self.text
        return in_code or self.is_under_data or _is_file(self.text)

    @property
    def is_written(self) -> bool:
        """Return whether its keys say that it is an output."""
        return any(map(_WRITTEN_KEY.search, self.keys))

    def paths(self, project: Path) -> list[str]:
        """Return the paths that it may mean: beside its file, or in the project."""
        text = os.path.expanduser(self.text)
        bases = dict.fromkeys((str(self.file.parent), str(project)))
        return [] if "\0" in text else [os.path.join(base, text) for base in bases]

    def there(self, project: Path) -> list[str]:
        """Return the real paths that it means and that exist."""
        return [os.path.realpath(path) for path in self.paths(project) if os.path.lexists(path)]

    def reference(self, project: Path) -> Reference:
        """Return the place of the word."""
        file = os.path.relpath(self.file, project)
        return Reference(file=file, line=self.line, name=self.name)


def _is_file(text: str) -> bool:
    """Return whether a path ends like a data file."""
    return SUFFIX.search(text) is not None and format_of(os.path.basename(text)) is not None


def words(project: Path, note: Callable[[str], None], *, ids: Collection[str] = ()) -> list[Word]:
    """Return the strings in the YAML, JSON and Python files of a project that may name data.

    `ids` are names of data sets, which are accepted at any place. Sizes and counts are bounded.
    """
    words_of_project: list[Word] = []
    faults = []
    for number, path in enumerate(_files(project)):
        if number == FILES:
            note(f"only the first {FILES:,} files of {project} were read for references")
            break
        try:
            with path.open("rb") as stream:
                data = stream.read(LARGEST + 1)
            if len(data) <= LARGEST:
                text = data.decode("utf-8-sig", "replace")
                words_of_project += _READERS[path.suffix.lower()](text, path, ids)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError) as error:
            faults.append(f"{path}: {type(error).__name__}")
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            faults.append(f"{path}:{mark.line + 1}" if mark else str(path))
    if faults:
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        note(f"not read for references, for it cannot be parsed: {faults[0]}{more}")
    return words_of_project


def _files(project: Path) -> Iterator[Path]:
    """Yield the files that may name data, outer folders first; links are not followed."""
    waiting = [(project, 0)]
    for folder, depth in waiting:
        try:
            with os.scandir(folder) as entries:
                inner = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in inner}
        if depth and (RunDir(folder).exists or "pyvenv.cfg" in names):
            continue
        for entry in inner:
            if entry.name[0] == ".":
                continue
            if entry.is_dir(follow_symlinks=False):
                if depth < DEPTH and entry.name not in PASSED:
                    waiting.append((Path(entry.path), depth + 1))
            elif entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(_SUFFIXES):
                yield Path(entry.path)


def _counts(text: str, key: str | None, ids: Collection[str]) -> bool:
    """Return whether a text may name data; most texts do not and are skipped at once."""
    if not text or len(text) > LONGEST:
        return False
    if "/" in text or text in ids or SUFFIX.search(text):
        return True
    return key is not None and bool(_DATA_KEY.search(key) or _PATH_KEY.search(key))


def _python(text: str, path: Path, ids: Collection[str]) -> Iterator[Word]:
    if not _RAW.search(text) and not any(data_id in text for data_id in ids):
        return  # parsing takes most of the time
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the project's code, which does not run
        tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            value = node.value
            if isinstance(value, str) and _counts(value, None, ids):
                yield Word(text=value, file=path, line=node.lineno)


def _yaml(text: str, path: Path, ids: Collection[str]) -> Iterator[Word]:
    def events() -> Iterator[_Event]:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.MappingStartEvent):
                yield "{", "", 0
            elif isinstance(event, yaml.SequenceStartEvent):
                yield "[", "", 0
            elif isinstance(event, yaml.CollectionEndEvent):
                yield "}", "", 0
            elif isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
                yield "text", getattr(event, "value", ""), event.start_mark.line + 1

    return _read(events(), path, ids)


def _json(text: str, path: Path, ids: Collection[str]) -> Iterator[Word]:
    def events() -> Iterator[_Event]:
        line, offset = 1, 0
        for token in _JSON.finditer(text):
            line, offset = line + text.count("\n", offset, token.start()), token.start()
            value = token[0]
            if value in "{[":
                yield value, "", line
            elif value in "}]":
                yield "}", "", line
            elif value[0] != '"':
                yield "text", "", line  # a number
            else:
                yield (
                    "text",
                    str(json.loads(value, strict=False)) if "\\" in value else value[1:-1],
                    line,
                )

    return _read(events(), path, ids)


def _read(events: Iterable[_Event], path: Path, ids: Collection[str]) -> Iterator[Word]:
    """Yield the words of nested maps and lists, of any depth."""
    frame: _Frame | None = None
    for kind, text, line in events:
        if kind == "}":
            frame = frame.above if frame is not None else None
        elif kind != "text":
            key = None
            if frame is not None:
                key, frame.waiting = (frame.waiting if frame.is_map else frame.key), None
            frame = _Frame(key=key, is_map=kind == "{", above=frame)
        elif frame is None:
            continue
        elif frame.is_map and frame.waiting is None:
            frame.waiting = text
            if _counts(text, None, ids):
                keys = _keys(frame)
                yield Word(text=text, file=path, line=line, keys=keys, frame=frame, is_key=True)
        else:
            last, frame.waiting = (frame.waiting if frame.is_map else frame.key), None
            if frame.is_map and text and (last or "").lower() in _NAMES:
                frame.names[(last or "").lower()] = text
            if _counts(text, last, ids):
                keys = (*_keys(frame), last or "") if frame.is_map else _keys(frame)
                yield Word(text=text, file=path, line=line, keys=keys, frame=frame)


def _keys(frame: _Frame) -> tuple[str, ...]:
    """Return the keys that lead to a map or list, outermost first; a list's own key once."""
    inner = [outer.key for outer in _outwards(frame) if outer.above is None or outer.above.is_map]
    return tuple(key for key in reversed(inner) if key is not None)


def _outwards(frame: _Frame | None) -> Iterator[_Frame]:
    for _ in range(32):  # keys farther out say nothing about a word
        if frame is None:
            return
        yield frame
        frame = frame.above


_READERS: Mapping[str, Callable[[str, Path, Collection[str]], Iterator[Word]]] = {
    ".py": _python,
    ".json": _json,
    ".yaml": _yaml,
    ".yml": _yaml,
}
