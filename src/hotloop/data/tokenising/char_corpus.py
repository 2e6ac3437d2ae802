"""Turn text into memory-mapped tokens once, in a folder named by a digest of its contents.

A token folder holds `train.bin` and `valid.bin` (little-endian uint16), `vocabulary.json`,
`about.json` and the manifest of `core.storage.files`. Its name is the fingerprint of the text, the
options and TOKENS_VERSION, so tokens of another text or of older code are never used.
about.json history: schema 1 (2026-11).
"""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash
from numpy.typing import NDArray

from hotloop.core.digest import digest
from hotloop.core.errors import ConfigError, DataError, WriteError
from hotloop.core.storage.files import check_folder, read_json, remove_folder, write_folder
from hotloop.data.readers.clean_text import TextSource, find_invalid, one_line, read_text
from hotloop.data.tokenising.char_vocabulary import CharVocabulary, code_points

__all__ = [
    "TOKENS_VERSION",
    "Invalid",
    "TokenSet",
    "open_tokens",
    "prepare",
]

TOKENS_VERSION = 1  # raise it when the same text and options give other tokens
ABOUT_SCHEMA = 1

Invalid = Literal["stop", "replace"]  # what to do with bytes that are not UTF-8

_TOKEN = np.dtype("<u2")
_SHOWN = 120  # characters of a sample
_LISTED = 20  # places and characters that are listed; the others are counted
_CHUNK_TOKENS = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenSet:
    """Tokens of a text, memory-mapped and read-only."""

    train: NDArray[np.uint16]  # [train tokens]
    valid: NDArray[np.uint16]  # [validation tokens]
    vocabulary: CharVocabulary
    about: Mapping[str, Any]  # about.json
    fingerprint: str
    folder: Path
    notes: tuple[str, ...] = ()  # for the user


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """The results of the first pass over a file. Lengths are in characters."""

    path: Path
    name: str  # relative to the source's root
    bytes: int  # on the disk
    length: int
    train: int  # the part before the validation part
    replaced: int  # invalid sequences that became U+FFFD
    xxh3_128: str  # of the text in UTF-8, so that BOM and CRLF make no difference


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """The callbacks for progress, and for a poll between chunks that may stop the work."""

    progress: Callable[[str, float], None] | None
    poll: Callable[[], None] | None

    def tick(self, activity: str, done: int, total: int) -> None:
        if self.poll is not None:
            self.poll()
        if self.progress is not None:
            self.progress(activity, min(1.0, done / max(total, 1)))


def prepare(
    source: TextSource,
    *,
    cache: Path,
    max_chars: int | None = None,
    validation_share: float,
    invalid: Invalid = "stop",
    progress: Callable[[str, float], None] | None = None,
    poll: Callable[[], None] | None = None,
) -> TokenSet:
    """Return the tokens of a text, from the folder `cache` if they are there and sound.

    The last `validation_share` of every file is validation; the vocabulary is that of the training
    part. At most `max_chars` characters are read in total. Memory does not grow with the text.
    `progress` gets the activity and its share in 0..1. `poll` is called between chunks; an
    exception of it passes through and leaves nothing behind. Raises DataError for text that cannot
    be used, ConfigError for options out of range and WriteError if the cache cannot be written.
    """
    if not 0 < validation_share < 1:
        raise ConfigError(f"validation_share must be above 0 and below 1, not {validation_share}")
    if max_chars is not None and max_chars < 1:
        raise ConfigError(f"max_chars must be at least 1, not {max_chars}")
    watch = _Watch(progress=progress, poll=poll)
    files = _survey(source, max_chars, validation_share, watch)
    notes = _judge(files, invalid)
    options: dict[str, Any] = {
        "tokens_version": TOKENS_VERSION,
        "kind": "characters",
        "max_chars": max_chars,
        "validation_share": validation_share,
        "invalid": invalid,
        "sources": [
            {"name": f.name, "bytes": f.bytes, "characters": f.length, "xxh3_128": f.xxh3_128}
            for f in files
        ],
    }
    folder = cache / _fingerprint(options)
    tokens, damage = _reuse(folder)
    if tokens is None:
        _write(folder, files, options, watch)
        tokens = open_tokens(folder)
    # The same text may have other file names now than when it was first read.
    about = {**tokens.about, "sources": options["sources"]}
    return replace(tokens, about=about, notes=(*notes, *damage, *_samples(tokens)))


def open_tokens(folder: Path) -> TokenSet:
    """Map a token folder into memory; DataError names the damage in any byte of it."""
    try:
        return _opened(folder)
    except OSError as error:
        raise DataError(f"cannot read the tokens in {folder}: {error}") from error


def _opened(folder: Path) -> TokenSet:
    if broken := check_folder(folder):
        raise DataError(f"the tokens in {folder} cannot be used: {'; '.join(broken)}")
    about = read_json(folder / "about.json")
    if about.get("schema") != ABOUT_SCHEMA:
        raise DataError(f"{folder} has schema {about.get('schema')}, but {ABOUT_SCHEMA} is read")
    fingerprint = _fingerprint(about)
    if about.get("fingerprint") != fingerprint:
        raise DataError(
            f"{folder} says its fingerprint is {about.get('fingerprint')}, but its contents and "
            f"options give {fingerprint}"
        )
    vocabulary = CharVocabulary.from_json(read_json(folder / "vocabulary.json"))
    return TokenSet(
        train=_mapped(folder / "train.bin", about.get("train_tokens"), vocabulary),
        valid=_mapped(folder / "valid.bin", about.get("valid_tokens"), vocabulary),
        vocabulary=vocabulary,
        about=about,
        fingerprint=fingerprint,
        folder=folder,
    )


def _samples(tokens: TokenSet) -> list[str]:
    """Return a sentence on the first characters of each part; every character carries loss."""
    return [
        f"sample of the {part} text: {one_line(tokens.vocabulary.decode(ids[:_SHOWN]))}"
        for part, ids in (("training", tokens.train), ("validation", tokens.valid))
    ]


def _survey(
    source: TextSource, max_chars: int | None, validation_share: float, watch: _Watch
) -> list[_File]:
    """Read the text once, for lengths, hashes and sequences that are not UTF-8."""
    remaining = sys.maxsize if max_chars is None else max_chars
    sizes = [_size(path) for path in source.files]
    done, total, files = 0, min(sum(sizes), remaining), []
    for path, size in zip(source.files, sizes, strict=True):
        length, replaced, state = 0, 0, xxhash.xxh3_128()
        for text, bad in read_text(path, limit=remaining):
            data = text.encode()
            state.update(data)
            done, length, replaced = done + len(data), length + len(text), replaced + bad
            watch.tick("reading the text", done, total)
        files.append(
            _File(
                path=path,
                name=source.name(path),
                bytes=size,
                length=length,
                train=_train_length(length, validation_share),
                replaced=replaced,
                xxh3_128=state.hexdigest(),
            )
        )
        remaining -= length
        if remaining == 0:
            break
    return files


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}; was it removed?") from error


def _train_length(length: int, validation_share: float) -> int:
    """Round as nanoGPT does, so that its stated losses on one file can be compared with ours.

    https://github.com/karpathy/nanoGPT/blob/master/data/shakespeare_char/prepare.py, 2026-11
    """
    return int(length * (1 - validation_share))


def _judge(files: list[_File], invalid: Invalid) -> list[str]:
    """Return notes about text that can be used; raise DataError for text that cannot."""
    length, train = sum(file.length for file in files), sum(file.train for file in files)
    if not 0 < train < length:
        raise DataError(
            f"the text has {length} characters: {train} for training and {length - train} for "
            "validation, but both need some; use more text or another validation_share"
        )
    if (bad := sum(file.replaced for file in files)) == 0:
        return []
    places_by_file = (islice(find_invalid(file.path, file.name), file.replaced) for file in files)
    places = list(islice(chain.from_iterable(places_by_file), _LISTED))
    if invalid == "replace":
        return [f"{bad} sequences that are not UTF-8 became U+FFFD; the first is {places[0]}"]
    listed = "".join(f"\n  {place}" for place in places)
    raise DataError(
        f"{bad} sequences are not UTF-8, at file:line:byte{listed}\n"
        f"({len(places)} of {bad} listed); correct them, convert the file with iconv, or set "
        "data.invalid=replace to train with U+FFFD in their place"
    )


def _fingerprint(about: Mapping[str, Any]) -> str:
    """Return the name of a token set: a digest of contents and options, not of file names."""
    options = ("tokens_version", "kind", "max_chars", "validation_share", "invalid")
    try:
        contents = [[source["xxh3_128"], source["characters"]] for source in about["sources"]]
        return digest(json.dumps([[about[key] for key in options], contents]))
    except (KeyError, TypeError) as error:
        raise DataError(f"about.json is incomplete: {error!r}; build the tokens again") from error


def _reuse(folder: Path) -> tuple[TokenSet | None, list[str]]:
    """Return the tokens in a cache folder; remove a damaged folder, and return a note."""
    if not folder.exists():
        return None, []
    try:
        tokens = open_tokens(folder)
        if tokens.fingerprint != folder.name:
            raise DataError(f"{folder} holds the tokens of {tokens.fingerprint}")
    except DataError as error:
        try:
            remove_folder(folder)
        except WriteError:
            if folder.exists():  # else another process removed it first
                raise
        return None, [f"cached tokens were damaged and built again: {error}"]
    return tokens, []


def _write(folder: Path, files: list[_File], options: dict[str, Any], watch: _Watch) -> None:
    vocabulary, unseen = _census(files, watch)
    length, train = sum(file.length for file in files), sum(file.train for file in files)
    about = {
        "schema": ABOUT_SCHEMA,
        "fingerprint": folder.name,
        **options,
        "train_tokens": train,
        "valid_tokens": length - train,
        "replaced": sum(file.replaced for file in files),
        "unseen": sum(unseen.values()),
        "most_unseen": list(unseen.items())[:_LISTED],
    }
    reading = "writing the training tokens", "writing the validation tokens"
    trains = (train for train, _ in _read_again(files, reading[0], watch))
    valids = (valid for _, valid in _read_again(files, reading[1], watch))
    content: dict[str, Iterable[bytes]] = {
        "train.bin": (vocabulary.encode(text).astype(_TOKEN).tobytes() for text in trains),
        "valid.bin": (vocabulary.encode(text).astype(_TOKEN).tobytes() for text in valids),
        "vocabulary.json": [json.dumps(vocabulary.to_json()).encode()],
        "about.json": [json.dumps(about, indent=1).encode()],
    }
    try:
        write_folder(folder, content)
    except WriteError as error:
        raise WriteError(
            f"{error}; HOTLOOP_CACHE=FOLDER moves the token cache (hotloop explain cache-not-found)"
        ) from error


def _census(files: list[_File], watch: _Watch) -> tuple[CharVocabulary, dict[str, int]]:
    """Return the training vocabulary, and the other characters of validation, by frequency.

    Counts are in one array by code point, so their memory does not depend on the text.
    """
    train, valid = (np.zeros(sys.maxunicode + 1, dtype=np.int64) for _ in range(2))
    for texts in _read_again(files, "collecting the characters", watch):
        for counts, text in zip((train, valid), texts, strict=True):
            new_counts = np.bincount(code_points(text))
            counts[: len(new_counts)] += new_counts
    strange = np.flatnonzero(valid * (train == 0))
    strange = strange[np.argsort(-valid[strange], kind="stable")]
    return (
        CharVocabulary(characters=tuple(map(chr, np.flatnonzero(train).tolist()))),
        {chr(point): int(valid[point]) for point in strange.tolist()},
    )


def _read_again(files: list[_File], activity: str, watch: _Watch) -> Iterator[tuple[str, str]]:
    """Yield the text in pieces as (training part, validation part).

    Raises DataError when a file is not the same as in the survey.
    """
    done, total = 0, sum(file.length for file in files)
    for file in files:
        position, state = 0, xxhash.xxh3_128()
        for text, _ in read_text(file.path, limit=file.length):
            state.update(text.encode())
            cut = max(0, file.train - position)
            yield text[:cut], text[cut:]
            position, done = position + len(text), done + len(text)
            watch.tick(activity, done, total)
        if state.hexdigest() != file.xxh3_128:
            raise DataError(f"{file.path} changed while it was read; run again when it is complete")


def _mapped(path: Path, count: object, vocabulary: CharVocabulary) -> NDArray[np.uint16]:
    """Map a file of tokens after checking its length and that all ids are in the vocabulary."""
    size = path.stat().st_size
    if not isinstance(count, int) or count < 1 or size != count * _TOKEN.itemsize:
        raise DataError(f"{path} has {size} bytes, but about.json says it holds {count} tokens")
    highest = 0
    with path.open("rb") as stream:  # not through the map, whose pages would stay in memory
        while (chunk := np.fromfile(stream, dtype=_TOKEN, count=_CHUNK_TOKENS)).size:
            highest = max(highest, int(chunk.max()))
    if highest >= (ids := len(vocabulary)):
        raise DataError(f"{path} has the id {highest}, but its vocabulary ends at {ids - 1}")
    return np.memmap(path, dtype=_TOKEN, mode="r")
