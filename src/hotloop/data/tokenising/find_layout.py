"""Find out how rows are read, from the first ones and from what the user names."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from hotloop.core.errors import ConfigError, DataError, did_you_mean
from hotloop.data.readers.advised_options import fields as named
from hotloop.data.readers.parallel import LANGUAGES
from hotloop.data.readers.prose import FOLDER
from hotloop.data.tokenising.chat_marks import marks_of
from hotloop.data.tokenising.public_sets import public_set, rows_within, value_at
from hotloop.data.tokenising.row_shapes import Loss, RowLayout, Shape, is_label, keys_of_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.tokenising.public_sets import PublicSet

__all__ = ["detect", "layout"]

_SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
_LOSSES: Final[tuple[Loss, ...]] = get_args(Loss)
# The keys of each part of a shape; the first key that a row has is used.
_ROLES: Final[dict[Shape, dict[str, tuple[str, ...]]]] = {
    "chat": {"messages": ("messages", "conversations", "conversation", "chat")},
    "instruction": {
        "instruction": ("instruction",),
        "instances": ("instances",),
        "input": ("input", "context"),
        "output": ("output", "response", "answer"),
    },
    "prompt": {
        "prompt": ("prompt", "question", "input"),
        "response": ("response", "completion", "answer", "output", "target"),
    },
    "pair": {
        "text_a": ("text_a", "sentence1", "premise", "s1", "text", "sentence", "content"),
        "text_b": ("text_b", "sentence2", "hypothesis", "s2"),
    },
    "text": {"text": ("text", "content")},
}
_OPTIONAL: Final = {"instances", "input", "text_b", "output"}
_BESIDE = {
    "label": ("label", "labels", "gold_label"),
    "task": ("task", "task_name", "expert"),
    "report": (),
}
_USUAL: Final[dict[Shape, Loss]] = {
    "text": "all",
    "pair": "all",
    "prompt": "completion",
    "instruction": "completion",
    "chat": "assistant",
}
# Public sets of these shapes are looked for before the usual keys of a shape are.
_CHECKED_BEFORE: Final[dict[Shape, tuple[str, ...]]] = {
    "chat": ("chat",),
    "prompt": ("prompt", "instruction"),
    "pair": ("pair",),
    "text": ("text",),
}


def detect(row: Mapping[str, Any]) -> Shape | None:
    """Return the shape that the keys of a row usually stand for, or None."""
    for shape, parts in _ROLES.items():
        checked = _CHECKED_BEFORE.get(shape)
        if checked is not None and (of_set := public_set(row, *checked)) is not None:
            return of_set.shape  # type: ignore[return-value]
        present = {part for part, names in parts.items() if any(name in row for name in names)}
        needed = {part for part in parts if part not in _OPTIONAL}
        if shape == "instruction":
            needed.add("instances" if "instances" in present else "output")
        if needed <= present and (shape != "pair" or "text_b" in present):
            return shape
    return None


def layout(
    sample: Sequence[Mapping[str, Any]],
    *,
    shape: str | None = None,
    fields: Mapping[str, str] | None = None,
    loss: str | None = None,
    whole_below: int = 0,
    by: Said = None,
) -> RowLayout:
    """Find out how to read rows, from the first ones and the requested settings.

    The loss "answers" is that of the answers where the rows have any. A sample of fewer rows than
    `whole_below` is the whole file. `by` maps options to the user's words. Raises ConfigError for
    an unknown shape, part or loss, DataError if the rows lack what is needed or named.
    """
    named_keys = dict(fields or {})
    _check_words(shape, loss, named_keys)
    row = next(filter(detect, sample), sample[0] if sample else {})
    row_shape = shape or _shape_of_keys(named_keys) or detect(row)
    if row_shape is None:
        raise DataError(
            f"the rows have {keys_of_row(row)}, none of which is usually trained on{_ways(row, by)}"
        )
    of_set = public_set(row, row_shape)
    named_fields = {p: key for p, key in named_keys.items() if key and p not in ("task", "report")}
    if of_set is not None and any(of_set.fields.get(p, k) != k for p, k in named_fields.items()):
        of_set = None  # the user's keys mean something else
    if of_set is not None and of_set.refused is not None and not named_fields:
        raise DataError(f"the rows are those of {of_set.name}: {of_set.refused}")
    if of_set is not None and of_set.within:
        sample = _inner(sample, of_set.within)
        row = next(filter(of_set.of, sample))
    _refuse_absent(named_keys, sample, is_whole=len(sample) < whole_below, by=by)
    keys = _keys_by_part(row_shape, row, sample, named_keys, of_set, by)
    marks = marks_of(value_at(one, keys["text"]) for one in sample) if row_shape == "text" else None
    chosen = _loss_of(row_shape, loss, has_answers=marks is not None)
    given_labels = (value_at(one, keys.get("label", "")) for one in sample)
    is_number = isinstance(next(filter(is_label, given_labels), None), int)
    labels: Literal["int64", "string"] = "int64" if is_number else "string"
    return RowLayout(
        shape=row_shape,  # type: ignore[arg-type]
        fields=keys,
        loss=chosen,
        labels=labels,
        marks=None if marks is None else marks.name,
        public=None if of_set is None else of_set.name,
        within=() if of_set is None else of_set.within,
        unlabelled=() if of_set is None else of_set.unlabelled,
        unanswered=None if of_set is None else of_set.unanswered,
    )


def _check_words(shape: str | None, loss: str | None, named_keys: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown shape, loss or part."""
    if shape is not None and shape not in _SHAPES:
        near = did_you_mean(shape, _SHAPES)
        raise ConfigError(f"shape {shape!r} is unknown{near}: {', '.join(_SHAPES)}")
    if loss is not None and loss not in (*_LOSSES, "answers"):
        raise ConfigError(f"loss {loss!r} is unknown: {', '.join(_LOSSES)}")
    every = {part for parts in _ROLES.values() for part in parts} | {*_BESIDE}
    for part in named_keys.keys() - every:
        near = did_you_mean(part, every)
        raise ConfigError(f"no row has a part {part!r}{near}: {', '.join(sorted(every))}")


def _ways(row: Mapping[str, Any], by: Said) -> str:
    """Return how the keys of a row of no known shape are named, as the end of a message."""
    ways = [named(parts, by) for parts in (["text"], ["prompt", "response"], ["messages"])]
    known_ways = " or ".join(way for way in ways if way is not None)
    if (pair := _languages(row)) is not None and (way := named(["prompt", "response"], by)):
        for key in pair:
            way = way.replace("KEY", key, 1)
        known_ways = f"{way} trains one direction of the translation; swap the keys for the other"
    return f"; name what is what: {known_ways}" if known_ways else ""


def _refuse_absent(
    named_keys: Mapping[str, str],
    sample: Sequence[Mapping[str, Any]],
    *,
    is_whole: bool,
    by: Said,
) -> None:
    """Raise DataError for a key that the user names and no row has.

    A part that rows may lack may also come later, unless the sample `is_whole` or has a like key.
    """
    for part, key in named_keys.items():
        if not key or any(key in row or value_at(row, key) is not None for row in sample):
            continue
        inner = (
            f"{key}.{name}" for row in sample for key, value in row.items() for name in _in(value)
        )
        known = list(dict.fromkeys([*(name for row in sample for name in row), *inner]))
        near = did_you_mean(key, known)
        if near or is_whole or part not in {*_OPTIONAL, *_BESIDE} - {"output", "label"}:
            way = (named([part], by) or f"{part}=KEY").replace("KEY", key)
            keys = keys_of_row(dict.fromkeys(known))
            raise DataError(f"{way}: no row has the key {key!r}{near}; the rows have {keys}")


def _in(value: Any) -> Sequence[str]:
    return list(value) if isinstance(value, dict) else []


def _languages(row: Mapping[str, Any]) -> list[str] | None:
    """Return the keys of a row's two languages, as in {"translation": {"de": ..., "en": ...}}."""
    key, value = next(iter(row.items()), ("", None))
    texts, before = row, ""
    if len(row) == 1 and isinstance(value, dict):
        texts, before = value, f"{key}."
    found = [f"{before}{name}" for name in texts if name in LANGUAGES]
    return found if len(found) == 2 else None


def _keys_by_part(
    shape: str,
    row: Mapping[str, Any],
    sample: Sequence[Mapping[str, Any]],
    named_keys: Mapping[str, str],
    of_set: PublicSet | None,
    by: Said,
) -> dict[str, str]:
    """Return the key of each part that rows of a shape have; arguments as for `layout`."""
    parts = _ROLES[shape]  # type: ignore[index]
    for part in named_keys:
        if part not in parts and part not in _BESIDE:
            near = did_you_mean(part, [*parts, *_BESIDE])
            raise ConfigError(f"a row of shape {shape} has no {part!r}{near}: {', '.join(parts)}")
    every = {key: value for sample_row in sample for key, value in sample_row.items()}
    known = {**parts, **_BESIDE}  # the first row may lack an optional part, such as an input
    is_usual = of_set is not None and of_set.fields.keys() <= _keys_of(row, known).keys()
    own = {} if of_set is None or is_usual else of_set.fields
    keys = {**_keys_of(every, known), **_keys_of(row, known), **own, **named_keys}
    if shape == "pair" and "label" not in keys and FOLDER in every:
        keys["label"] = FOLDER
    keys = {part: key for part, key in keys.items() if key}  # an empty key means no such part
    lacking = [part for part in parts if part not in keys and part not in _OPTIONAL]
    if lacking:
        way = named(lacking[:1], by)
        raise DataError(
            f"a row of shape {shape} needs {', '.join(lacking)}, and the first rows have "
            f"{keys_of_row(every)}" + (f"; name the key: {way}" if way is not None else "")
        )
    return keys


def _loss_of(shape: str, loss: str | None, *, has_answers: bool) -> Loss:
    """Return what carries loss in rows of a shape; `has_answers`: texts with marks of chats."""
    if loss == "answers":
        loss = "completion" if has_answers else None
    chosen: Loss = loss or _USUAL[shape]  # type: ignore[assignment,index]
    if chosen == "assistant" and shape != "chat":
        raise ConfigError(f"loss assistant is for chat rows, these are of shape {shape}")
    if chosen == "completion" and shape in ("text", "pair") and not has_answers:
        raise ConfigError(f"loss completion needs a response, rows of shape {shape} have none")
    return chosen


def _shape_of_keys(keys: Mapping[str, str]) -> str | None:
    named = set(keys) - set(_BESIDE)
    fitting = [shape for shape, parts in _ROLES.items() if named and named <= set(parts)]
    return fitting[0] if fitting else None


def _keys_of(row: Mapping[str, Any], parts: Mapping[str, Sequence[str]]) -> dict[str, str]:
    present = ((part, [name for name in names if name in row]) for part, names in parts.items())
    return {part: names[0] for part, names in present if names}


def _inner(sample: Sequence[Mapping[str, Any]], within: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return the rows of the first records, as far as they have some."""
    rows: list[Mapping[str, Any]] = []
    for record in sample:
        with suppress(DataError):  # it is raised again later, with its location
            rows += rows_within(record, within)
    return rows
