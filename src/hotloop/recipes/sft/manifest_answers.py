"""The outcome of each field of an expert's manifest: in effect, not needed here, or refused."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from hotloop.config.schema import Plain, show, typed
from hotloop.recipes.sft.manifest_fields import SPELLINGS

__all__ = ["Answer", "AnswerCollector", "ManifestField", "Word", "decides", "is_secret"]

Word = Literal["in effect", "not needed here", "other program's", "refused"]
# Last words of keys whose values are never shown or kept, and values that give themselves away.
_SECRET_KEY = re.compile(
    r"(?i)(^|_)(token|key|secret|password|passwd|credentials?|auth|authorization)$"
)
_SECRET_VALUE = re.compile(
    r"(?i)\b(hf|gh[pousr]|sk|xox[abp]|glpat)[-_][\w-]{6,}|\bAKIA\w{12,}"
    r"|://[^/\s:@]+:[^@\s]+@|\bbearer\s+\S+|(token|key|secret|password)=\S+"
)
_NO_SECRETS = ("eos", "bos", "unk", "pad", "sep", "cls", "mask", "use_auth")  # tokens; true, false
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
        if is_secret(self.key, self.raw):
            return f"{show(Plain(self.key))}=…"
        return f"{show(Plain(self.key))}={show(self.raw)}"


def is_secret(key: str, value: object) -> bool:
    """Return whether a value must not be shown or kept, by its key's last word or by itself."""
    last = key.rpartition(".")[2]
    named = _SECRET_KEY.search(last) is not None
    is_harmless = last in SPELLINGS or last.lower().removesuffix("_token") in _NO_SECRETS
    return (named and not is_harmless) or _SECRET_VALUE.search(str(value)) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The outcome of one field. Where several fields share a setting, only one answer has it."""

    item: ManifestField
    word: Word
    why: str
    settings: Mapping[str, object] = field(default_factory=dict)  # dotted key -> value
    beside: tuple[ManifestField, ...] = ()  # fields that contradict it, without other answers
    is_typed: bool = False  # whether the command line decides its settings

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
    given: Mapping[str, object]  # settings of the command line
    answers: dict[str, Answer] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Return the value of a field; None where it is absent."""
        return self.fields[name].value if name in self.fields else None

    def effect(self, name: str, why: str, settings: Mapping[str, object] = _NOTHING) -> None:
        """Answer that a field is in effect, unless the command line decides its settings."""
        typed_keys = [key for key in settings if key in self.given]
        if typed_keys and len(typed_keys) == len(settings):
            self._answer(name, "not needed here", decides(typed_keys), is_typed=True)
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
        self,
        name: str,
        word: Word,
        why: str,
        settings: Mapping[str, object] = _NOTHING,
        *,
        is_typed: bool = False,
    ) -> None:
        if name in self.fields:  # rules need not ask whether a field is there
            item = self.fields[name]
            answer = Answer(item=item, word=word, why=why, settings=settings, is_typed=is_typed)
            self.answers.setdefault(name, answer)


def decides(keys: Collection[str]) -> str:
    """Return that settings of the command line decide."""
    return f"{' and '.join(f'{key}=…' for key in keys)} on the command line decides"
