"""Map single characters to ids and back by table look-up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hotloop.core.errors import DataError

__all__ = ["MOST_CHARACTERS", "UNKNOWN", "CharVocabulary", "code_points"]

UNKNOWN = "<unk>"  # the name of id 0 in files and reports
MOST_CHARACTERS = 65535  # with <unk> 2^16 ids, the range of uint16
SCHEMA = 1  # of vocabulary.json; 1 (2026-11): kind, unknown, characters

_FIRST_SURROGATE, _LAST_SURROGATE = "\ud800", "\udfff"  # halves of UTF-16 pairs
_REPLACEMENT = 0xFFFD  # to which <unk> is decoded: U+FFFD, one character for one id


@dataclass(frozen=True, slots=True, kw_only=True)
class CharVocabulary:
    """Character `characters[i]` has id i + 1; id 0 stands for every other character.

    Raises DataError for more than MOST_CHARACTERS, for repeated ones and for strings that are not
    one character.
    """

    characters: tuple[str, ...]
    _ids: NDArray[np.uint16] = field(init=False, repr=False, compare=False)  # by code point
    _points: NDArray[np.uint32] = field(init=False, repr=False, compare=False)  # by id

    def __post_init__(self) -> None:
        _check(self.characters)
        points = np.array([_REPLACEMENT, *map(ord, self.characters)], dtype=np.uint32)
        highest = max(map(ord, self.characters), default=0)
        ids = np.zeros(highest + 2, dtype=np.uint16)  # the last entry stands for all above it
        ids[points[1:]] = np.arange(1, len(points), dtype=np.uint16)
        object.__setattr__(self, "_ids", ids)
        object.__setattr__(self, "_points", points)

    def __len__(self) -> int:
        """Return the number of ids, <unk> included."""
        return len(self._points)

    def encode(self, text: str) -> NDArray[np.uint16]:
        """Return the id of each character, shape [len(text)]."""
        return np.take(self._ids, code_points(text), mode="clip")

    def decode(self, ids: NDArray[np.integer]) -> str:
        """Return the text of the ids, [n]; <unk> becomes U+FFFD. DataError for an unknown id."""
        if ids.size and (ids.min() < 0 or ids.max() >= len(self)):
            raise DataError(
                f"ids {ids.min()}..{ids.max()} came, but those of the vocabulary are "
                f"0..{len(self) - 1}; these ids belong to another vocabulary"
            )
        points: NDArray[np.uint32] = self._points[ids]
        return points.astype("<u4", copy=False).tobytes().decode("utf-32-le")

    def to_json(self) -> dict[str, object]:
        """Return the value that `from_json` reads."""
        return {
            "schema": SCHEMA,
            "kind": "characters",
            "unknown": UNKNOWN,
            "characters": list(self.characters),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> "CharVocabulary":
        """Return the vocabulary in the object of a vocabulary.json; DataError for other objects."""
        if set(value) != {"schema", "kind", "unknown", "characters"}:
            raise DataError(
                "a character vocabulary has the keys schema, kind, unknown and characters, "
                f"not {', '.join(map(str, value)) or 'none'}"
            )
        head = (value["schema"], value["kind"], value["unknown"])
        if head != (SCHEMA, "characters", UNKNOWN):
            raise DataError(
                f"expected a vocabulary of schema {SCHEMA}, kind characters with {UNKNOWN}, "
                f"got schema {head[0]}, kind {head[1]} with {head[2]}; build the tokens again"
            )
        characters = value["characters"]
        if not isinstance(characters, list):
            raise DataError(f"characters must be a list, not a {type(characters).__name__}")
        return cls(characters=tuple(characters))


def code_points(text: str) -> NDArray[np.uint32]:
    """Return the code point of each character, shape [len(text)], read-only."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _check(characters: tuple[str, ...]) -> None:
    if len(characters) > MOST_CHARACTERS:
        raise DataError(
            f"the text has {len(characters)} different characters, but at most {MOST_CHARACTERS} "
            "fit; use less text (data.max_chars) or a text of fewer scripts"
        )
    seen = set()
    for index, character in enumerate(characters):
        if not isinstance(character, str) or len(character) != 1:
            raise DataError(f"entry {index} of the vocabulary is {character!r}, not one character")
        if _FIRST_SURROGATE <= character <= _LAST_SURROGATE:
            raise DataError(f"entry {index} of the vocabulary is {character!r}, half a character")
        if character in seen:
            raise DataError(f"entry {index} of the vocabulary is {character!r}, which stands twice")
        seen.add(character)
