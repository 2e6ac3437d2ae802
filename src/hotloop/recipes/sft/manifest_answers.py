"""The outcome of each field of an expert's manifest: in effect, not needed here, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.schema import Plain, show, typed

__all__ = ["Answer", "AnswerCollector", "ManifestField", "Word"]

Word = Literal["in effect", "not needed here", "refused"]
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestField:
    """A field of a manifest with its value."""

    key: str  # as spelt in the manifest
    place: str  # FILE:LINE
    raw: object  # the JSON value
    value: object  # the value as converted by its Field

    @property
    def text(self) -> str:
        """Return the field as key=value."""
        return f"{show(Plain(self.key))}={show(self.raw)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one field. Where several fields share a setting, only one answer has it."""

    field: ManifestField
    word: Word
    why: str
    settings: Mapping[str, object]  # dotted key -> value

    @property
    def text(self) -> str:
        """Return the answer as a line."""
        became = ", ".join(f"{key}={typed(value)}" for key, value in self.settings.items())
        word = f"{self.word}{became and f' as {became}'}"
        return f"{self.field.place}: {self.field.text}: {word}: {self.why}"


@dataclass(slots=True)
class AnswerCollector:
    """Collects the answers and the problems while rules go through the fields."""

    fields: Mapping[str, ManifestField]  # by the canonical name of the field
    answers: dict[str, Answer] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # a line each

    def value(self, name: str) -> Any:
        """Return the value of a field; None where it is absent or null."""
        return self.fields[name].value if name in self.fields else None

    def effect(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that a field is in effect."""
        self._answer(name, "in effect", why, settings)

    def idle(self, name: str, why: str) -> None:
        """Answer that a field is not needed here."""
        self._answer(name, "not needed here", why)

    def unset(self, name: str, why: str) -> None:
        """Answer that a field is null, which means the same as an absent field."""
        field = self.fields[name]
        self.answers[name] = Answer(field=field, word="not needed here", why=why, settings=_NOTHING)

    def refuse(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that the run ignores the request of a field and continues."""
        self._answer(name, "refused", why, settings)

    def clash(self, names: tuple[str, ...], why: str) -> None:
        """Record a problem of some fields; its line begins with the place of the first one."""
        first, *others = (self.fields[name] for name in names)
        fields_text = " and ".join(
            [first.text, *(f"{other.text} ({other.place})" for other in others)]
        )
        self.problems.append(f"{first.place}: {fields_text}: {why}")

    def _answer(
        self, name: str, word: Word, why: str, settings: Mapping[str, object] = _NOTHING
    ) -> None:
        if self.value(name) is not None:  # rules need not ask whether a field is there
            field = self.fields[name]
            self.answers[name] = Answer(field=field, word=word, why=why, settings=settings)
