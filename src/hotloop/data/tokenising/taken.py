"""Says what is taken of rows: which key is what, which are ignored, and what carries loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import DataError
from hotloop.data.readers.advised_options import fields as named
from hotloop.data.readers.advised_options import said
from hotloop.data.readers.prose import PIECES
from hotloop.data.tokenising.public_sets import rows_within

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.tokenising.row_shapes import RowLayout, Text

__all__ = ["refuse_unread_answers", "taken"]

_SHOWN: Final = 160  # characters of a sample
_BEFORE: Final = 80  # of these before the first answer, at most
_SAMPLES: Final = 2
_MOST: Final = 8  # keys and labels that are named
# Keys under which public data sets have what is to be answered (2026-11).
_ANSWERS: Final = (
    *("answer", "answers", "response", "output", "completion", "code", "target", "targets"),
    *("summary", "highlights", "translation", "solution", "canonical_solution", "reply"),
)


def taken(rows: Sequence[Mapping[str, Any]], layout: RowLayout, texts: Sequence[Text]) -> list[str]:
    """Return a sentence on the keys of some first rows, and one on each of two samples."""
    keys = ", ".join(f"{part}={key}" for part, key in layout.fields.items())
    if layout.public is not None:
        keys += f" (as in {layout.public})"
    labels = dict.fromkeys(str(text.label) for text in texts if text.label is not None)
    classes = f"; first labels: {_some(labels)}" if labels else ""
    used = {key for whole in layout.fields.values() for key in (whole, whole.partition(".")[0])}
    inner = (row for record in rows for row in _rows(record, layout))
    ignored = dict.fromkeys(key for row in inner for key in row if key not in used)
    ignored = {key: None for key in ignored if key not in PIECES}
    unanswered = layout.unanswered
    lacking = "" if unanswered is None else f"; without an answer, {unanswered!r} is learned"
    left = f"; ignored: {_some(ignored)}" if ignored else ""
    samples = [
        f"sample {number}{' («» carries loss)' * (text.learned is not None)}: {_sample(text)}"
        for number, text in enumerate(texts[:_SAMPLES], start=1)
    ]
    return [f"taken of a row: {keys}{classes}{left}{lacking}", *samples]


def refuse_unread_answers(
    rows: Sequence[Mapping[str, Any]],
    layout: RowLayout,
    ignored: Collection[str],
    by: Said = None,
) -> None:
    """Raise DataError where plain texts are read of rows that seem to have answers, too.

    `ignored` are keys that the user wants to be without, and `by` maps options to the user's words.
    """
    text, used = layout.fields["text"], set(layout.fields.values())
    keys = dict.fromkeys(key for row in rows for key in row)
    unread = [key for key in keys if key in _ANSWERS and key not in used and key not in ignored]
    unread = [key for key in unread if any(_has_text(row.get(key)) for row in rows)]
    if unread:
        key, names = unread[0], ",".join(unread)
        pronoun = "it" if len(unread) == 1 else "them"
        learn = named(["prompt", "response"], by)
        ways = [
            learn and f"{_filled(learn, (text, key))} learns it as the answer",
            (way := said("--ignore", by)) and f"{way}={names} leaves {pronoun} out",
        ]
        raise DataError(
            f"the rows have {', '.join(map(repr, unread))} beside {text!r}, which looks like an "
            f"answer and would be ignored: {', '.join(filter(None, ways))}"
        )


def _rows(record: Mapping[str, Any], layout: RowLayout) -> list[Mapping[str, Any]]:
    try:
        return list(rows_within(record, tuple(layout.within)))
    except DataError:
        return []  # it is raised again later, with its location


def _visible(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _has_text(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str) and bool(first.strip())


def _filled(words: str, keys: Sequence[str]) -> str:
    for key in keys:
        words = words.replace("KEY", key, 1)
    return words


def _some(names: Collection[str]) -> str:
    first = ", ".join(_visible(name) for name in list(names)[:_MOST])
    return first + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _sample(text: Text) -> str:
    """Return some of a text in one line, with marks around what carries loss.

    It is the beginning, or the end of what stands before the first answer.
    """
    parts, at = [], 0
    if text.learned and text.learned[0][0] > _BEFORE:
        at = text.learned[0][0] - _BEFORE
        parts = ["…"]
    for start, end in text.learned or ():
        parts += [text.text[at:start], f"«{text.text[start:end]}»"]
        at = end
    whole = "".join([*parts, text.text[at:]])
    if text.pair is not None:
        whole += f" | {text.pair}"
    label = "" if text.label is None else f" -> {text.label}"
    line = _visible(whole.replace("\n", "⏎"))
    return f"{line if len(line) <= _SHOWN else f'{line[:_SHOWN]}…'}{_visible(label)}"
