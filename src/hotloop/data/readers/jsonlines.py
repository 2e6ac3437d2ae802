"""Parse JSON records strictly: one a line, or single records for other readers."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.data.readers.bad_rows import NOT_UTF8, RowLocation, not_utf8
from hotloop.data.readers.clean_text import BAD, MARK_BAD, advance
from hotloop.data.readers.counting import lines as lines_of
from hotloop.data.readers.portions import PORTION_BYTES, Format, of_blocks
from hotloop.data.readers.text_lines import LONGEST, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Portion, Record, RecordFile

__all__ = [
    "DECODER",
    "JSONL",
    "NOT_JSON",
    "may_have_halves",
    "moved",
    "one_record",
    "portions",
    "rows",
]

NOT_JSON: Final = "not JSON"
_SPACE = b" \t\r\n"  # JSON's white space
# An escape may name half of a surrogate pair, which is not a character and has no UTF-8 form.
_HALF = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # alone 13 times as fast: it has a literal prefix
_SUSPECT = re.compile(rf"{BAD}|{_ESCAPED.pattern}")
_NAMES = {
    list: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


class _BadRowError(ValueError):
    """The reason why a text is not a record."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of these pairs, or raise _BadRowError for a repeated key.

    Costs 0.5 us for a row of SNLI, which takes 1.4 us to parse (see RowLocation).
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        key, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise _BadRowError("repeated key", f"the key {key[:60]!r} stands twice in one object")
    return value


def _not_finite(name: str) -> NoReturn:
    raise _BadRowError("not finite", f"{name} is no JSON and no number to train on")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_repeats, parse_constant=_not_finite)


def portions(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield the lines in portions of about `size` bytes."""
    yield from of_blocks(source, blocks(source.path, size=size, longest=longest))


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the object of each line that is not blank; a line that is not an object is a fault."""
    data = portion.data
    text = data.decode(errors=MARK_BAD)
    find, decode, name = text.find, DECODER.raw_decode, portion.name
    start, line, end = 0, portion.line - 1, len(text)
    suspects = _suspects(text)
    suspect = next(suspects, end)
    lines: list[bytes] = []
    while start < end:
        line += 1
        stop = find("\n", start)
        try:
            value, reached = decode(text, start)
        except (ValueError, RecursionError):
            reached = -1
        if reached == stop and type(value) is dict and suspect > stop:
            yield RowLocation(name, line), value
        else:
            lines = lines or data.split(b"\n")
            record = one_record(lines[line - portion.line], RowLocation(name, line, 1), faults)
            if record is not None:
                yield RowLocation(name, line), record
            if suspect < stop:
                suspect = next((start for start in suspects if start > stop), end)
        start = stop + 1


def may_have_halves(text: str) -> bool:
    """Return whether a text may have escapes of half a character; may be wrong, but is fast."""
    return "\\ud" in text or "\\uD" in text  # ten times as fast as the regular expression


def _suspects(text: str) -> Iterator[int]:
    """Yield the positions of text that JSON allows and UTF-8 may not."""
    has_bad = BAD in text
    if has_bad or may_have_halves(text):
        suspect = _SUSPECT if has_bad else _ESCAPED
        yield from (match.start() for match in suspect.finditer(text))


def one_record(
    data: bytes,
    place: RowLocation,
    faults: Faults,
    list_of: Callable[[list[Any]], object] = lambda values: values,
) -> dict[str, Any] | None:
    """Return the object in the bytes; None for blank bytes and, with a fault, for bad ones.

    `list_of` may make an object of a list. `place` is the location of the first byte. Invalid UTF-8
    becomes U+FFFD under the policy "replace".
    """
    if not data.strip(_SPACE):
        return None
    bad: UnicodeDecodeError | None = None
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        text, bad = data.decode(errors="replace"), error
    try:
        value = _parsed(text, list_of)
        problem = _half_character(value) if may_have_halves(text) else None
        if problem:
            value = DECODER.decode(_HALF.sub("\ufffd", json.dumps(value, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        kind, why, character = _reason(error)
        if bad is None:
            faults.add(moved(place, data, len(text[:character].encode())), kind, why)
            return None
        value = None
    if bad is not None:
        why, place = not_utf8(bad), moved(place, data, bad.start)
    elif problem:
        why = problem
    else:
        return value
    stays = faults.add(place, NOT_UTF8, why, replaceable=value is not None)
    return value if stays else None


def moved(place: RowLocation, data: bytes, by: int) -> RowLocation:
    """Return the location of byte `by` of the data whose first byte is at `place`."""
    assert place.line is not None
    assert place.byte is not None
    line, byte = advance(place.line, place.byte, data[:by])
    return place._replace(line=line, byte=byte)


def _parsed(text: str, list_of: Callable[[list[Any]], object]) -> dict[str, Any]:
    value = DECODER.decode(text)
    value = list_of(value) if isinstance(value, list) else value
    if not isinstance(value, dict):
        kind = _NAMES[type(value)]
        raise _BadRowError("not an object", f"{kind}, but a record is an object: {{...}}")
    return value


def _reason(error: Exception) -> tuple[str, str, int]:
    """Return the kind of fault, the reason, and the character where it is."""
    if isinstance(error, _BadRowError):
        return error.kind, str(error), 0
    if isinstance(error, RecursionError):
        return "too deep", "lists or objects are nested too deep", 0
    if isinstance(error, json.JSONDecodeError):
        return NOT_JSON, f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}", error.pos
    return NOT_JSON, f"not JSON that can be read: {error}", 0  # a number of thousands of digits


def _half_character(value: dict[str, Any]) -> str | None:
    half = _HALF.search(json.dumps(value, ensure_ascii=False))
    return f"\\u{ord(half[0]):04x} is half a character" if half else None


def _count(stream: BinaryIO) -> int:
    return sum(1 for line in lines_of(stream) if not line.isspace())


JSONL: Final = Format(
    name="jsonl", suffixes=(".jsonl", ".ndjson"), portions=portions, rows=rows, count=_count
)
