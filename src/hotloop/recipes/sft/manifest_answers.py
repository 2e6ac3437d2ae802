"""The outcome of each field of an expert's manifest: in effect, not needed here, or refused."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.schema import Plain, show, typed

__all__ = ["SECRET", "Answer", "AnswerCollector", "ManifestField", "Word"]

Word = Literal["in effect", "not needed here", "other program's", "refused"]
# Keys whose values are never shown or kept; eos_token is none of them.
SECRET = re.compile(
    r"(?i)((hub|hf|auth|access|api|wandb)_token|^token)$|secret|password|api_?key|credential"
)
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestField:
    """A field of a manifest with its value."""

    key: str  # as spelt in the manifest
    place: str  # FILE:LINE
    raw: object  # the value in the file; the ellipsis for several keys
    value: object = None  # the value as converted by its Field
    why: str = ""  # why it has this value, where the file does not say it

    @property
    def text(self) -> str:
        """Return the field as key=value."""
        if self.raw is ...:
            return show(Plain(self.key))
        if SECRET.search(self.key):
            return f"{show(Plain(self.key))}=…"
        return f"{show(Plain(self.key))}={show(self.raw)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one field. Where several fields share a setting, only one answer has it."""

    item: ManifestField
    word: Word
    why: str
    settings: Mapping[str, object] = field(default_factory=dict)  # dotted key -> value
    beside: tuple[ManifestField, ...] = ()  # fields that contradict it, which have no other answer

    @property
    def became(self) -> str:
        """Return the settings as they would be typed."""
        return ", ".join(f"{key}={typed(value)}" for key, value in self.settings.items())

    @property
    def text(self) -> str:
        """Return the answer as a line."""
        word = f"{self.word}{self.became and f' as {self.became}'}"
        return f"{self.place}: {self.keys}: {word}: {self.why}"

    @property
    def problem(self) -> str:
        """Return the line of an error, for a refused field."""
        return f"{self.place}: {self.keys}: {self.why}"

    @property
    def place(self) -> str:
        """Return FILE:LINE; FILE alone for several keys."""
        return self.item.place

    @property
    def keys(self) -> str:
        """Return the field, and those that contradict it, as key=value."""
        others = (f"{other.text} ({other.place})" for other in self.beside)
        return " and ".join([self.item.text, *others])


@dataclass(slots=True)
class AnswerCollector:
    """Collects the answers while rules go through the fields."""

    fields: Mapping[str, ManifestField]  # by the canonical name of the field
    given: Collection[str]  # settings of the command line
    answers: dict[str, Answer] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Return the value of a field; None where it is absent."""
        return self.fields[name].value if name in self.fields else None

    def effect(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that a field is in effect, unless the command line decides its settings."""
        typed_keys = [key for key in settings if key in self.given]
        if typed_keys and len(typed_keys) == len(settings):
            decides = (
                f"{' and '.join(f'{key}=…' for key in typed_keys)} on the command line decides"
            )
            self.idle(name, decides)
            return
        source = self.fields[name].why if name in self.fields else ""
        self._answer(name, "in effect", f"{why}; {source}" if source else why, settings)

    def idle(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that a field is not needed here."""
        self._answer(name, "not needed here", why, settings)

    def refuse(self, names: tuple[str, ...], why: str) -> None:
        """Answer that some fields cannot be done together, or that one cannot; the run stops."""
        first, *others = (self.fields[name] for name in names)
        self.answers[names[0]] = Answer(item=first, word="refused", why=why, beside=tuple(others))

    def _answer(
        self, name: str, word: Word, why: str, settings: Mapping[str, object] = _NOTHING
    ) -> None:
        if name in self.fields:  # rules need not ask whether a field is there
            answer = Answer(item=self.fields[name], word=word, why=why, settings=settings)
            self.answers.setdefault(name, answer)
