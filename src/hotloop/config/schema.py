"""Declares fields of configuration dataclasses, and converts a value to the type of its field.

Nothing is guessed, and nothing executed.
"""

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from hotloop.core.errors import ConfigError, did_you_mean

__all__ = [
    "QUOTED",
    "FieldRule",
    "Plain",
    "Setting",
    "changed",
    "convert",
    "expected",
    "flatten",
    "idle",
    "setting",
    "setting_text",
    "settings_of",
    "show",
    "typed",
]

# Scalars are those of YAML 1.2.2, section 10.3.2 (https://yaml.org/spec/1.2.2/), not of YAML 1.1,
# where `on` is true, 017 is 15 and 1:30 is 90; _ between digits comes from Python.
_NULLS = frozenset({"null", "Null", "NULL", "~"})
_BOOLS = MappingProxyType(
    {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
)
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*(_[0-9]+)*)")  # a leading 0 means different things: refused
_FLOAT = re.compile(r"[-+]?([0-9]+(_[0-9]+)*(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_DURATION = re.compile(r"(?:([0-9.]+)d)?(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s)?")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
QUOTED = ("[", "{", '"', "'")  # a typed value that starts so is YAML: a list, map or quoted text
_INT_LIMIT = 2**63 - 1  # what an int64 tensor holds
_SHOWN = 60  # characters of a value that a message repeats
T = TypeVar("T")


class Plain(str):
    """Text without quotes; the field decides whether it is a number, truth value, null or text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """The meaning of a field and its limits beyond the type; `*_open` excludes an end."""

    meaning: str
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    high_open: bool = False
    choices: tuple[str, ...] = ()
    duration: bool = False  # seconds; 11h, 90m, 1h30m and 45s are read too
    counts: bool = False  # a number of things: 3 stays a whole number beside 1.5
    before: object = None  # value of runs before the setting existed; None: the default

    def range(self) -> str:
        """Return the allowed range in words, with a leading space, or nothing."""
        low = f" {'above' if self.low_open else 'from'} {self.low}"
        high = f" {'below' if self.high_open else 'up to'} {self.high}"
        return ("" if self.low is None else low) + ("" if self.high is None else high)

    def allows(self, value: float) -> bool:
        """Return whether a number is in range."""
        too_low = self.low is not None and (
            value < self.low or (self.low_open and value == self.low)
        )
        too_high = self.high is not None and (
            value > self.high or (self.high_open and value == self.high)
        )
        return not too_low and not too_high


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One leaf of a schema."""

    key: str
    kind: object
    rule: FieldRule

    @property
    def is_map(self) -> bool:
        """Return whether the setting is a map, whose entries look like keys below it."""
        return get_origin(self.kind) is Mapping

    def text(self, value: object) -> str:
        """Return a value of this setting as it would be typed."""
        return typed(value, self.rule)


def setting(
    default: T,
    meaning: str,
    *,
    low: float | None = None,
    high: float | None = None,
    low_open: bool = False,
    high_open: bool = False,
    choices: Iterable[str] = (),
    duration: bool = False,
    counts: bool = False,
    before: object = None,
) -> T:
    """Declare a field with its default, its meaning and the limits of its values.

    `before` is the value of runs that were written before the setting existed, if it is not the
    default.
    """
    rule = FieldRule(
        meaning=meaning,
        low=low,
        high=high,
        low_open=low_open,
        high_open=high_open,
        choices=tuple(choices),
        duration=duration,
        counts=counts,
        before=before,
    )
    if isinstance(default, dict):
        return cast("T", dataclasses.field(default_factory=default.copy, metadata={"rule": rule}))
    return dataclasses.field(default=default, metadata={"rule": rule})


def settings_of(schema: type) -> Mapping[str, Setting]:
    """Return the leaves of a schema by dotted key, in the order of declaration."""
    return MappingProxyType({leaf.key: leaf for leaf in _leaves(schema, "")})


def _leaves(schema: type, prefix: str) -> Iterator[Setting]:
    kinds = get_type_hints(schema)
    for field in dataclasses.fields(schema):
        kind, key = kinds[field.name], prefix + field.name
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            yield from _leaves(kind, f"{key}.")
        else:
            yield Setting(key=key, kind=kind, rule=field.metadata["rule"])


def flatten(config: object) -> dict[str, Any]:
    """Return a configuration as {dotted key: JSON value}; a tuple becomes a list."""
    flat: dict[str, Any] = {}
    for key in settings_of(type(config)):
        value: Any = functools.reduce(getattr, key.split("."), config)
        if isinstance(value, tuple):
            value = list(value)
        flat[key] = dict(value) if isinstance(value, Mapping) else value
    return flat


def changed(config: object) -> dict[str, Any]:
    """Return the settings that differ from their defaults, in the form of `flatten`."""
    flat, defaults = flatten(config), flatten(type(config)())
    return {key: value for key, value in flat.items() if value != defaults[key]}


def idle(config: object, origins: Mapping[str, str], whys: Mapping[str, str]) -> dict[str, str]:
    """Return, by key, why each non-default setting among the keys of `whys` has no effect."""
    changes = changed(config)
    return {
        key: f"{setting_text(config, key, origins)} {why}"
        for key, why in whys.items()
        if key in changes
    }


def setting_text(config: object, key: str, origins: Mapping[str, str]) -> str:
    """Return 'key=value (origin)' for an error message; without an origin, 'key=value'."""
    text = f"{key}={settings_of(type(config))[key].text(flatten(config)[key])}"
    return f"{text} ({origins[key]})" if key in origins else text


def convert(kind: object, rule: FieldRule, raw: object) -> object:
    """Convert `raw` to `kind`: int, float, bool, str, Literal, tuple of floats, map, or X | None.

    Raises ConfigError "expected ..., got ..."; the caller adds the key and the place.
    """
    inner, optional = _without_none(kind)
    empty = raw is None or (isinstance(raw, Plain) and raw in _NULLS)
    if empty and optional:
        return None
    value = None if empty else _read(inner, rule, raw)
    numbers = value if isinstance(value, tuple) else (value,)
    if value is None or not all(rule.allows(n) for n in numbers if isinstance(n, int | float)):
        choices = _choices(inner, rule)
        hint = did_you_mean(raw.lower(), choices) if isinstance(raw, str) else ""
        raise ConfigError(f"expected {expected(kind, rule)}, got {show(raw)}{hint}")
    return int(value) if rule.counts and isinstance(value, float) and value % 1 == 0 else value


def expected(kind: object, rule: FieldRule) -> str:
    """Return the allowed values of a field in words, for an error or a reference page."""
    inner, optional = _without_none(kind)
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if choices := _choices(inner, rule):
        text = f"one of {', '.join(choices)}"
    elif get_origin(inner) is tuple:
        text = f"a list of {len(get_args(inner))} numbers{rule.range()}"
    elif get_origin(inner) is Mapping:
        text = "a map {name: text}"
    elif rule.duration:
        text = f"a time{rule.range()} in seconds or like 45s, 90m, 1h30m"
    else:
        text = words[inner] + rule.range()  # type: ignore[index]  # a type outside is our mistake
    return f"{text} or null" if optional else text


def show(value: object) -> str:
    """Return a value as one printable line of at most `_SHOWN` characters, for a message."""
    if isinstance(value, str):
        plain = value.isprintable() and value == value.strip() != ""
        text = str(value) if plain and isinstance(value, Plain) else repr(str(value))
    elif isinstance(value, list | tuple):
        flat = not any(isinstance(item, list | tuple | Mapping) for item in value)
        text = f"[{', '.join(map(show, value))}]" if flat else "a list of lists or maps"
    elif isinstance(value, Mapping):
        text = f"a map with {', '.join(show(Plain(key)) for key in value)}" if value else "{}"
    elif isinstance(value, bool):
        text = str(value).lower()
    else:
        text = "null" if value is None else f"{value}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def typed(value: object, rule: FieldRule | None = None) -> str:
    """Return the full value of a setting, as a user would type it."""
    if isinstance(value, str):
        bare = value.isprintable() and value not in _NULLS and not value.startswith(QUOTED)
        return value if bare else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(typed, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{typed(key)}: {typed(item)}' for key, item in value.items())}}}"
    if rule is not None and rule.duration and isinstance(value, int | float):
        return _duration_text(value)
    return show(value)


def _without_none(kind: object) -> tuple[object, bool]:
    if get_origin(kind) not in (Union, UnionType):
        return kind, False
    inner = [arg for arg in get_args(kind) if arg is not NoneType]
    assert len(inner) == 1, f"a field may be X or X | None, not {kind}"
    return inner[0], True


def _choices(kind: object, rule: FieldRule) -> tuple[str, ...]:
    return get_args(kind) if get_origin(kind) is Literal else rule.choices


def _read(kind: object, rule: FieldRule, raw: object) -> object:
    """Return `raw` converted to `kind`, or None where it does not fit."""
    if choices := _choices(kind, rule):
        return _choice(choices, raw)
    if get_origin(kind) is tuple:
        return _numbers(len(get_args(kind)), raw)
    if get_origin(kind) is Mapping:
        return _map(raw)
    if rule.duration:
        return _seconds(raw)
    return {int: _int, float: _float, bool: _bool, str: _text}[kind](raw)  # type: ignore[index]


def _int(raw: object) -> int | None:
    if isinstance(raw, Plain) and _INT.fullmatch(raw) and len(raw) <= _SHOWN:
        raw = int(raw)
    return raw if type(raw) is int and abs(raw) <= _INT_LIMIT else None


def _float(raw: object) -> float | None:
    small = type(raw) is int and abs(raw) <= _INT_LIMIT
    if small or (isinstance(raw, Plain) and _FLOAT.fullmatch(raw)):
        raw = float(raw)  # type: ignore[arg-type]  # `small` says that it is an int
    return raw if type(raw) is float and math.isfinite(raw) else None


def _seconds(raw: object) -> float | None:
    match = _DURATION.fullmatch(raw) if isinstance(raw, str) and raw else None
    if match is None:
        return _float(raw)
    total = 0.0
    for text, size in zip(match.groups(), _SECONDS.values(), strict=True):
        number = 0.0 if text is None else _float(Plain(text))
        if number is None:
            return None
        total += number * size
    return total if math.isfinite(total) else None


def _duration_text(seconds: float) -> str:
    text = ""
    for unit, size in _SECONDS.items():
        count = seconds if size == 1 else seconds // size
        seconds -= count * size
        text += f"{count:.12g}{unit}" if count else ""
    return text or "0s"


def _bool(raw: object) -> bool | None:
    return _BOOLS.get(raw) if isinstance(raw, Plain) else raw if isinstance(raw, bool) else None


def _text(raw: object) -> str | None:
    """Return clean text. Raises ConfigError for interpolations, control codes and surrogates."""
    if not isinstance(raw, str) or not raw:
        return None
    if "${" in raw:
        raise ConfigError(f"{show(raw)} is an interpolation, which is not read: write the value")
    for char in raw:
        if ord(char) < 32 or ord(char) == 127 or "\ud800" <= char <= "\udfff":
            raise ConfigError(f"{show(raw)} holds {char!a}, which no path or name here may hold")
    return str(raw)


def _choice(choices: tuple[str, ...], raw: object) -> str | None:
    truth = _bool(raw)
    word = raw if truth is None else str(truth).lower()
    return str(word) if isinstance(word, str) and word in choices else None


def _numbers(count: int, raw: object) -> tuple[float, ...] | None:
    if not isinstance(raw, list | tuple):
        return None
    numbers = tuple(n for n in map(_float, raw) if n is not None)
    return numbers if len(numbers) == len(raw) == count else None


def _map(raw: object) -> dict[str, str] | None:
    if not isinstance(raw, Mapping):
        return None
    texts: dict[str, str] = {}
    for name, value in raw.items():
        key, text = _text(name), _text(value)
        if key is None or text is None:
            return None
        texts[key] = text
    return texts
