"""What each key of other people's training files means here: one table of data per dialect.

The tables lie in the folder dialects; their first lines say how to read them.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Literal

from hotloop.config.schema import Plain, show
from hotloop.core.errors import did_you_mean
from hotloop.recipes.sft.manifest_fields import FIELDS, SPELLINGS

__all__ = ["INDEX", "Dialect", "Meaning", "dialect_of", "unknown"]

Outcome = Literal["field", "idle", "other", "data", "model", "token", "rope", "refused", "default"]
INDEX = re.compile(r"\[\d+\]")
_NAMES = ("sections", "axolotl", "trainer")
# Words that mean something only in their own section, and those of adapters only in these.
_VAGUE = ("name", "path", "data", "model", "description", "expert", "dataset", "loss", "type")
_OF_ADAPTERS = ("r", "rank", "alpha", "dropout", "adapter")
_OWN = ("lora", "lora_config", "qlora", "peft", "peft_config", "adapter", "adapters[]", "config")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What a key of a file means."""

    key: str
    outcome: Outcome
    name: str = ""  # of a field of the short form, where the outcome is one
    values: Mapping[str, str] = field(default_factory=dict)  # value -> the field's; * is any other
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The spellings of one program, or of one kind of project."""

    name: str
    meanings: Mapping[str, Meaning] = field(default_factory=dict)  # by key
    defaults: tuple[Meaning, ...] = ()  # `values` has the value of a key that is missing
    marks: tuple[str, ...] = ()  # keys, or the beginnings of keys, that only it has
    sections: tuple[str, ...] = ()  # in which the Trainer's keys are found

    def meaning(self, key: str) -> Meaning | None:
        """Return what a key means; None if nothing here knows it."""
        plain = INDEX.sub("[]", key)
        names = [plain, *self._inner(plain)]
        for name in names:
            if found := self._exact(name):
                return found
        for name in names:
            for end in [len(name), *(at.start() for at in re.finditer(r"\.|\[", name))][::-1]:
                if found := self._in_table(f"{name[:end]}.*"):
                    return found
        return None

    def has_mark(self, key: str) -> bool:
        """Return whether a key tells that a file is of this dialect."""
        begins = (*(f"{mark}{end}" for mark in self.marks for end in ".["), *self._heads())
        return key in self.marks or key.startswith(begins)

    def _heads(self) -> list[str]:
        return [f"{section}." for section in self.sections]

    def _inner(self, key: str) -> list[str]:
        """Return the key inside of the section it is in, if its words mean something there."""
        heads = [head for head in self._heads() if key.startswith(head)]
        if not heads:
            return []
        head = max(heads, key=len)
        inner, section = key.removeprefix(head), head[:-1].rpartition(".")[2]
        is_vague = inner in _VAGUE or (inner in _OF_ADAPTERS and section not in _OWN)
        return [] if is_vague else [inner]

    def _exact(self, name: str) -> Meaning | None:
        if found := self._in_table(name):
            return found
        known = SPELLINGS.get(name)
        return None if known is None else Meaning(key=name, outcome="field", name=known.name)

    def _in_table(self, name: str) -> Meaning | None:
        return self.meanings.get(name) or _dialect("trainer").meanings.get(name)


def dialect_of(keys: Iterable[str]) -> Dialect:
    """Return the dialect of a file by its keys; the short form has all of the Trainer's, too."""
    keys = [INDEX.sub("[]", key) for key in keys]
    dialects = map(_dialect, _NAMES)
    return next((one for one in dialects if any(map(one.has_mark, keys))), Dialect(name="short"))


def unknown(key: str, dialect: Dialect) -> str:
    """Return what to say of a key that nothing knows."""
    last = key.rpartition(".")[2]
    near = did_you_mean(key, SPELLINGS) or did_you_mean(last, SPELLINGS)
    if dialect.name == "short" and not near:
        near = f"; known: {', '.join(FIELDS)}"
    return f"unknown key{near}; ignore={show(Plain(key))} on the command line trains without it"


@functools.cache
def _dialect(name: str) -> Dialect:
    text = resources.files(__package__).joinpath("dialects", f"{name}.tsv").read_text("utf-8")
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    meanings = [_meaning(*row) for row in rows if row[1] not in ("mark", "inside")]
    return Dialect(
        name=name,
        meanings={one.key: one for one in meanings if one.outcome != "default"},
        defaults=tuple(one for one in meanings if one.outcome == "default"),
        marks=tuple(row[0] for row in rows if row[1] == "mark"),
        sections=tuple(row[0] for row in rows if row[1] == "inside"),
    )


def _meaning(key: str, word: str, values: str, why: str) -> Meaning:
    pairs = (value.partition("=") for value in values.split())
    is_field = word.startswith("=")
    return Meaning(
        key=key,
        outcome="field" if is_field else word,  # type: ignore[arg-type] # a test reads them all
        name=word[1:] if is_field else "",
        values={first: last if sign else first for first, sign, last in pairs},
        why=why,
    )
