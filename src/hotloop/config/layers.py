"""Reads settings from the command line, YAML and JSON as dotted keys; text stays text."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml  # type: ignore[import-untyped]  # only its event parser, which builds no objects

from hotloop.config.schema import QUOTED, Plain, show, typed
from hotloop.core.errors import ConfigError, UsageError

__all__ = [
    "COMMAND_LINE",
    "RESOLVED",
    "SettingsLayer",
    "parse_assignments",
    "parse_json",
    "parse_yaml",
    "read_config",
]

COMMAND_LINE = "command line"
RESOLVED = (
    "groups of Hydra are written as one file by python SCRIPT --cfg job --resolve > FILE.yaml"
)
_MAX_BYTES = 256 * 1024  # a configuration is a few KiB
_MAX_DEPTH = 16  # section, key, map, and some reserve for files of other programs
# Tokens of valid JSON: texts (and whether they are keys), brackets, words, numbers.
_TOKEN = re.compile(
    r'"[^"\\]*(?:\\.[^"\\]*)*"(?P<key>\s*:)?|[][{}]|-?(?:NaN|Infinity)|-?\d[\d.eE+-]*'
)
_LONGEST_NUMBER = 400  # digits; the largest float has 309
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is not in every build of PyYAML


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLayer:
    """Settings from one source. `values` maps dotted keys to raw values, not yet converted."""

    origin: str
    values: Mapping[str, object]
    origins: Mapping[str, str] = field(default_factory=dict)  # of keys with a more precise origin
    requested: bool = False  # set by the user: such settings never give way

    def where(self, key: str) -> str:
        """Return the origin of a key's value."""
        return self.origins.get(key, self.origin)


@dataclass(frozen=True, slots=True)
class _Map:
    """A parsed map, in which a key may occur twice."""

    entries: Sequence[tuple[str, str, object]]  # key, place, value


def parse_assignments(args: Sequence[str]) -> SettingsLayer:
    """Return the settings of `key=value` arguments.

    A value is taken literally, unless it starts with [ { " or ': then it is read as a YAML list,
    map or quoted text. Raises UsageError for an argument of another form, ConfigError for a value.
    """
    entries = []
    for arg in args:
        key, sign, text = arg.partition("=")
        if not sign or not key:
            raise UsageError(f"{show(arg)} is not of the form key=value (no space around =)")
        if not text:
            raise ConfigError(f"{COMMAND_LINE}: {show(Plain(key))} has no value; null unsets it")
        entries.append((key, COMMAND_LINE, _typed(key, text)))
    return _flatten(_Map(entries), COMMAND_LINE)


def read_config(path: Path, *, numbers: bool = False) -> SettingsLayer:
    """Return the settings of a YAML or JSON file.

    With `numbers`, the maps in a list have keys such as `models[0].name`; without, they are
    refused. Raises ConfigError with the line at fault.
    """
    name = typed(str(path))
    if path.is_dir():
        raise ConfigError(f"{name}: cannot be read: it is a folder; {RESOLVED}")
    parsers = {".json": parse_json, ".yaml": parse_yaml, ".yml": parse_yaml}
    parser = parsers.get(path.suffix.lower())
    if parser is None:
        raise ConfigError(f"{name}: expected a .yaml, .yml or .json file")
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"{name}: cannot be read: {error}") from error
    return parser(data, name, numbers=numbers)


def parse_yaml(data: bytes, name: str, *, numbers: bool = False) -> SettingsLayer:
    """Return the settings of a YAML document without anchors, aliases and tags.

    Raises ConfigError with the line at fault.
    """
    root = _yaml(_decode(data, name), name)
    return _flatten(_top(_Map([]) if root is None else root, name), name, numbers=numbers)


def parse_json(data: bytes, name: str, *, numbers: bool = False) -> SettingsLayer:
    """Return the settings of a JSON object. Raises ConfigError with the line at fault."""
    text = _decode(data, name)
    lines = _key_lines(text)

    def pairs(items: list[tuple[str, object]]) -> _Map:
        item_lines = zip(items, next(lines), strict=True)
        return _Map([(key, f"{name}:{line}", value) for (key, value), line in item_lines])

    def refuse(word: str) -> NoReturn:
        line = next(line for line, token in _tokens(text) if token[0] == word)
        raise ConfigError(f"{name}:{line}: not valid JSON: {show(Plain(word))} is not JSON")

    def integer(digits: str) -> int:
        return int(digits) if len(digits) <= _LONGEST_NUMBER else refuse(digits)

    try:
        root = json.loads(text, object_pairs_hook=pairs, parse_constant=refuse, parse_int=integer)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name}:{error.lineno}: not valid JSON: {error.msg}") from error
    except RecursionError as error:
        raise ConfigError(f"{name}:{_deep(text)}: not valid JSON: nested too deep") from error
    return _flatten(_top(root, name), name, numbers=numbers)


def _tokens(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    line, position = 1, 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", position, token.start())
        position = token.start()
        yield line, token


def _key_lines(text: str) -> Iterator[list[int]]:
    """Yield, for each JSON object when it closes, the lines of its keys.

    The parser requests the lines of an object once it is complete, so the text read here is always
    valid JSON.
    """
    opened: list[list[int]] = []
    for line, token in _tokens(text):
        if token["key"]:
            opened[-1].append(line)
        elif token[0] == "{":
            opened.append([])
        elif token[0] == "}":
            yield opened.pop()


def _deep(text: str) -> int:
    """Return the line where nesting exceeds the depth of a configuration."""
    depth = 0
    for line, token in _tokens(text):
        depth += (token[0] in "[{") - (token[0] in "]}")
        if depth > _MAX_DEPTH:
            return line
    return 1


def _decode(data: bytes, name: str) -> str:
    if len(data) > _MAX_BYTES:
        raise ConfigError(f"{name}: larger than {_MAX_BYTES // 1024} KiB, not a configuration")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{name}:{line}: not UTF-8 (byte {error.start})") from error


def _top(root: object, name: str) -> _Map:
    if not isinstance(root, _Map):
        actual = "a list" if isinstance(root, list) else show(root)
        raise ConfigError(f"{name}: expected a map of settings, got {actual}")
    return root


def _flatten(root: _Map, origin: str, *, numbers: bool = False) -> SettingsLayer:
    """Return the settings by dotted key. Raises ConfigError for a key that occurs twice."""
    values: dict[str, object] = {}
    places: dict[str, str] = {}

    def walk(entries: Sequence[tuple[str, str, object]], prefix: str, depth: int) -> None:
        for name, place, value in entries:
            key = prefix + name
            if depth > _MAX_DEPTH:
                raise ConfigError(f"{place}: {show(Plain(prefix))} is nested too deep")
            if key in places:
                first = f" (first: {places[key]})" if places[key] != place else ""
                raise ConfigError(f"{place}: {show(Plain(key))} stands twice{first}; keep one")
            places[key] = place
            if isinstance(value, list) and any(isinstance(item, list | _Map) for item in value):
                if not numbers:
                    advice = f"; {RESOLVED}" if key == "defaults" else ""
                    raise ConfigError(
                        f"{place}: {show(Plain(key))}: a list may hold single values only{advice}"
                    )
                items = [(f"[{number}]", place, item) for number, item in enumerate(value)]
                walk(items, key, depth + 1)
            elif isinstance(value, _Map) and value.entries:
                walk(value.entries, f"{key}.", depth + 1)
            else:
                values[key] = {} if isinstance(value, _Map) else value

    walk(root.entries, "", 1)
    return SettingsLayer(origin=origin, values=values, origins=places, requested=True)


def _typed(key: str, text: str) -> object:
    if not text.startswith(QUOTED):
        return Plain(text)
    try:
        return _yaml(text, COMMAND_LINE)
    except (ConfigError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"{COMMAND_LINE}: {show(Plain(key))}: {show(Plain(text))} starts like a list, a map or"
            f" quoted text but is none ({error}); quote it once more if it is meant as it stands"
        ) from error


def _yaml(text: str, name: str) -> object:
    """Return the only document of a YAML text as None, Plain, str, list or _Map."""
    events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
    try:
        tree: object = None
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise ConfigError(f"{_at(name, event)}: a second document starts; keep one")
                tree = _node(next(events), events, name, 1)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{name}:{mark.line + 1}" if mark and name != COMMAND_LINE else name
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigError(f"{place}: not valid YAML: {problem}") from error
    return tree


def _at(name: str, event: Any) -> str:
    return name if name == COMMAND_LINE else f"{name}:{event.start_mark.line + 1}"


def _node(event: Any, events: Iterator[Any], name: str, depth: int) -> object:
    place = _at(name, event)
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
        raise ConfigError(f"{place}: anchors (&) and aliases (*) are not read: write the value")
    if event.tag is not None:
        raise ConfigError(f"{place}: the tag {show(event.tag)} is not read: write the plain value")
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{place}: nested deeper than {_MAX_DEPTH} levels")
    if isinstance(event, yaml.ScalarEvent):
        plain = event.implicit[0]
        return None if plain and not event.value else Plain(event.value) if plain else event.value
    children = []
    while not isinstance(child := next(events), yaml.CollectionEndEvent):
        children.append((_at(name, child), _node(child, events, name, depth + 1)))
    if isinstance(event, yaml.SequenceStartEvent):
        return [value for _, value in children]
    entries = []
    for (key_place, key), (_, value) in zip(children[::2], children[1::2], strict=True):
        if not isinstance(key, str):
            raise ConfigError(f"{key_place}: a key must be text")
        entries.append((str(key), key_place, value))
    return _Map(entries)
