"""Says what is taken of rows: which key is what, which are ignored, and what carries loss."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from hotloop.core.errors import DataError
from hotloop.core.units import many
from hotloop.data.readers.advised_options import fields as named
from hotloop.data.readers.advised_options import said
from hotloop.data.readers.clean_text import one_line
from hotloop.data.readers.prose import PIECES
from hotloop.data.tokenising.encode import Encoder
from hotloop.data.tokenising.public_sets import rows_within

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hotloop.data.readers.advised_options import Said
    from hotloop.data.tokenising.row_shapes import RowLayout, Text
    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

__all__ = ["refuse_unread_answers", "samples", "taken"]

_SHOWN: Final = 160  # characters of a sample
_BEFORE: Final = 80  # of these before the first answer, at most
_SAMPLES: Final = 2
_MOST: Final = 8  # keys and labels that are named
# Keys under which public data sets have what is to be answered (2026-11).
_ANSWERS: Final = (
    *("answer", "answers", "response", "output", "completion", "code", "target", "targets"),
    *("summary", "highlights", "translation", "solution", "canonical_solution", "reply"),
)


def taken(
    rows: Sequence[Mapping[str, Any]], layout: RowLayout, labels: Collection[str | int]
) -> str:
    """Return a sentence on the keys of some first rows, with their first labels."""
    keys = ", ".join(f"{part}={key}" for part, key in layout.fields.items())
    if layout.public is not None:
        keys += f" (as in {layout.public})"
    classes = f"; first labels: {_some(list(map(str, labels)))}" if labels else ""
    used = {key for whole in layout.fields.values() for key in (whole, whole.partition(".")[0])}
    inner = (row for record in rows for row in _rows(record, layout))
    ignored = dict.fromkeys(key for row in inner for key in row if key not in used)
    ignored = {key: None for key in ignored if key not in PIECES}
    unanswered = layout.unanswered
    lacking = "" if unanswered is None else f"; without an answer, {unanswered!r} is learned"
    left = f"; ignored: {_some(ignored)}" if ignored else ""
    return f"taken of a row: {keys}{classes}{left}{lacking}"


def samples(
    texts: Sequence[Text], layout: RowLayout, vocabulary: TokenizerSpec, *, longest: int | None
) -> list[str]:
    """Return a sentence on each of two texts: its tokens, decoded, as a model gets them.

    Marks stand around what carries loss. `longest` is the number of tokens that stay of a text.
    """
    has_mask, shown = layout.loss != "all", texts[:_SAMPLES]
    encoder = Encoder(
        vocabulary,
        has_loss_mask=has_mask,
        has_pairs=layout.shape == "pair",
        backend="tokenizers",
    )
    tokenizer, encoded, begin = vocabulary.tokenizer(), encoder.encode(shown), 0
    lines = []
    for number, (text, count) in enumerate(zip(shown, encoded.lengths.tolist(), strict=True), 1):
        kept = count if longest is None else min(count, longest)
        ids = encoded.ids[begin : begin + kept].tolist()
        mask = encoded.columns["loss_mask"][begin : begin + kept].tolist() if has_mask else None
        tokens = f"{many(count, 'token')}" if kept == count else f"{kept} of {count} tokens"
        label = "" if text.label is None else f" -> {one_line(str(text.label))}"
        marks = "; «» carries loss" * has_mask
        lines.append(f"sample {number} ({tokens}{marks}): {_decoded(tokenizer, ids, mask)}{label}")
        begin += count
    return lines


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


def _has_text(value: object) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, str) and bool(first.strip())


def _filled(words: str, keys: Sequence[str]) -> str:
    for key in keys:
        words = words.replace("KEY", key, 1)
    return words


def _some(names: Collection[str]) -> str:
    first = ", ".join(one_line(name) for name in list(names)[:_MOST])
    return first + (f" and {len(names) - _MOST} more" if len(names) > _MOST else "")


def _decoded(tokenizer: Any, ids: Sequence[int], mask: Sequence[int] | None) -> str:
    """Return some of a row's tokens as text in one line, with marks around what carries loss.

    It is the beginning, or the end of what stands before the first answer.
    """
    parts: list[str] = []
    begin = 0
    for is_learned, run in groupby(mask if mask is not None else [0] * len(ids)):
        end = begin + len(list(run))
        part = one_line(tokenizer.decode(ids[begin:end], skip_special_tokens=False))
        if not is_learned and not parts and mask is not None and len(part) > _BEFORE:
            part = f"…{part[-_BEFORE:]}"
        parts.append(f"«{part}»" if is_learned else part)
        begin = end
    line = "".join(parts)
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
