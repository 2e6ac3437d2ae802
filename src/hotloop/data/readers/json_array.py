"""Cut a JSON file that is one array, or one object with one list of records, into portions.

Elements are found by their brackets, commas and quotes, without parsing, a portion at a time:
memory does not grow with the file.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import RowLocation
from hotloop.data.readers.brackets import scan
from hotloop.data.readers.clean_text import advance
from hotloop.data.readers.counting import chunks
from hotloop.data.readers.jsonlines import (
    DECODER,
    JSONL,
    NOT_JSON,
    may_have_halves,
    moved,
    one_record,
)
from hotloop.data.readers.portions import PORTION_BYTES, Format, Portion, RecordFile
from hotloop.data.readers.split_words import split_word
from hotloop.data.readers.text_lines import LONGEST, TORN, ReadWindow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO

    import numpy as np
    from numpy.typing import NDArray

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Record

__all__ = ["JSON", "is_lines", "key_name", "members", "portions", "rows"]

_HEAD_BYTES = 4 << 20  # at most before the list of records, and after it
_DECODER = json.JSONDecoder()  # for the values beside the list of records
_SPACE = re.compile(r"[ \t\r\n]*")
_ARRAY = re.compile(rb"\s*\[\s*[\[{]")
_TABLE = re.compile(rb'\s*\{[^{}\[\]]*"\s*:\s*\[\s*\{')  # {"version": 1, "data": [{
_LINES = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")


@dataclass(slots=True)
class _Reader:
    """The position of the reader in a file."""

    source: RecordFile
    window: ReadWindow
    line: int = 1
    column: int = 1
    row: int = 0

    def pass_by(self, count: int) -> None:
        self.line, self.column = advance(self.line, self.column, self.window.data[:count])
        self.window.take(count)

    def portion(self, data: bytes, fault: tuple[str, str, int] | None = None) -> Portion:
        return Portion(
            file=str(self.source.path),
            name=self.source.name,
            format=JSON.name,
            data=data,
            offset=self.window.offset,
            line=self.line,
            column=self.column,
            row=self.row,
            fault=fault,
        )

    def refuse(self, position: int, why: str) -> NoReturn:
        place = moved(
            RowLocation(self.source.name, self.line, self.column), self.window.data, position
        )
        raise DataError(
            f"{place}: {why}; expected an array of objects, or an object with one list of them; "
            f"a file of one object a line is of the format {JSONL.name}: name it so"
        )


def is_lines(path: Path) -> bool:
    """Return whether a .json file holds one object a line, as many such files do."""
    with ReadWindow(path) as window:
        window.fill(_HEAD_BYTES)
        first, *rest = window.data.strip().splitlines()[:2] or [b""]
        try:
            value, _ = _DECODER.raw_decode(first.decode())
        except (ValueError, RecursionError):
            return False
        return isinstance(value, dict) and bool(rest)


def portions(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield elements of the list of records, in portions of about `size` bytes.

    The list of records is the whole file, or the only list of objects in the file's object. An
    element of more than `longest` bytes, or any error that hides where the next element begins,
    makes a last portion with a fault. Raises DataError where there is no such list, or more than
    one.
    """
    with ReadWindow(source.path) as window:
        reader = _Reader(source, window)
        key = _find_list(reader)
        while source.member is not None and key != source.member:
            key = _next_list(reader)
            if key is None:
                raise DataError(f"{source.name} changed while it was read: run again")
        while (block := _next_block(reader, size, longest)) is not None:
            data, commas, close = block
            cut = close if close >= 0 else int(commas[-1])
            yield reader.portion(data[:cut])
            reader.pass_by(cut + 1)
            reader.row += len(commas) + (close >= 0)
            if close >= 0:
                if why := _find_end(reader, key, may_go_on=source.member is not None):
                    yield reader.portion(b"", (NOT_JSON, why, reader.column))
                return
        yield _unended_portion(reader)


def members(path: Path, *, size: int = PORTION_BYTES) -> tuple[str, ...]:
    """Return the keys of an object's lists of records, if each is named like a split; else none.

    The file is read to its end only if the first list is. There are none in a file that is not
    such JSON: `portions` says why.
    """
    source = RecordFile(path=path, name=str(path), split="", format=JSON.name, bytes=0)
    with suppress(DataError), ReadWindow(path) as window:
        if is_lines(path):
            return ()
        reader = _Reader(source, window)
        key, found = _find_list(reader), list[str]()
        while key is not None:
            if split_word(key_name(key)) is None or key in found:
                return ()
            found.append(key)
            try:
                key = _next_list(reader, size=size)
            except DataError:  # the last list does not end, which its rows will say
                break
        return tuple(found)
    return ()


def _next_list(reader: _Reader, *, size: int = PORTION_BYTES) -> str | None:
    """Skip to the end of a list of records, and to the next one; return its key, None at the end.

    Raises DataError for a list that does not end.
    """
    while (block := _next_block(reader, size, LONGEST)) is not None:
        _, commas, close = block
        reader.pass_by((close if close >= 0 else int(commas[-1])) + 1)
        if close >= 0:
            break
    else:
        reader.refuse(0, "the list does not end")
    reader.window.fill(_HEAD_BYTES)
    text = reader.window.data[:_HEAD_BYTES].decode("latin-1")
    position = _skip(text, 0)
    if text[position : position + 1] != ",":
        return None
    key, position = _member(reader, text, position + 1)
    if key is not None:
        reader.pass_by(position)
        reader.row = 0
    return key


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield the elements of a portion; one that is not a JSON object is a fault.

    An element that is a list of single values is a row whose columns are named by position.
    """
    try:
        text = portion.data.decode()
        values = [] if may_have_halves(text) else DECODER.decode(f"[{text}]")
    except (ValueError, RecursionError):
        values = []
    values = [_by_position(value) if type(value) is list else value for value in values]
    if values and all(type(value) is dict for value in values):
        yield from (
            (RowLocation(portion.name, row=portion.row + i), v) for i, v in enumerate(values)
        )
    elif portion.row or portion.data.strip():  # else it is an empty list
        yield from _one_by_one(portion, faults)


def _by_position(values: list[Any]) -> object:
    """Return the record of a list of single values; other lists stay, and are no record."""
    if not values or any(isinstance(value, list | dict) for value in values):
        return values
    return {str(column): value for column, value in enumerate(values)}


def _one_by_one(portion: Portion, faults: Faults) -> Iterator[Record]:
    commas, _ = scan(portion.data)
    line, column, begin = portion.line, portion.column, 0
    for row, end in enumerate([*commas.tolist(), len(portion.data)], portion.row):
        data = portion.data[begin:end]
        bare = data.lstrip()
        line, column = advance(line, column, data[: len(data) - len(bare)])
        place = RowLocation(portion.name, line, column, row=row)
        if not bare:
            faults.add(place, NOT_JSON, "not JSON: a comma without an element")
        elif (record := one_record(bare, place, faults, list_of=_by_position)) is not None:
            yield RowLocation(portion.name, row=row), record
        line, column = advance(line, column, bare + b",")
        begin = end + 1


def _next_block(
    reader: _Reader, size: int, longest: int
) -> tuple[bytes, NDArray[np.int64], int] | None:
    """Return data with the end of an element, and the result of `scan`; None if none ends."""
    window, want = reader.window, size
    while True:
        window.fill(want + 1)
        data = window.data[:want]
        commas, close = scan(data)
        if commas.size or close >= 0:
            return data, commas, close
        if want >= longest or len(window.data) <= want:
            return None
        want = min(2 * want, longest)


def _unended_portion(reader: _Reader) -> Portion:
    window = reader.window
    if window.torn:
        reader.pass_by(len(window.data))
        kind, why = TORN, f"{window.torn} ({window.offset} bytes unpacked); fetch it again"
    else:
        reader.pass_by(len(window.data) - len(window.data.lstrip()))
        kind, why = NOT_JSON, "what begins here does not end: look for an open quote or bracket"
    return reader.portion(b"", (kind, f"{why}; nothing after it is read", reader.column))


def _find_list(reader: _Reader) -> str | None:
    """Skip to the first record; return the key of the list, None for a bare list."""
    reader.window.fill(_HEAD_BYTES)
    # One character a byte: only positions matter, and non-ASCII bytes are inside strings.
    text = reader.window.data[:_HEAD_BYTES].decode("latin-1")
    position = _skip(text, 0)
    if text[position : position + 1] == "[":
        reader.pass_by(position + 1)
        return None
    if text[position : position + 1] != "{":
        reader.refuse(position, "no list of records begins here")
    key, position = _member(reader, text, position + 1)
    if key is None:
        reader.refuse(position, "the object ends here without a list of objects")
    reader.pass_by(position)
    return key


def _find_end(reader: _Reader, key: str | None, *, may_go_on: bool) -> str | None:
    """Return the error after the list of records, or None.

    Raises DataError for a second such list, unless the object `may_go_on`.
    """
    window = reader.window
    window.fill(_HEAD_BYTES)
    if key is not None:
        text = window.data[:_HEAD_BYTES].decode("latin-1")
        position = _skip(text, 0)
        if text[position : position + 1] == ",":
            second, position = _member(reader, text, position + 1)
            if second is not None and may_go_on:
                return None
            if second is not None:
                reader.refuse(
                    position,
                    f"both {key_name(key)!r} and {key_name(second)!r} are lists of objects",
                )
        elif text[position : position + 1] != "}":
            return "not JSON: expecting , or } after the list of records"
        reader.pass_by(position + 1)
    while not window.data.strip():
        if window.whole:
            return None
        reader.pass_by(len(window.data))
        window.fill(_HEAD_BYTES)
    return "text after the end of the records; it is not read"


def _member(reader: _Reader, text: str, position: int) -> tuple[str | None, int]:
    """Skip members of an object from `position` to the first that is a list of objects.

    Return its key and the position after its bracket, or None and the position where the object
    ends.
    """
    try:
        while True:
            position = _skip(text, position)
            if text[position : position + 1] == "}":
                return None, position
            key: object
            key, position = _DECODER.raw_decode(text, position)
            position = _skip(text, position)
            if not isinstance(key, str) or text[position : position + 1] != ":":
                raise json.JSONDecodeError("Expecting a key in quotes and :", text, position)
            position = _skip(text, position + 1)
            if text[position : position + 1] == "[":
                begins = text[_skip(text, position + 1)]
                if begins == "{" or (begins == "[" and split_word(key) is not None):
                    return key, position + 1
            _, position = _DECODER.raw_decode(text, position)
            position = _skip(text, position)
            if text[position : position + 1] not in (",", "}"):
                raise json.JSONDecodeError("Expecting , or }", text, position)
            position += text[position] == ","
    except json.JSONDecodeError as error:
        far = len(text) == _HEAD_BYTES
        reader.refuse(
            error.pos,
            f"the records are more than {_HEAD_BYTES >> 20} MB away, or not JSON"
            if far
            else f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}",
        )
    except (ValueError, IndexError, RecursionError):
        reader.refuse(position, "what begins here is not JSON that can be read")


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None
    return match.end()


def key_name(key: str) -> str:
    """Return a key of `members` as text: it is read as one character a byte."""
    return key.encode("latin-1", "replace").decode(errors="replace")


def _array_or_lines(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    if is_lines(source.path):
        return JSONL.portions(replace(source, format=JSONL.name), size=size, longest=longest)
    return portions(source, size=size, longest=longest)


def _sniff(head: bytes) -> str | None:
    """Return the format by the first bytes: an array or table, lines, or None for settings."""
    if _ARRAY.match(head) or _TABLE.match(head):
        return JSON.name
    return JSONL.name if _LINES.match(head) else None


def _count(stream: BinaryIO) -> int | None:
    """Return the number of elements of the array, or of the only list of objects in the object."""
    value = json.loads(b"".join(chunks(stream)))
    if isinstance(value, list):
        return len(value)
    lists = [v for v in value.values() if _is_table(v)] if isinstance(value, dict) else []
    return len(lists[0]) if len(lists) == 1 else None


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


JSON: Final = Format(
    name="json",
    suffixes=(".json",),
    portions=_array_or_lines,
    rows=rows,
    count=_count,
    count_cost=8,
    rank=1,
    no_data=re.compile(
        r"(dataset_infos?|dataset_dict|state|about|package(-lock)?|tsconfig.*)\.json", re.IGNORECASE
    ),
    sniff=_sniff,
)
