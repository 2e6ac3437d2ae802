"""Reads the configuration files a script opened: their keys with lines, and who reads them.

YAML and JSON go through PyYAML's event parser, which builds no objects and keeps a key that stands
twice; TOML, which refuses such keys itself, is read line by line. A file that is none of them, or
cannot be parsed, has no settings.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import yaml  # type: ignore[import-untyped]  # only its event parser, which builds no objects

from hotloop.core.finding import Place
from hotloop.judging.syntax import dotted, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hotloop.core.around import Config
    from hotloop.core.case import Case

__all__ = ["Setting", "asked", "near", "settings", "unread"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is not in every build of PyYAML
_NOT_READ = {"author", "comment", "description", "name", "notes", "project", "run_name", "tags"}
_HARMLESS = {"Namespace", "SimpleNamespace", "dict", "format", "init", "update"}  # take any key
_HOLDERS = {"args", "cfg", "conf", "config", "hparams", "opt", "options", "params", "settings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of a configuration file, or of what the code asks for."""

    key: str  # dotted
    value: str | None  # as it stands; None: a section or a list
    place: Place | None
    first: Place | None = None  # the same key, earlier in the same section
    first_value: str | None = None

    @property
    def name(self) -> str:
        """Return the last part of the key."""
        return self.key.rpartition(".")[2]


def settings(config: Config) -> tuple[Setting, ...]:
    """Return all keys of a file in their order, sections before what is in them."""
    if config.path.endswith(".toml"):
        return tuple(_toml(config))
    # JSON is YAML, but for tabs
    text = config.text.replace("\t", " ") if config.path.endswith(".json") else config.text
    try:
        events = iter(yaml.parse(text, Loader=_LOADER))
        return tuple(s for e in events for s in _below(e, events, config.path, ""))
    except (yaml.YAMLError, RecursionError):
        return ()


def asked(case: Case, names: Iterable[str]) -> list[Setting]:
    """Return what code and read configuration ask for under one of these names."""
    wanted, known = set(names), _names(case)
    found = [Setting(key=k, value=v, place=None) for k, v in case.requested.items()]
    nobody = set(unread(case))
    for config in case.configs:
        last = {s.key: s for s in settings(config) if config.read or s.name in known}
        found += [setting for setting in last.values() if setting not in nobody]
    return [setting for setting in found if setting.name in wanted and setting.value is not None]


def unread(case: Case) -> list[Setting]:
    """Return the settings that nobody reads.

    Where reading was tracked, by that; a section that was read and of which no key was read is
    taken to be handed on whole. Else a key counts as read whose name stands anywhere in the code.
    """
    found: list[Setting] = []
    names = _names(case)
    whole = _handed_on(case)
    for config in case.configs:
        if config.read:
            found += _untracked(settings(config), set(config.read))
        elif config.place is not None and "*" not in whole:
            values = [setting for setting in settings(config) if setting.value is not None]
            left = [s for s in values if s.name not in names and not whole & set(s.key.split("."))]
            # of a file the code does not read by key (labels, a vocabulary) nearly all is left
            found += left if len(left) <= len(values) / 2 else []
    return [s for s in found if s.name not in _NOT_READ and s.name[:1] not in "_$<"]


def near(case: Case, setting: Setting) -> str | None:
    """Return the key that the code reads, no file has and `setting` may be meant to be."""
    there = {s.name for config in case.configs for s in settings(config)}
    read = {key.rpartition(".")[2] for config in case.configs for key in config.read or ()}
    known = (read | set(_keys(case))) - there
    found = difflib.get_close_matches(setting.name, sorted(known), n=1, cutoff=0.8)
    return found[0] if found else None


def _below(event: Any, events: Iterator[Any], path: str, prefix: str) -> Iterator[Setting]:
    """Yield what stands in a map or list that `event` starts; nothing for any other event."""
    if isinstance(event, yaml.SequenceStartEvent):
        while not isinstance(child := next(events), yaml.SequenceEndEvent):
            yield from _below(child, events, path, prefix)
    if not isinstance(event, yaml.MappingStartEvent):
        return
    seen: dict[str, Setting] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        named = isinstance(key, yaml.ScalarEvent)
        if not named:
            yield from _below(key, events, path, prefix)
        value = next(events)
        name = prefix + (str(key.value) if named else "?")
        first = seen.get(name) if named else None
        setting = Setting(
            key=name,
            value=str(value.value) if isinstance(value, yaml.ScalarEvent) else None,
            place=Place(file=path, line=key.start_mark.line + 1),
            first=first.place if first else None,
            first_value=first.value if first else None,
        )
        seen[name] = setting
        yield setting
        yield from _below(value, events, path, f"{name}.")


def _toml(config: Config) -> Iterator[Setting]:
    section = ""
    for number, line in enumerate(config.text.splitlines(), 1):
        place = Place(file=config.path, line=number)
        if header := re.match(r"\s*\[\[?\s*([\w.\"-]+)\s*\]", line):
            section = header[1].replace('"', "") + "."
            yield Setting(key=section[:-1], value=None, place=place)
        elif pair := re.match(r"\s*([\w.-]+)\s*=\s*([^#]*)", line):
            yield Setting(key=section + pair[1], value=pair[2].strip().strip("\"'"), place=place)


def _untracked(found: Sequence[Setting], read: set[str]) -> Iterator[Setting]:
    """Yield the topmost keys that were not read."""
    inner = {key.rpartition(".")[0] for key in read}
    left: set[str] = set()
    for setting in found:
        parts = setting.key.split(".")
        above = [".".join(parts[:n]) for n in range(1, len(parts))]
        whole = any(key in read and key not in inner for key in above)
        if setting.key in read or setting.key in inner or whole or left & set(above):
            continue
        left.add(setting.key)
        yield setting


def _names(case: Case) -> set[str]:
    """Return all names the code reads: variables, attributes, strings that are no dict's keys."""
    found: set[str] = set()
    for module in parse(case.sources).modules:
        written = {id(k) for n in ast.walk(module.tree) if isinstance(n, ast.Dict) for k in n.keys}
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.update(node.value.split(".") if id(node) not in written else ())
    return found


def _keys(case: Case) -> Iterator[str]:
    """Yield the names under which the code reads settings."""
    for module in parse(case.sources).modules:
        for node in ast.walk(module.tree):
            given: ast.AST | None = None
            if isinstance(node, ast.Subscript):
                given = node.slice
            elif isinstance(node, ast.Call):
                at = {"get": 0, "pop": 0, "getattr": 1}.get(dotted(node.func).rpartition(".")[2])
                given = node.args[at] if at is not None and at < len(node.args) else None
            elif _holds(node):
                yield node.attr
            if isinstance(given, ast.Constant) and isinstance(given.value, str):
                yield given.value


def _holds(node: ast.AST) -> TypeGuard[ast.Attribute]:
    """Whether it is an attribute of what is commonly a configuration's name."""
    return isinstance(node, ast.Attribute) and dotted(node.value).rpartition(".")[2] in _HOLDERS


def _handed_on(case: Case) -> set[str]:
    """Return the sections that go to a library with `**`, whose keys it reads; "*": any key may."""
    code = parse(case.sources)
    own = set(code.functions)
    own |= {n.name for m in code.modules for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)}
    found: set[str] = set()
    for module in code.modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.Call):
                continue
            name = dotted(node.func).rpartition(".")[2]
            for word in node.keywords:
                if word.arg is None and name not in own | _HARMLESS:
                    found.add(_section(word.value))
    return found


def _section(node: ast.AST) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    return node.attr if isinstance(node, ast.Attribute) else "*"
