"""Read the configuration files that a script loaded: their keys with lines, and their readers.

YAML and JSON are parsed by PyYAML's event parser, which builds no objects and keeps duplicate keys;
TOML, which rejects duplicates itself, is read line by line. A file of another format, or one that
cannot be parsed, has no settings.
"""

from __future__ import annotations

import ast
import difflib
import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]  # only its event parser, which builds no objects

from hotloop.core.finding import SourceLocation
from hotloop.rules.support.config_reads import reads
from hotloop.rules.support.syntax import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hotloop.core.case.case import Case
    from hotloop.core.case.environment import Config
    from hotloop.rules.support.config_reads import Reads
    from hotloop.rules.support.syntax import Module

__all__ = ["ConfigKey", "Meant", "near", "own", "requested", "settings", "unread"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is not in every build of PyYAML
_NOT_READ = {"author", "comment", "description", "name", "notes", "project", "run_name", "tags"}
_MOST_KEYS = 2_000  # of a configuration file; a file with more keys is taken for data


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key of a configuration file, or of a request in the code."""

    key: str  # dotted
    value: str | None  # as source text; None: a section or a list
    place: SourceLocation | None
    first: SourceLocation | None = None  # the same key, earlier in the same section
    first_value: str | None = None

    @property
    def name(self) -> str:
        """The last segment of the key."""
        return self.key.rpartition(".")[2]


def settings(config: Config) -> tuple[ConfigKey, ...]:
    """Return all keys of a file in their order, each section before its content."""
    if config.path.endswith(".toml"):
        return tuple(_toml(config))
    # JSON is YAML, except for tabs
    text = config.text.replace("\t", " ") if config.path.endswith(".json") else config.text
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        return tuple(s for e in events for s in _below(e, events, config.path, ""))
    except (yaml.YAMLError, RecursionError):
        return ()


def own(case: Case) -> Iterator[Config]:
    """Yield the configuration files that the project's own code loads, each once."""
    for config in case.configs:
        if config.place is not None and 0 < len(settings(config)) <= _MOST_KEYS:
            yield config


def requested(case: Case, names: Iterable[str]) -> list[ConfigKey]:
    """Return the settings with one of these names in the code, or in keys that the code reads."""
    wanted = set(names)
    requested_keys = [ConfigKey(key=k, value=v, place=None) for k, v in case.requested.items()]
    for config in own(case):
        if (file_reads := _read(case, config)) is not None:
            last = {s.key: s for s in settings(config) if s.key in file_reads.keys}
            requested_keys += last.values()
    return [
        setting
        for setting in requested_keys
        if setting.name in wanted and setting.value is not None
    ]


def unread(case: Case) -> list[ConfigKey]:
    """Return the topmost settings that certainly no program of the project reads.

    A file is skipped if it cannot be followed through the code, or if most of its keys would be
    unread (labels, a vocabulary). A key counts as read if its name occurs in the code, or in
    another program.
    """
    unread_keys: list[ConfigKey] = []
    known = _names(case)
    for config in own(case):
        file_reads, others = _read(case, config), config.elsewhere
        if file_reads is None or others is None:
            continue
        by_key = {s.key: s for s in settings(config)}
        unread_in_file = [
            s
            for s in by_key.values()
            if not (
                s.name in known
                or s.name in others
                or s.key in file_reads.keys
                or file_reads.covers(s.key)
            )
        ]
        keys = {s.key for s in unread_in_file}
        if len(unread_in_file) <= len(by_key) / 2:
            unread_keys += [s for s in unread_in_file if s.key.rpartition(".")[0] not in keys]
    return [s for s in unread_keys if s.name not in _NOT_READ and s.name[:1] not in "_$<"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """The key that an unread one is probably a misspelling of."""

    name: str
    asked: Mapping[ast.AST, Module]  # the expressions that read it with a default


def near(case: Case, setting: ConfigKey) -> Meant | None:
    """Return the key that the unread `setting` is probably a misspelling of, or None.

    The code reads that key in the same section with a default, and no file has it.
    """
    files = [config for config in own(case) if any(s == setting for s in settings(config))]
    present = {s.key for config in own(case) for s in settings(config)}
    section = setting.key.rpartition(".")[0]
    for config in files:
        file_reads = _read(case, config)
        candidates = (set(file_reads.asked) if file_reads is not None else set()) - present
        names = [
            n for above, _, n in (key.rpartition(".") for key in candidates) if above == section
        ]
        if close := difflib.get_close_matches(setting.name, sorted(names), n=1, cutoff=0.8):
            key = f"{section}.{close[0]}" if section else close[0]
            return Meant(name=close[0], asked=file_reads.asked[key] if file_reads else {})
    return None


def _read(case: Case, config: Config) -> Reads | None:
    assert config.place is not None
    return _followed(tuple(case.sources.items()), config.place)


@functools.lru_cache(maxsize=32)
def _followed(sources: tuple[tuple[str, str], ...], place: SourceLocation) -> Reads | None:
    return reads(parse(dict(sources)), place)


def _below(event: Any, events: Iterator[Any], path: str, prefix: str) -> Iterator[ConfigKey]:
    """Yield the keys of a map or list that `event` starts; nothing for any other event."""
    if isinstance(event, yaml.SequenceStartEvent):
        while not isinstance(child := next(events), yaml.SequenceEndEvent):
            yield from _below(child, events, path, prefix)
    if not isinstance(event, yaml.MappingStartEvent):
        return
    first_by_name: dict[str, ConfigKey] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        is_named = isinstance(key, yaml.ScalarEvent)
        if not is_named:
            yield from _below(key, events, path, prefix)
        value = next(events)
        name = prefix + (str(key.value) if is_named else "?")
        first = first_by_name.get(name) if is_named else None
        setting = ConfigKey(
            key=name,
            value=str(value.value) if isinstance(value, yaml.ScalarEvent) else None,
            place=SourceLocation(file=path, line=key.start_mark.line + 1),
            first=first.place if first else None,
            first_value=first.value if first else None,
        )
        first_by_name[name] = setting
        yield setting
        yield from _below(value, events, path, f"{name}.")


def _toml(config: Config) -> Iterator[ConfigKey]:
    section = ""
    for number, line in enumerate(config.text.splitlines(), 1):
        place = SourceLocation(file=config.path, line=number)
        if header := re.match(r"\s*\[\[?\s*([\w.\"-]+)\s*\]", line):
            section = header[1].replace('"', "") + "."
            yield ConfigKey(key=section[:-1], value=None, place=place)
        elif pair := re.match(r"\s*([\w.-]+)\s*=\s*([^#]*)", line):
            yield ConfigKey(key=section + pair[1], value=pair[2].strip().strip("\"'"), place=place)


def _names(case: Case) -> set[str]:
    """Return all names in the code: variables, attributes, strings that are not dict keys."""
    names: set[str] = set()
    for module in parse(case.sources).modules:
        written = {id(k) for n in module.nodes if isinstance(n, ast.Dict) for k in n.keys}
        for node in module.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in written
                and not re.search(r"\s", node.value)
            ):
                # "--weight-decay" is an option's name
                names.update(node.value.lstrip("-").replace("-", "_").split("."))
    return names
