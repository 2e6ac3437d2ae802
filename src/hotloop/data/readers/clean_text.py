"""Find text files, and read them as clean UTF-8 in bounded memory."""

import codecs
import os
import shlex
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from hotloop.core.errors import DataError, did_you_mean

__all__ = [
    "BAD",
    "HEAD_BYTES",
    "MARK_BAD",
    "NOT_DATA",
    "SUFFIXES",
    "TextSource",
    "advance",
    "check_head",
    "find_invalid",
    "find_texts",
    "one_line",
    "read_text",
    "refuse",
    "walk",
]

# The suffixes that are read from a folder. JSON, CSV and HTML are not among them: they hold records
# or markup, and few want a model of their brackets. A file that is named is read in any case.
SUFFIXES = (".md", ".py", ".raw", ".rst", ".tex", ".text", ".tokens", ".txt")

_GUIDE = "(hotloop explain cache-not-found)"
_CHUNK_BYTES = 1 << 20
# Git treats a file with a NUL in its first 8000 bytes as binary, UTF-16 included:
# buffer_is_binary() in https://github.com/git/git/blob/master/xdiff-interface.c, 2026-11
HEAD_BYTES = 8000  # that `check_head` reads
NOT_DATA = frozenset({"site-packages", "dist-packages", "__pycache__"})  # folders left out
_TESTS = frozenset({"test", "tests", "idle_test"})  # of the standard library
_MARKS = (  # longest first: the mark of UTF-32-LE begins with that of UTF-16-LE
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# Decoding puts BAD in place of each invalid sequence. Valid UTF-8 has no surrogates, so BAD cannot
# be confused with a U+FFFD in the text.
BAD, _REPLACEMENT = "\udc80", "\ufffd"
MARK_BAD = "hotloop.mark"  # the `errors` argument of bytes.decode for that


def _mark_bad(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return BAD, error.end


codecs.register_error(MARK_BAD, _mark_bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSource:
    """Text files in the order in which they are read."""

    files: tuple[Path, ...]
    root: Path  # a folder that holds them all

    def name(self, file: Path) -> str:
        """Return the path of a file relative to `root`, with forward slashes."""
        return file.relative_to(self.root).as_posix()


def find_texts(path: str | None) -> TextSource:
    """Find the text at `path`: a file, a folder, or with None Python's own standard library.

    A folder is searched recursively for SUFFIXES, in the order of the relative names. Hidden and
    empty files, linked folders, links that lead out of it, and second names of one file are
    skipped. Raises DataError, which says what to do, when there is nothing to read.
    """
    try:
        return _standard_library() if path is None else _source_at(path)
    except OSError as error:
        refuse(error, path)


def read_text(
    path: Path, *, limit: int | None = None, chunk_bytes: int = _CHUNK_BYTES
) -> Iterator[tuple[str, int]]:
    """Yield the text of a file in pieces, each with its number of invalid sequences.

    At most `limit` characters are given. The text is decoded as UTF-8 without its byte order mark;
    CR LF and CR become LF, and a missing last LF is added, so these variants of a file are equal.
    An invalid sequence becomes U+FFFD. Memory stays at a few times `chunk_bytes` for lines of any
    length. Raises DataError for UTF-16, UTF-32 and binary files and for unreadable files.
    """
    remaining, last = limit, "\n"
    for block in _blocks(path, chunk_bytes):
        text = block.decode(errors=MARK_BAD)
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        if remaining is not None:
            text = text[:remaining]
            remaining -= len(text)
        last = text[-1:] or last
        bad = text.count(BAD)
        if text:
            yield text.replace(BAD, _REPLACEMENT) if bad else text, bad
        if remaining == 0:
            return
    if last != "\n":
        yield "\n", 0


def find_invalid(path: Path, name: str, *, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[str]:
    """Yield `name:line:byte: reason` for each sequence that is not UTF-8; both count from 1."""
    line, column = 1, 1  # of the block's first byte
    for block in _blocks(path, chunk_bytes):
        position, view = 0, memoryview(block)
        while position < len(block):
            try:
                codecs.utf_8_decode(view[position:], "strict", True)
                break
            except UnicodeDecodeError as error:
                start, position = position + error.start, position + error.end
                where = advance(line, column, block[:start])
                yield f"{name}:{where[0]}:{where[1]}: 0x{block[start]:02x}, {error.reason}"
        line, column = advance(line, column, block)


def advance(line: int, column: int, passed: bytes) -> tuple[int, int]:
    """Return the line and byte, both from 1, of the position after the bytes `passed`."""
    breaks = passed.count(b"\n") + passed.count(b"\r") - passed.count(b"\r\n")
    last = max(passed.rfind(b"\n"), passed.rfind(b"\r"))
    return line + breaks, column + len(passed) if last < 0 else len(passed) - last


def _blocks(path: Path, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the bytes after a byte order mark, in blocks of whole characters and whole CR LF."""
    try:
        with path.open("rb") as stream:
            check_head(path, stream.read(HEAD_BYTES))
            stream.seek(0)
            rest = stream.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
            while fresh := stream.read(chunk_bytes):
                data = rest + fresh
                cut = _cut(data)
                rest = data[cut:]
                yield data[:cut]
            yield rest
    except OSError as error:
        refuse(error, path)


def _cut(data: bytes) -> int:
    """Return a position near the end that is neither inside a character nor between CR and LF."""
    for back in (1, 2, 3):  # a character has at most three bytes after its first, >= 0xc0 in each
        if data[-back:][:1] >= b"\xc0":
            return len(data) - min(back, len(data))
    return len(data) - data.endswith(b"\r")


def check_head(path: Path, head: bytes, *, unpack: str | None = None) -> None:
    """Raise DataError with the remedy if a file's first HEAD_BYTES are not UTF-8 text.

    `unpack` is the command that writes the content of a compressed file to its output.
    """
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            raise DataError(
                f"{path} is {encoding} (it begins with the bytes {mark.hex(' ')}), but UTF-8 is "
                f"read; convert it: {_conversion(path, encoding, unpack)}"
            )
    if (nul := head.find(b"\0")) >= 0:
        raise DataError(
            f"{path} is not UTF-8 text: byte {nul + 1} is NUL, so it is binary, or UTF-16 without "
            f"a mark; leave it out, or convert it: {_conversion(path, 'UTF-16LE', unpack)}"
        )


def _conversion(path: Path, encoding: str, unpack: str | None) -> str:
    name, convert = shlex.quote(path.name), f"iconv -f {encoding} -t UTF-8"
    return f"{unpack} {name} | {convert} > utf8.txt" if unpack else f"{convert} {name} > utf8.txt"


def refuse(error: OSError, place: object = None) -> NoReturn:
    """Raise the DataError for a file that the system does not let us read."""
    raise DataError(
        f"cannot read {error.filename or place}: {error.strerror or error}; check that it is there "
        f"and that you may read it {_GUIDE}"
    ) from error


def _missing(place: Path) -> str:
    if place.exists():
        return f"{place} is neither a file nor a folder; name a text file or a folder of them"
    near = ""
    if place.parent.is_dir():
        near = did_you_mean(place.name, (entry.name for entry in place.parent.iterdir()))
    return (
        f"{place} does not exist (looked from {Path.cwd()}){near or '; check data.path'} {_GUIDE}"
    )


def _source_at(path: str) -> TextSource:
    if not path:
        raise DataError("the path of the text is empty; name a file or a folder in data.path")
    place = Path(os.path.expanduser(path))  # a shell leaves the ~ of data.path=~/x alone
    if place.is_dir():
        return _folder(place.resolve(), SUFFIXES, NOT_DATA)
    if not place.is_file():
        raise DataError(_missing(place))
    place = place.absolute()
    if place.stat().st_size == 0:
        raise DataError(f"{place} is empty; name a file or folder with text")
    return TextSource(files=(place,), root=place.parent)


def _standard_library() -> TextSource:
    root = Path(sysconfig.get_path("stdlib"))
    if not root.is_dir():
        raise DataError(f"this Python has no library folder at {root}; name a text with data.path")
    return _folder(root.resolve(), (".py",), NOT_DATA | _TESTS)


def _folder(root: Path, suffixes: tuple[str, ...], skipped: frozenset[str]) -> TextSource:
    by_target: dict[Path, Path] = {}  # the resolved path -> the path
    left_out: Counter[str] = Counter()
    for path in sorted(walk(root, skipped), key=lambda path: path.is_symlink()):
        if path.suffix.lower() not in suffixes:
            left_out[path.suffix or "without suffix"] += 1
        elif not path.is_file() or not (target := path.resolve()).is_relative_to(root):
            left_out["links that lead out of it, or no plain files"] += 1
        elif path.stat().st_size == 0:
            left_out["empty"] += 1
        else:
            by_target.setdefault(target, path)
    if not by_target:
        kinds = ", ".join(f"{n} {kind}" for kind, n in left_out.most_common(5)) or "nothing"
        raise DataError(
            f"{root} holds no text: expected files ending in {' '.join(suffixes)}, found {kinds}; "
            "name one file, or put the text into a .txt file"
        )
    files = sorted(by_target.values(), key=lambda path: path.relative_to(root).as_posix())
    return TextSource(files=tuple(files), root=root)


def walk(root: Path, skipped: frozenset[str]) -> Iterator[Path]:
    """Yield all files below `root`, except hidden ones and those in hidden or `skipped` folders."""
    for folder, below, names in os.walk(root, onerror=refuse):
        below[:] = [name for name in below if not name.startswith(".") and name not in skipped]
        yield from (Path(folder, name) for name in names if not name.startswith("."))


def one_line(text: str) -> str:
    """Return a text in one line that a terminal can show: control characters become U+FFFD."""
    line = text.replace("\n", "⏎")
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in line)
