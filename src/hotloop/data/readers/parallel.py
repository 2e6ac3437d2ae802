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
from hotloop.data.readers.text_lines import LONGEST, ReadWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from hotloop.data.readers.bad_rows import Faults
    from hotloop.data.readers.portions import Record, RecordFile

__all__ = ["LANGUAGES", "PARALLEL", "languages_beside", "parallel_texts", "portions", "rows"]

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
_AT_ONCE: Final = 1 << 20  # bytes of a file that are read at once
_UNEVEN: Final = "uneven"  # a kind of fault


def languages_beside(path: Path, among: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that hold a file's lines in two or more languages, with itself, by name.

    `path` may also be their name without a language. Nothing is returned if there are no two.
    """
    stem = path.with_suffix("") if _is_language(path) else path
    return parallel_texts(among).get(stem, ())


def parallel_texts(paths: Iterable[Path]) -> dict[Path, tuple[Path, ...]]:
    """Return the files of two or more languages, sorted, by their name without the language."""
    found: dict[Path, list[Path]] = {}
    for path in paths:
        if _is_language(path):
            found.setdefault(path.with_suffix(""), []).append(path)
    return {stem: tuple(sorted(files)) for stem, files in found.items() if len(files) > 1}


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
        line, first, record = portion.line + index, index * len(keys), dict[str, str]()
        for key, text in zip(keys, lines_of_all[first : first + len(keys)], strict=True):
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
    """Yield the lines of a file, each with LF; only LF or CR LF ends a line, unlike in blocks."""
    with ReadWindow(path) as window:
        want = _AT_ONCE
        while True:
            window.fill(want)
            data = window.data
            cut = len(data) if window.whole else data.rfind(b"\n") + 1
            if window.whole and window.torn:
                raise DataError(f"{path} is damaged: {window.torn}")
            if not cut and not window.whole:
                want *= 2
                if want > longest:
                    raise DataError(f"{path}: a line of more than {longest:,} bytes is no row")
                continue
            lines = data[:cut].split(b"\n")
            if not lines[-1]:
                lines.pop()
            yield from (line.removesuffix(b"\r") + b"\n" for line in lines)
            window.take(cut)
            if window.whole:
                return
            want = _AT_ONCE


def _count(stream: BinaryIO) -> int:
    return sum(1 for _ in lines(stream))


PARALLEL: Final = Format(
    name="parallel", suffixes=(), portions=portions, rows=rows, count=_count, rank=1
)
