"""Translates the keys of a training file into fields of the short form, or answers them at once."""

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotloop.config.layers import SettingsLayer
from hotloop.config.schema import Plain, show
from hotloop.core.errors import ConfigError, DataError
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.recipes.sft.manifest_answers import SECRET, Answer, ManifestField, Word
from hotloop.recipes.sft.manifest_dialects import Dialect, Meaning, dialect_of, unknown
from hotloop.recipes.sft.manifest_fields import FIELDS

__all__ = ["Translation", "hub_advice", "others_text", "translate"]

_OFF = ("null", "none", "false", "", "~")
_NUMBER = re.compile(r"\[\d+\]")
_INDEX = re.compile(r"^([^.\[]+)\[([1-9]\d*)\]|\.([^.\[]+)\[([1-9]\d*)\]")
_ONLY_ROWS = "data.path=… on the command line names the rows"
# Of two values of a field the more special one counts.
_SPECIAL = {"adapter_type": ("dora", "qlora", "lora", "none")}
_ALL = {"target_modules": "all-linear"}  # a value that has the others in it
_SHARES = ("logging_steps", "save_steps", "eval_steps")  # of transformers: below 1, of the run


@dataclass(slots=True)
class Translation:
    """What became of the keys of a file."""

    dialect: str
    fields: dict[str, ManifestField] = field(default_factory=dict)  # by canonical name
    answers: list[Answer] = field(default_factory=list)  # of keys that became no field
    others: dict[str, object] = field(default_factory=dict)  # values of other programs' keys
    comments: list[str] = field(default_factory=list)  # keys


def translate(
    layer: SettingsLayer, given: Mapping[str, object], ignored: Collection[str]
) -> Translation:
    """Return what each key of a file means.

    `given` are the settings of the command line, which decide what the file need not; `ignored`
    are keys and sections of the file that the user wants to be without.
    """
    dialect = dialect_of(layer.values)
    found = Translation(dialect=dialect.name)
    translator = _Translator(dialect=dialect, found=found, given=given, ignored=ignored)
    for key, raw in layer.values.items():
        translator.key(key, layer.where(key), raw)
    translator.late()
    present = {key for key, raw in layer.values.items() if not _is_off(raw)}
    for default in dialect.defaults:
        if default.key not in present:
            value = Plain(next(iter(default.values)))
            place = layer.where(default.key) if default.key in layer.values else layer.origin
            translator.default(default, place, value)
    return found


@dataclass(slots=True, kw_only=True)
class _Translator:
    dialect: Dialect
    found: Translation
    given: Mapping[str, object]
    ignored: Collection[str]
    waiting: list[tuple[Meaning, ManifestField]] = field(default_factory=list)  # for the model

    def key(self, key: str, place: str, raw: object) -> None:
        if any(part.startswith("_") for part in key.split(".")):
            self.found.comments.append(key)
            return
        meaning = self.dialect.meaning(key)
        item = ManifestField(key=key, place=place, raw=raw)
        if part := self._ignored(key):
            self._answer(item, "not needed here", f"ignore={part} on the command line")
        elif meaning is None and _is_off(raw):
            self._answer(item, "not needed here", "it is off, or empty")
        elif meaning is None:
            self._answer(item, "refused", unknown(key, self.dialect))
        elif meaning.outcome == "field":
            self._field(meaning, item)
        elif meaning.outcome == "other":
            self.found.others[key] = "left out" if SECRET.search(key) else raw
        elif meaning.outcome == "data":
            self._of_rows(meaning, item)
        elif meaning.outcome == "idle" and _allows(meaning, raw):
            self._answer(item, "not needed here", meaning.why)
        elif _is_off(raw):
            self._answer(item, "not needed here", "it is off, or empty")
        elif meaning.outcome in ("model", "token"):
            self.waiting.append((meaning, item))
        elif meaning.outcome == "idle":
            values = ", ".join(meaning.values)
            why = f"expected {'one of ' * (len(meaning.values) > 1)}{values}: {meaning.why}"
            self._answer(item, "refused", why)
        else:
            self._answer(item, "refused", meaning.why)

    def late(self) -> None:
        """Answer the keys that name the model once more, or tokens of its tokenizer."""
        model = self.found.fields.get("model")
        names = {str(one) for one in (self.given.get("model.name"), model and model.value) if one}
        for meaning, item in self.waiting:
            if meaning.outcome == "model" and (
                model is not None and _text(item.raw) == _text(model.raw)
            ):
                self._answer(item, "not needed here", "it is the model's own")
            elif meaning.outcome == "token" and _text(item.raw) == self._token(item, names):
                self._answer(item, "not needed here", "the model's tokenizer has it")
            else:
                remedy = f"or, if it is the same, ignore={item.key} on the command line"
                self._answer(item, "refused", f"{meaning.why}; {remedy}")

    def _token(self, item: ManifestField, models: Collection[str]) -> str | None:
        """Return the token of the model's tokenizer, if its folder is here."""
        for folder in map(Path, models):
            if folder.is_dir():
                with suppress(DataError):
                    specials = find_tokenizer(str(folder)).specials
                    return specials.get(item.key.rpartition(".")[2])
        return None

    def _ignored(self, key: str) -> str | None:
        """Return the part of `ignore` that means a key or the section it is in."""
        heads = [key, *(key[: at.start()] for at in re.finditer(r"[.\[]", key))]
        return next((head for head in heads if head in self.ignored), None)

    def default(self, meaning: Meaning, place: str, value: Plain) -> None:
        """Take the value that a missing key has, unless the field is there by another key."""
        known = self.dialect.meaning(meaning.key)
        if known is None or known.name in self.found.fields:
            return
        item = ManifestField(key=meaning.key, place=place, raw=value, why=meaning.why)
        self._field(known, item)

    def _field(self, meaning: Meaning, item: ManifestField) -> None:
        """Give a value to a field of the short form."""
        if (index := _index(item.key)) is not None:
            self._later(meaning, item, index)
            return
        if item.raw is None or _text(item.raw) in ("null", "~"):
            self._answer(item, "not needed here", "null is no value: the recipe's default stands")
            return
        raw: object = item.raw
        if "%" in meaning.values:
            raw = _percent(raw)
        elif meaning.values:
            text = _text(raw)
            if text not in meaning.values and "*" not in meaning.values:
                raw = item.raw
            elif not (to := meaning.values.get(text, meaning.values.get("*", ""))):
                self._answer(item, "not needed here", "it is off")
                return
            else:
                raw = Plain(to)
        target = FIELDS[meaning.name]
        try:
            item = replace(item, value=target.read(raw))
        except ConfigError as error:
            if self._is_given(target.targets):
                self._answer(item, "not needed here", _decides(target.targets))
            elif target.name in _SHARES and _is_share(raw):
                why = "shares of the run are not offered: the recipe's default stands"
                self._answer(item, "not needed here", why)
            else:
                self._answer(item, "refused", str(error))
            return
        self._merge(target.name, item)

    def _merge(self, name: str, item: ManifestField) -> None:
        """Take a field's value; of two that differ the more special one, if there is one."""
        earlier = self.found.fields.get(name)
        if earlier is None:
            self.found.fields[name] = item
            return
        order: tuple[str, ...] = _SPECIAL.get(name, ())
        if name in _ALL and _ALL[name] in (earlier.value, item.value):
            order = tuple(sorted({str(earlier.value), str(item.value)}, key=_ALL[name].__ne__))
        if earlier.value == item.value:
            self._answer(item, "not needed here", f"{earlier.key} ({_line(earlier)}) says it too")
        elif earlier.value in order and item.value in order:
            first, second = sorted((earlier, item), key=lambda one: order.index(str(one.value)))
            self.found.fields[name] = first
            self._answer(second, "not needed here", f"{first.text} ({_line(first)}) says more")
        else:
            why = (
                f"{earlier.text} ({_line(earlier)}) is the same field with another value; keep one"
            )
            self._answer(item, "refused", why)

    def _later(self, meaning: Meaning, item: ManifestField, index: str) -> None:
        """Answer a key of the second or a later model, adapter or data set of a list."""
        if index == "base_models":
            why = "one run trains one model: write a manifest for each"
        elif index == "adapters":
            why = "one run trains one adapter: write a manifest for each"
        elif self._is_given(("data.path",)):
            self._answer(item, "not needed here", _ONLY_ROWS)
            return
        elif FIELDS[meaning.name].targets[0] not in ("data.path", "data.valid_path"):
            self._answer(item, "not needed here", "it is of a data set that is refused")
            return
        else:
            why = (
                "one data set is trained on: put the files into one folder, and give"
                " data.path=FOLDER on the command line"
            )
        self._answer(item, "refused", why)

    def _of_rows(self, meaning: Meaning, item: ManifestField) -> None:
        """Answer a key that says where rows of the hub are."""
        if self._is_given(("data.path",)):
            self._answer(item, "not needed here", _ONLY_ROWS)
        elif _is_off(item.raw) or _text(item.raw) in meaning.values:
            self._answer(item, "not needed here", "all rows of the file are taken")
        else:
            self._answer(item, "refused", meaning.why or hub_advice("NAME"))

    def _is_given(self, targets: Collection[str]) -> bool:
        return bool(targets) and all(target in self.given for target in targets)

    def _answer(self, item: ManifestField, word: Word, why: str) -> None:
        self.found.answers.append(Answer(item=item, word=word, why=why))


def _line(item: ManifestField) -> str:
    return f"line {item.place.rpartition(':')[2]}"


def _decides(targets: Collection[str]) -> str:
    return f"{' and '.join(f'{target}=…' for target in targets)} on the command line decides"


def _index(key: str) -> str | None:
    """Return the name of the list of which a key belongs to another item than the first."""
    match = _INDEX.search(key)
    return match and (match[1] or match[3])


def _text(raw: object) -> str:
    """Return a value as YAML writes it; a list with spaces between."""
    if isinstance(raw, list):
        return " ".join(map(_text, raw))
    if isinstance(raw, bool) or raw is None:
        return str(raw).lower().replace("none", "null")
    text = str(raw)
    return text.lower() if text in ("True", "False", "TRUE", "FALSE", "None", "Null") else text


def _is_off(raw: object) -> bool:
    return _text(raw) in _OFF or raw in ([], {})


def _allows(meaning: Meaning, raw: object) -> bool:
    """Return whether a value is among those that an entry allows."""
    if not meaning.values:
        return True
    values = raw if isinstance(raw, list) else [raw]
    return all(any(_same(_text(value), one) for one in meaning.values) for value in values)


def _same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first == second


def _is_share(raw: object) -> bool:
    try:
        return 0 < float(_text(raw)) < 1
    except ValueError:
        return False


def _percent(raw: object) -> object:
    try:
        return Plain(f"{float(_text(raw)) / 100:g}")
    except ValueError:
        return raw


def hub_advice(name: str) -> str:
    """Return what to do about rows of the hub; `name` may be name::split::configuration."""
    hub, split, config = [*name.split("::"), "", ""][:3]
    which = ", ".join(repr(part) for part in (hub, config) if part)
    command = (
        f"from datasets import load_dataset; load_dataset({which}, split={split or 'train'!r})"
        ".to_json('rows.jsonl')"
    )
    return (
        "it names rows of the hub, which hotloop does not fetch: on a machine with a network run"
        f' python -c "{command}", then give data.path=rows.jsonl on the command line'
    )


def others_text(others: Mapping[str, object]) -> str:
    """Return the sections and keys of other programs in words."""
    return ", ".join(show(Plain(head)) for head in dict.fromkeys(map(_section, others)))


def _section(key: str) -> str:
    """Return the part of a key that names a section, or a key of a section that is known."""
    plain = _NUMBER.sub("[]", key)
    if "[]." in plain:
        return plain
    parts = plain.split(".")
    return ".".join(parts[: 2 if parts[0] == "training" else 1])
