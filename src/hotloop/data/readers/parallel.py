"""Read parallel texts: files of one name and several languages, whose lines belong together.

As Moses has them: corpus.de and corpus.en (https://www2.statmt.org/moses/?n=FactoredTraining.
PrepareTraining, 2026-11).
"""

from __future__ import annotations

from itertools import zip_longest
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from hotloop.core.errors import DataError
from hotloop.data.readers.bad_rows import NOT_UTF8, RowLocation, not_utf8
from hotloop.data.readers.counting import lines
from hotloop.data.readers.portions import PORTION_BYTES, Format, Portion
from hotloop.data.readers.text_lines import LONGEST, blocks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Record, RecordFile

__all__ = ["LANGUAGES", "PARALLEL", "languages_beside", "portions", "rows"]

# ISO 639-1. Pairs of other suffixes, such as .cc and .hh, are no texts of two languages.
_CODES: Final = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia
id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo
lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl
ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk
tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
LANGUAGES: Final = frozenset(_CODES.split())
_UNEVEN: Final = "uneven"  # a kind of fault


def languages_beside(path: Path, among: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that hold a file's lines in two or more languages, with itself, by name.

    `path` may also be their name without a language. Nothing is returned if there are no two.
    """
    stem = path.with_suffix("") if _is_language(path) else path
    same = sorted(p for p in among if _is_language(p) and p.with_suffix("") == stem)
    return tuple(same) if len(same) > 1 else ()


def portions(
    source: RecordFile, *, size: int = PORTION_BYTES, longest: int = LONGEST
) -> Iterator[Portion]:
    """Yield the lines of all files in turn, in portions of about `size` bytes.

    Where one file ends before another, the last portion is a fault. Raises DataError for a line
    that is too long, and for a compressed file that is torn.
    """
    keys = tuple(path.suffix[1:] for path in source.paths)
    streams = [_lines(path, longest) for path in source.paths]
    held: list[bytes] = []
    first, bytes_held = 1, 0

    def portion(line: int, data: list[bytes], fault: tuple[str, str, int] | None = None) -> Portion:
        return Portion(
            file=str(source.path),
            name=source.name,
            format=source.format,
            data=b"".join(data),
            line=line,
            fields=keys,
            fault=fault,
        )

    for line, texts in enumerate(zip_longest(*streams), start=1):
        if None in texts:
            ended = ", ".join(k for k, text in zip(keys, texts, strict=True) if text is None)
            if held:
                yield portion(first, held)
            why = f"{ended} has {line - 1} lines and the others have more: nothing after it is read"
            yield portion(line, [], (_UNEVEN, why, 1))
            return
        held += texts
        bytes_held += sum(map(len, texts))
        if bytes_held >= size:
            yield portion(first, held)
            held, first, bytes_held = [], line + 1, 0
    if held:
        yield portion(first, held)


def rows(portion: Portion, faults: Faults) -> Iterator[Record]:
    """Yield a record with a text for each language; a line that is not UTF-8 is a fault."""
    keys, lines_of_all = portion.fields, portion.data.split(b"\n")
    for index in range(len(lines_of_all) // len(keys)):
        line, record = portion.line + index, dict[str, str]()
        for key, text in zip(keys, lines_of_all[index * len(keys) :], strict=False):
            try:
                record[key] = text.decode()
            except UnicodeDecodeError as error:
                name = str(PurePath(portion.name).with_suffix(f".{key}"))
                place = RowLocation(name, line, error.start + 1)
                if faults.add(place, NOT_UTF8, not_utf8(error), replaceable=True):
                    record[key] = text.decode(errors="replace")
        if len(record) == len(keys):
            yield RowLocation(portion.name, line), record


def _is_language(path: Path) -> bool:
    return path.suffix[1:].lower() in LANGUAGES


def _lines(path: Path, longest: int) -> Iterator[bytes]:
    for block in blocks(path, longest=longest):
        if block.fault is not None:
            raise DataError(f"{path}:{block.line}: {block.fault[1]}")
        yield from block.data.splitlines(keepends=True)


def _count(stream: BinaryIO) -> int:
    return sum(1 for _ in lines(stream))


PARALLEL: Final = Format(
    name="parallel", suffixes=(), portions=portions, rows=rows, count=_count, rank=1
)
