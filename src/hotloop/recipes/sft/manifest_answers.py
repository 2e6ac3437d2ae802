"""What came of each field of an expert's manifest: in effect, not needed here, or refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.values import Plain, show, typed

__all__ = ["Answer", "AnswerCollector", "ManifestField", "Word"]

Word = Literal["in effect", "not needed here", "refused"]
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestField:
    """A field as a manifest gives it."""

    key: str  # as it was spelt
    place: str  # FILE:LINE
    raw: object  # as it was written
    value: object  # as its Field reads it

    @property
    def text(self) -> str:
        """Return it as key=value."""
        return f"{show(Plain(self.key))}={show(self.raw)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one field. Where fields share a setting, one of them has it."""

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

    fields: Mapping[str, ManifestField]  # by the field's own name
    answers: dict[str, Answer] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # a line each

    def value(self, name: str) -> Any:
        """Return what a field says; None where it is absent or null."""
        return self.fields[name].value if name in self.fields else None

    def effect(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that a field is in effect."""
        self._answer(name, "in effect", why, settings)

    def idle(self, name: str, why: str) -> None:
        """Answer that a field is not needed here."""
        self._answer(name, "not needed here", why)

    def unset(self, name: str, why: str) -> None:
        """Answer that a field is null, and so as good as absent."""
        field = self.fields[name]
        self.answers[name] = Answer(field=field, word="not needed here", why=why, settings=_NOTHING)

    def refuse(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that the run goes on without what a field asks for."""
        self._answer(name, "refused", why, settings)

    def clash(self, names: tuple[str, ...], why: str) -> None:
        """Note that fields cannot stand like this; the first one gives the place."""
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
