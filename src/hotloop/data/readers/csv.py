"""Read CSV, TSV and similar files, cut at the ends of records, which may span lines."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import NOT_UTF8, RowLocation, not_utf8
from hotloop.data.readers.clean_text import BAD, MARK_BAD
from hotloop.data.readers.counting import TooMuchError, lines
from hotloop.data.readers.jsonlines import moved
from hotloop.data.readers.portions import PORTION_BYTES, Format, of_blocks
from hotloop.data.readers.text_lines import LONGEST, blocks, line_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from numpy.typing import NDArray

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Portion, Record, RecordFile
    from hotloop.data.readers.text_lines import Ends, LineBlock

__all__ = ["CSV", "TSV", "delimited", "portions", "record_ends", "rows"]

_LOOKED: Final = 1 << 20  # bytes that tell whether quotes enclose fields
_LF, _QUOTE = ord("\n"), ord('"')


def portions(
    source: RecordFile, *, delimiter: str, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield the records after the header, in portions of about `size` bytes.

    If a quoted field does not end within `longest` bytes, its first line becomes a fault. A first
    row with a number is data: columns are named by their positions then. Whether quotes enclose
    fields, or belong to the texts as in GLUE's files, is tried on the first rows. Raises DataError
    when the first row cannot be the names of the columns.
    """
    looked = (block.data for block in blocks(source.path, size=_LOOKED, longest=longest))
    is_quoted = _is_quoted(looked, delimiter)
    ends = record_ends(delimiter) if is_quoted else line_ends
    stream = blocks(source.path, size=size, longest=longest, ends=ends)
    for block in stream:
        names, rest = _header(source, block, delimiter, is_quoted=is_quoted)
        if names:
            record_blocks = chain([rest] if rest.data else [], stream)
            yield from of_blocks(source, record_blocks, fields=names, is_quoted=is_quoted)


def _is_quoted(blocks_of_lines: Iterable[bytes], delimiter: str) -> bool:
    """Return whether quotes enclose fields, by the first lines and the first ones with a quote.

    Without a quote in the file, they would in CSV and not in TSV.
    """
    first = None
    for data in blocks_of_lines:
        first = data if first is None else first
        if b'"' in data:
            return _encloses(first.split(b"\n", 1)[0], data, delimiter)
    return delimiter != "\t"


def _encloses(first: bytes, data: bytes, delimiter: str) -> bool:
    """Return whether quotes enclose fields in lines of a file, by its first line and these.

    Lines are read both ways, and compared by the rows that are not as wide as the first line. In
    CSV, quotes belong to the texts only if that reading alone has no such row. In TSV, quotes that
    enclose fields are at the ends of fields only, and either keep a tab or a line break from
    cutting a row, or stand around every field of a column, or around quotes that are doubled.
    """
    try:
        plain = _read(data, delimiter, is_quoted=False)
    except csv.Error:  # a carriage return, which only quotes allow
        return True
    width = len(next(csv.reader([first.decode(errors=MARK_BAD)], delimiter=delimiter), []))
    whole = data[: record_ends(delimiter)(data, False)]
    quoted = _read(whole, delimiter, is_quoted=True)
    cut, torn = (sum(len(row) != width for row in rows) for rows in (plain, quoted))
    if delimiter != "\t":
        return cut > 0 or width < 2 or len(plain) < 2 or torn == 0
    spans = whole.count(b"\n") - len(quoted)
    try:
        _read(whole, delimiter, is_quoted=True, is_strict=True)
    except csv.Error:
        return width > 1 and cut > spans + torn
    if width < 2 or spans or cut:
        return width < 2 or cut > torn
    return any(
        all(map(_is_enclosed, column))
        or any('""' in cell[1:-1] for cell in column if _is_enclosed(cell))
        for column in zip(*plain[1:], strict=True)
    )


def _read(
    data: bytes, delimiter: str, *, is_quoted: bool, is_strict: bool = False
) -> list[list[str]]:
    text = data.decode(errors=MARK_BAD)
    records = _parsed(text, delimiter, is_quoted=is_quoted, is_strict=is_strict)
    return [row for _, _, row in records if row]


def _is_enclosed(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"'


def rows(portion: Portion, faults: Faults, *, delimiter: str) -> Iterator[Record]:
    """Yield each record that is not a blank line as a dict of texts by column name."""
    names, count = portion.fields, len(portion.fields)
    text = portion.data.decode(errors=MARK_BAD)
    bad = portion.data.split(b"\n") if BAD in text else []
    for line, stop, row in _parsed(text, delimiter, is_quoted=portion.is_quoted):
        place = RowLocation(portion.name, portion.line + line)
        if len(row) != count and row:
            off = "few" if len(row) < count else "many"
            why = f"{len(row)} fields, but the header names {count}: a quote or delimiter too {off}"
            faults.add(place, "field count", why)
        elif row and bad and any(BAD in value for value in row):
            if _stays(b"\n".join(bad[line:stop]), place, faults):
                yield place, {k: v.replace(BAD, "\ufffd") for k, v in zip(names, row, strict=True)}
        elif row:
            yield place, dict(zip(names, row, strict=True))


def record_ends(delimiter: str) -> Ends:
    """Return the `Ends` of records for the csv module's rules: a quote opens at a field's start.

    Elsewhere a quote is text, and within a quoted field two of them stand for one.
    """
    starts = b"\n" + delimiter.encode()

    def ends(data: bytes, whole: bool) -> int:
        values = np.frombuffer(data, dtype=np.uint8)
        quotes = np.flatnonzero(values == _QUOTE)
        if quotes.size and not _regular(values, quotes, starts):
            quotes = np.array(_quotes(data, starts), dtype=np.int64)
        end = data.rfind(b"\n")
        while end >= 0 and (before := int(np.searchsorted(quotes, end))) & 1:
            end = data.rfind(b"\n", 0, int(quotes[before - 1]))  # this one is inside quotes
        return end + 1

    return ends


def _regular(values: NDArray[np.uint8], quotes: NDArray[np.int64], starts: bytes) -> bool:
    """Return whether quotes alternate: each is at the start or end of a field, or in a pair."""
    around = np.isin(np.arange(256), [*starts, _QUOTE])
    opening, closing = quotes[::2], quotes[1::2]
    return bool(
        around[values[opening[opening > 0] - 1]].all()
        and around[values[closing[closing + 1 < len(values)] + 1]].all()
    )


def _quotes(data: bytes, starts: bytes) -> list[int]:
    """Return the positions of the quotes that open and close fields, in turn."""
    positions, position = [], 0
    while (first := data.find(b'"', position)) >= 0:
        position = first + 1
        if first and data[first - 1] not in starts:
            continue
        stop = data.find(b'"', position)
        while stop >= 0 and data[stop + 1 : stop + 2] == b'"':
            stop = data.find(b'"', stop + 2)
        positions.append(first)
        if stop < 0:
            break
        positions.append(stop)
        position = stop + 1
    return positions


def _parsed(
    text: str, delimiter: str, *, is_quoted: bool, is_strict: bool = False
) -> list[tuple[int, int, list[str]]]:
    """Return for each record: its first line and the line after its last, from 0; its fields.

    Raises csv.Error with `is_strict` for text after a closing quote.
    """
    previous = csv.field_size_limit(LONGEST)  # global; 131,072 by default
    try:
        reader = csv.reader(
            io.StringIO(text, newline="\n"),
            delimiter=delimiter,
            quoting=csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE,
            strict=is_strict,
        )
        records, line = [], 0
        for row in reader:
            records.append((line, reader.line_num, row))
            line = reader.line_num
        return records
    finally:
        csv.field_size_limit(previous)


def _stays(data: bytes, place: RowLocation, faults: Faults) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        place = moved(place._replace(byte=1), data, error.start)
        return faults.add(place, NOT_UTF8, not_utf8(error), replaceable=True)
    return True


def _header(
    source: RecordFile, block: LineBlock, delimiter: str, *, is_quoted: bool
) -> tuple[tuple[str, ...], LineBlock]:
    """Return the names of the columns, and the block without them; no names if it is blank.

    Without a header, the names are the positions 0, 1, ...
    """
    if block.fault is not None:
        raise DataError(f"{source.name}:{block.line}: no header can be read: {block.fault[1]}")
    text = block.data.decode(errors=MARK_BAD)
    for line, stop, names in _parsed(text, delimiter, is_quoted=is_quoted):
        if names and (_is_data(names) or (not source.has_names and not _is_counted(names))):
            return tuple(map(str, range(len(names)))), block
        if names:
            _check_names(names, f"{source.name}:{block.line + line}")
            lines = block.data.split(b"\n", stop)
            rest = replace(block, data=lines[-1], line=block.line + stop, lines=block.lines - stop)
            return tuple(names), rest
    return (), replace(block, data=b"")


def _check_names(names: list[str], where: str) -> None:
    remedy = "the first row must name the columns; give the file such a row"
    for column, name in enumerate(names, 1):
        if BAD in name:
            raise DataError(f"{where}: the name of column {column} is not UTF-8; {remedy}")
        if names.index(name) < column - 1:
            raise DataError(f"{where}: two columns are named {name!r}; {remedy}")
        if not name and column > 1:  # pandas leaves the name of its index column empty
            raise DataError(f"{where}: column {column} has no name; {remedy}")


def _is_data(fields: list[str]) -> bool:
    """Return whether a first row has a number, and so does not name the columns."""
    return not _is_counted(fields) and any(map(_is_number, fields))


def _is_counted(names: list[str]) -> bool:
    """Return whether names are 0, 1, ..., as pandas names columns without names."""
    counted = names[1:] if not names[0] else names
    return counted == list(map(str, range(len(counted))))


def _is_number(name: str) -> bool:
    try:
        return math.isfinite(float(name))  # a column may be named Inf or NaN
    except ValueError:
        return False


def _count(stream: BinaryIO, *, delimiter: str) -> int:
    """Return the number of records, without the header if there is one."""
    every, head, size = lines(stream), list[bytes](), 0
    for line in every:
        head.append(line)
        size += len(line)
        if size >= _LOOKED:
            break
    is_quoted = _is_quoted([b"".join(head)], delimiter)
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    text = (line.decode(errors="replace") for line in chain(head, every))
    reader = (row for row in csv.reader(text, delimiter=delimiter, quoting=quoting) if row)
    try:
        first = next(reader, None)
        rest = sum(1 for _ in reader)
    except csv.Error as error:  # the csv module limits the size of a field
        raise TooMuchError from error
    return rest + (first is not None and _is_data(first))


def delimited(name: str, delimiter: str) -> Format:
    """Return the format whose suffix is its name and whose fields `delimiter` separates."""
    return Format(
        name=name,
        suffixes=(f".{name}",),
        portions=partial(portions, delimiter=delimiter),
        rows=partial(rows, delimiter=delimiter),
        count=partial(_count, delimiter=delimiter),
        count_cost=4,
        has_header=True,
    )


CSV: Final = delimited("csv", ",")
TSV: Final = delimited("tsv", "\t")
