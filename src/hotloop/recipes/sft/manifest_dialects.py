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

__all__ = ["Dialect", "Meaning", "dialect_of", "unknown"]

Outcome = Literal["field", "idle", "other", "data", "model", "token", "refused", "default"]
_NUMBER = re.compile(r"\[\d+\]")
_NAMES = ("sections", "axolotl", "trainer")
# Words that mean something only in their own section.
_VAGUE = frozenset(
    ("name", "path", "data", "model", "description", "expert", "dataset", "loss", "params", "type")
)


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
        plain = _NUMBER.sub("[]", key)
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
        return key in self.marks or key.startswith(
            tuple(mark for mark in (*self.marks, *self._heads()) if not mark[-1].isalnum())
        )

    def _heads(self) -> list[str]:
        return [f"{section}." for section in self.sections]

    def _inner(self, key: str) -> list[str]:
        """Return the key inside of a section; the last word of it, if that is not vague."""
        head = next((head for head in self._heads() if key.startswith(head)), None)
        if head is None:
            return []
        inner, last = key.removeprefix(head), key.rpartition(".")[2]
        is_whole = "." in head[:-1]  # a section of a section: no other has keys of such a name
        return [inner] if is_whole else [] if last in _VAGUE else [last]

    def _exact(self, name: str) -> Meaning | None:
        if found := self._in_table(name):
            return found
        known = SPELLINGS.get(name)
        return None if known is None else Meaning(key=name, outcome="field", name=known.name)

    def _in_table(self, name: str) -> Meaning | None:
        return self.meanings.get(name) or _dialect("trainer").meanings.get(name)


def dialect_of(keys: Iterable[str]) -> Dialect:
    """Return the dialect of a file by its keys; the short form has all of the Trainer's, too."""
    keys = list(keys)
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
