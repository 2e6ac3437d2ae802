"""Read plain text as documents: a whole file in pieces, each line, or each paragraph."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from hotloop.data.readers.bad_rows import NOT_UTF8, RowLocation, not_utf8
from hotloop.data.readers.clean_text import SUFFIXES
from hotloop.data.readers.counting import lines
from hotloop.data.readers.portions import Format, of_blocks
from hotloop.data.readers.text_lines import LONGEST, blocks, line_ends

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Portion, Record, RecordFile
    from hotloop.data.readers.text_lines import Ends

__all__ = ["FOLDER", "PIECES", "PIECE_BYTES", "TXT", "paragraph_ends", "portions", "rows"]

FOLDER: Final = "folder"  # the key of a file's class, where each class has a folder of files
PIECES: Final = ("is_first", "is_last")  # keys of a document that comes in pieces
PIECE_BYTES = 1 << 20  # of a piece of a long document, approximately
_HELD = 32  # blank or faulty portions that wait at most, to bound the memory
_LONGEST_PARAGRAPH = 16 << 20  # bytes; a longer one is cut at a line


def portions(
    source: RecordFile, *, size: int = PIECE_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield the text in portions of about `size` bytes, cut where `source.documents` allows.

    A line of more than `longest` bytes is a portion with a fault.
    """
    size = min(size, PIECE_BYTES)
    ends: Ends = paragraph_ends if source.documents == "blank" else line_ends
    pending: list[
        Portion
    ] = []  # the latest text, which may be the last, then faults and blank lines
    is_first = True
    for portion in of_blocks(source, blocks(source.path, size=size, longest=longest, ends=ends)):
        is_text = portion.fault is None and not portion.data.isspace()
        if is_text or len(pending) > _HELD:
            yield from pending
            pending = []
        pending.append(replace(portion, is_first=is_text and is_first))
        is_first = is_first and not is_text
    if pending:
        yield replace(pending[0], is_last=True)
        yield from pending[1:]


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield each document, or piece of one, as a record with "text", "is_first" and "is_last".

    A file of a class also has "folder", the name of the class.
    "is_first" says whether the document begins with this piece, "is_last" whether it ends with it.
    A line that is not UTF-8 is a fault; if it is skipped, the rest of its document stays.
    """
    name = portion.name
    if portion.documents == "file":
        try:
            text = portion.data.decode()
        except UnicodeDecodeError:
            text = "".join(f"{line}\n" for _, line in _lines(portion, faults))
        if text or portion.is_last:
            ends = {"is_first": portion.is_first, "is_last": portion.is_last}
            folder = {} if portion.folder is None else {FOLDER: portion.folder}
            yield RowLocation(name, portion.line), {"text": text, **folder, **ends}
    elif portion.documents == "line":
        for number, line in _lines(portion, faults):
            if line.strip():
                yield RowLocation(name, number), _whole(line)
    else:
        yield from _paragraphs(portion, faults)


def paragraph_ends(data: bytes, whole: bool) -> int:
    """Return the end of the last blank line: the `Ends` of paragraphs."""
    last = end = data.rfind(b"\n") + 1
    if whole:
        return last
    while end > 0:
        begin = data.rfind(b"\n", 0, end - 1) + 1
        if data[begin:end].isspace():
            return end
        end = begin
    return last if len(data) >= _LONGEST_PARAGRAPH else 0


def _paragraphs(portion: Portion, faults: Faults) -> Iterator[Record]:
    lines: list[str] = []
    first = portion.line
    for number, line in _lines(portion, faults):
        if line.strip():
            first = first if lines else number
            lines.append(line)
        elif lines:
            yield RowLocation(portion.name, first), _whole("\n".join(lines))
            lines = []
    if lines:
        yield RowLocation(portion.name, first), _whole("\n".join(lines))


def _whole(text: str) -> dict[str, Any]:
    return {"text": text, "is_first": True, "is_last": True}


def _lines(portion: Portion, faults: Faults) -> Iterator[tuple[int, str]]:
    """Yield the lines that are kept, without their ends, each with its number."""
    try:
        yield from enumerate(portion.data.decode().split("\n")[:-1], portion.line)
        return
    except UnicodeDecodeError:
        pass
    for number, line in enumerate(portion.data.split(b"\n")[:-1], portion.line):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            place = RowLocation(portion.name, number, error.start + 1)
            if faults.add(place, NOT_UTF8, not_utf8(error), replaceable=True):
                yield number, line.decode(errors="replace")


def _count(stream: BinaryIO) -> int:
    return sum(1 for _ in lines(stream))


TXT: Final = Format(
    name="txt",
    suffixes=(".txt",),
    portions=portions,
    rows=rows,
    count=_count,
    rank=2,
    also=SUFFIXES,
    no_data=re.compile(  # texts that belong to code
        r"(requirements.*|constraints.*|cmakelists|licen[cs]e.*|readme.*|changelog.*|notice|robots|"
        r"sources|top_level|entry_points|dependency_links)\.txt",
        re.IGNORECASE,
    ),
    is_plain_text=True,
)
