"""Translates the keys of a training file into fields of the short form, or answers them at once."""

import math
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hotloop.config.layers import SettingsLayer
from hotloop.config.schema import Plain, show
from hotloop.core.errors import ConfigError, DataError
from hotloop.data.readers.hub_rows import hub_command, is_hub_id
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.recipes.sft.manifest_answers import Answer, ManifestField, Word, decides, is_secret
from hotloop.recipes.sft.manifest_dialects import INDEX, Dialect, Meaning, dialect_of, unknown
from hotloop.recipes.sft.manifest_fields import FIELDS

__all__ = ["Translation", "hub_advice", "others_text", "translate"]

_OFF = ("null", "none", "false", "", "~", "0", "0.0", "no", "off")
_NULLS = ("null", "~")
_YAML = {"yes": "true", "on": "true", "no": "false", "off": "false"}  # of YAML 1.1, as PyYAML reads
_LATER = re.compile(r"^([^.\[]+)\[([1-9]\d*)\]|\.([^.\[]+)\[([1-9]\d*)\]")
_ONLY_ROWS = "data.path=… on the command line names the rows"
# Of two values of a field the earlier one here counts.
_FIRST = {
    "adapter_type": ("none", "dora", "qlora", "lora"),
    "chat_template": ("alpaca", "chatml", "tokenizer_default", "auto"),
}
_FOUR_BITS = {"nf4", "4bit", "4-bit", "int4"}  # of quantization, all the same
_ALL = {"target_modules": "all-linear"}  # a value that has the others in it
_SHARES = ("logging_steps", "save_steps", "eval_steps")  # of transformers: below 1, of the run
_OF_ADAPTERS = ("rank", "alpha", "target_modules", "dropout", "quantization", "load_in_4bit")
_SWITCH = FIELDS["fp16"]
_PLACEHOLDER = re.compile(r"<[A-Z_]+_TOKEN>")  # of to_dict in transformers
_WARMUPS = ("warmup", "warmup_ratio")
_PATIENCE = "early_stopping_patience"


@dataclass(slots=True)
class Translation:
    """What became of the keys of a file."""

    dialect: str
    fields: dict[str, ManifestField] = field(default_factory=dict)  # by canonical name
    answers: list[Answer] = field(default_factory=list)  # of keys that became no field
    others: dict[str, object] = field(default_factory=dict)  # values of other programs' keys
    comments: list[str] = field(default_factory=list)  # keys
    unmatched: frozenset[str] = frozenset()  # names to ignore that the file does not have


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
    found.unmatched = frozenset(ignored) - translator.matched
    present = {key for key, raw in layer.values.items() if _text(raw) not in _NULLS}
    for default in dialect.defaults:
        if default.key not in present:
            place = layer.where(default.key) if default.key in layer.values else layer.origin
            translator.default(default, place, Plain(next(iter(default.values))))
    translator.check()
    return found


@dataclass(slots=True, kw_only=True)
class _Translator:
    dialect: Dialect
    found: Translation
    given: Mapping[str, object]
    ignored: Collection[str]
    waiting: list[tuple[Meaning, ManifestField]] = field(default_factory=list)  # for the model
    matched: set[str] = field(default_factory=set)  # parts of `ignored` that are there
    coarse: list[ManifestField] = field(default_factory=list)  # validations that come otherwise
    advised: str = ""  # the first line that says how to get rows of the hub

    def key(self, key: str, place: str, raw: object) -> None:
        if any(part.startswith("_") for part in key.split(".")):
            self.found.comments.append(key)
            return
        meaning = self.dialect.meaning(key)
        if isinstance(raw, Plain) and self.dialect.name != "short":
            is_switch = meaning is None or FIELDS.get(meaning.name, _SWITCH).kind is bool
            raw = Plain(_YAML.get(raw.lower(), raw)) if is_switch else raw
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
            self.found.others[key] = "left out" if is_secret(key, raw) else raw
        elif meaning.outcome == "data":
            self._of_rows(meaning, item)
        elif meaning.outcome == "idle" and _allows(meaning, raw):
            self._answer(item, "not needed here", meaning.why)
        elif _is_off(raw):
            self._answer(item, "not needed here", "it is off, or empty")
        elif meaning.outcome in ("model", "token", "rope"):
            self.waiting.append((meaning, item))
        elif meaning.outcome == "idle":
            values = ", ".join(meaning.values)
            many = "one of " * (len(meaning.values) > 1)
            why = f"expected {many}{values}, got {show(raw)}: {meaning.why}"
            self._answer(item, "refused", why)
        else:
            self._answer(item, "refused", meaning.why)

    def late(self) -> None:
        """Answer the keys that name the model once more, or tokens of its tokenizer."""
        model = self.found.fields.get("model")
        names = {str(one) for one in (self.given.get("model.name"), model and model.value) if one}
        for meaning, item in self.waiting:
            if meaning.outcome == "rope":
                self._rope(item)
            elif meaning.outcome == "token" and _PLACEHOLDER.fullmatch(_text(item.raw)):
                self._answer(item, "not needed here", "it stands for a token, in a dump")
            elif meaning.outcome == "model" and (
                model is not None and _text(item.raw) == _text(model.raw)
            ):
                self._answer(item, "not needed here", "it is the model's own")
            elif meaning.outcome == "token" and _text(item.raw) == self._token(item, names):
                self._answer(item, "not needed here", "the model's tokenizer has it")
            else:
                remedy = f"or, if it is the same, ignore={item.key} on the command line"
                self._answer(item, "refused", f"{meaning.why}; {remedy}")

    def _rope(self, item: ManifestField) -> None:
        """Answer a key of a scaling of positions, which short rows do not need."""
        length = self.found.fields.get("max_seq_length")
        if item.key.endswith("original_max_position_embeddings") and (
            length is not None and _number(item.raw) < _number(length.value)
        ):
            why = f"positions are not scaled, and {length.text} is more: write {_text(item.raw)}"
            self._answer(item, "refused", why)
        else:
            why = "rows lie within the model's own positions, which is checked before the run"
            self._answer(item, "not needed here", why)

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
        found = next((head for head in heads if head in self.ignored), None)
        self.matched |= {found} if found else set()
        return found

    def default(self, meaning: Meaning, place: str, value: Plain) -> None:
        """Take the value that a missing key has, unless the field is there by another key."""
        known, fields = self.dialect.meaning(meaning.key), self.found.fields
        if known is None or known.name in fields:
            return
        if known.outcome != "field":
            item = ManifestField(key=meaning.key, place=place, raw=value)
            self._answer(item, "not needed here", f"{known.why}; {meaning.why}")
            return
        if known.name == "bf16" and fields.get("fp16") and fields["fp16"].value:
            return
        if known.name in _WARMUPS and any(name in fields for name in _WARMUPS):
            return
        item = ManifestField(key=meaning.key, place=place, raw=value, why=meaning.why)
        adapters = [fields[name] for name in _OF_ADAPTERS if name in fields]
        if known.name == "adapter_type" and adapters and self.dialect.name == "trainer":
            if adapters[0].key.startswith(("lora_", "load_in")):
                ask = f"write {meaning.key}: true, or false"
                self._withdraw(adapters[0], f"it asks for an adapter, and {meaning.why}: {ask}")
            return
        self._field(known, item)

    def check(self) -> None:
        """Refuse what goes together in another way than its program means."""
        patience = self.found.fields.get(_PATIENCE)
        if patience is not None and self.coarse:
            first = self.coarse[0]
            why = (
                f"it counts validations, and {first.text} ({_line(first)}) is not followed exactly:"
                " write whole eval_steps"
            )
            self._withdraw(patience, why)

    def _withdraw(self, item: ManifestField, why: str) -> None:
        """Refuse a field that was taken."""
        kept = {name: one for name, one in self.found.fields.items() if one is not item}
        self.found.fields = kept
        self._answer(item, "refused", why)

    def _field(self, meaning: Meaning, item: ManifestField) -> None:
        """Give a value to a field of the short form."""
        if (index := _index(item.key)) is not None:
            self._later(meaning, item, index)
            return
        raw, text = item.raw, _text(item.raw)
        to = meaning.values.get(text, meaning.values.get("*"))
        if text in _NULLS and meaning.values.get(text) != "!":
            self._answer(item, "not needed here", "null is no value: the default stands")
            return
        if "%" in meaning.values:
            raw = _percent(raw)
        elif to == "!":
            self._answer(item, "refused", meaning.why)
            return
        elif to == "":
            self._answer(item, "not needed here", meaning.why or "it is off")
            return
        elif to is not None:
            raw = Plain(to)
            if text not in meaning.values and meaning.name == "eval_strategy":
                self.coarse.append(item)
        target = FIELDS[meaning.name]
        try:
            item = replace(item, value=target.read(raw))
        except ConfigError as error:
            if self._is_given(target.targets):
                self._answer(item, "not needed here", decides(target.targets))
            elif target.name in _SHARES and _is_share(raw):
                self.coarse += [item] * (target.name == "eval_steps")
                why = "shares of the run are not offered: the default stands"
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
        order: tuple[str, ...] = _FIRST.get(name, ())
        if name in _ALL and _ALL[name] in (earlier.value, item.value):
            order = tuple(sorted({str(earlier.value), str(item.value)}, key=_ALL[name].__ne__))
        if earlier.value == item.value or {earlier.value, item.value} <= _FOUR_BITS:
            self._answer(item, "not needed here", f"{earlier.key} ({_line(earlier)}) says it too")
        elif earlier.value in order and item.value in order:
            first, second = sorted((earlier, item), key=lambda one: order.index(str(one.value)))
            self.found.fields[name] = first
            if (first.value, second.value) == ("dora", "qlora"):  # which asks for 4 bits, too
                self._merge("quantization", replace(second, value="nf4"))
            else:
                self._answer(second, "not needed here", f"{first.text} ({_line(first)}) decides")
        else:
            why = (
                f"{earlier.text} ({_line(earlier)}) is the same field with another value; keep one"
            )
            self._answer(item, "refused", why)

    def _later(self, meaning: Meaning, item: ManifestField, index: str) -> None:
        """Answer a key of the second or a later item of a list."""
        is_rows = index in ("datasets", "test_datasets")
        if is_rows and self._is_given(("data.path",)):
            self._answer(item, "not needed here", _ONLY_ROWS)
        elif is_rows and FIELDS[meaning.name].targets[0] in ("data.path", "data.valid_path"):
            why = "one data set is trained on: put the files into one folder, and give"
            self._answer(item, "refused", f"{why} data.path=FOLDER on the command line")
        elif is_rows:
            self._answer(item, "not needed here", "its data set is refused")
        else:
            what = {"base_models": "model", "adapters": "adapter"}.get(index, "item of a list")
            why = f"one run trains one {what}: write a manifest for each"
            self._answer(item, "refused", why)

    def _of_rows(self, meaning: Meaning, item: ManifestField) -> None:
        """Answer a key that says where rows of the hub are."""
        if self._is_given(("data.path",)):
            self._answer(item, "not needed here", _ONLY_ROWS)
        elif _is_off(item.raw) or _text(item.raw) in meaning.values:
            self._answer(item, "not needed here", "all rows of the file are taken")
        elif self.advised:
            self._answer(item, "refused", f"it names rows of the hub, as {self.advised} does")
        else:
            self.advised = f"{item.key} ({_line(item)})"
            name = _text(item.raw)
            self._answer(item, "refused", hub_advice(name if is_hub_id(name) else "NAME"))

    def _is_given(self, targets: Collection[str]) -> bool:
        return bool(targets) and all(target in self.given for target in targets)

    def _answer(self, item: ManifestField, word: Word, why: str) -> None:
        self.found.answers.append(Answer(item=item, word=word, why=why))


def _line(item: ManifestField) -> str:
    return f"line {item.place.rpartition(':')[2]}"


def _index(key: str) -> str | None:
    """Return the name of the list of which a key belongs to another item than the first."""
    match = _LATER.search(key)
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
    return _text(raw).lower() in _OFF or raw in ([], {})


def _allows(meaning: Meaning, raw: object) -> bool:
    """Return whether a value is among those that an entry allows."""
    if not meaning.values:
        return True
    if "#" in meaning.values:  # whole numbers of things
        return type(raw) is int or _text(raw).isdigit()
    values = raw if isinstance(raw, list) else [raw]
    return all(any(_same(_text(value), one) for one in meaning.values) for value in values)


def _same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first == second


def _is_share(raw: object) -> bool:
    return 0 < _number(raw) < 1


def _number(raw: object) -> float:
    """Return a value as a number; nan if it is none."""
    try:
        return float(_text(raw))
    except ValueError:
        return math.nan


def _percent(raw: object) -> object:
    number = _number(raw)
    return raw if math.isnan(number) else Plain(f"{number / 100:g}")


def hub_advice(name: str) -> str:
    """Return what to do about rows of the hub; `name` may be name::split::configuration."""
    return (
        "it names rows of the hub, which hotloop does not fetch: on a machine with a network run"
        f" {hub_command(name)}, then give data.path=rows.jsonl on the command line"
    )


def others_text(others: Mapping[str, object]) -> str:
    """Return the sections and keys of other programs in words."""
    return ", ".join(show(Plain(head)) for head in dict.fromkeys(map(_section, others)))


def _section(key: str) -> str:
    """Return the part of a key that names a section, or a key of a section that is known."""
    plain = INDEX.sub("[]", key)
    if "[]." in plain:
        return plain
    parts = plain.split(".")
    return ".".join(parts[: 2 if parts[0] == "training" else 1])
