"""Turn texts into token ids and loss masks, with `tokenizers` or a faster equal back end.

A fast back end is used only after it gave the ids of `tokenizers` on a sample of the user's data,
because a silent difference would mean training on other data.
"""

from __future__ import annotations

import importlib
import importlib.util
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from hotloop.core.errors import ConfigError, DeviceError
from hotloop.data.tokenising.tokenizer_files import no_panic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from hotloop.data.tokenising.row_shapes import Text
    from hotloop.data.tokenising.tokenizer_files import TokenizerSpec

__all__ = ["BACKENDS", "Encoded", "Encoder", "fast_backend", "import_fast", "is_compared"]

# The errors that gigatoken 0.10 was seen to raise for a tokenizer that it cannot read.
_REFUSALS: Final = (ValueError, RuntimeError, TypeError, LookupError, AttributeError, OSError)

BACKENDS: Final = ("auto", "tokenizers", "gigatoken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Tokens of some texts, concatenated."""

    ids: NDArray[np.uint32]  # [tokens]
    lengths: NDArray[np.int64]  # [texts], tokens of each text
    columns: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)  # [tokens] each


class Encoder:
    """Encode texts with one vocabulary; each process makes its own."""

    def __init__(
        self, vocabulary: TokenizerSpec, *, has_loss_mask: bool, has_pairs: bool, backend: str
    ) -> None:
        self._eos, self._masks, self._pairs = vocabulary.eos, has_loss_mask, has_pairs
        self._vocabulary, self._around = vocabulary, vocabulary.around
        self._fast = _gigatoken(vocabulary.source) if backend == "gigatoken" else None

    def encode(self, texts: Sequence[Text]) -> Encoded:
        """Return the tokens of texts. EOS ends each text without a template and without a pair.

        The tokenizer's special tokens surround a whole document: its first piece gets those that
        come before, its last piece those that come after.
        """
        if self._fast is not None and not any(t.pair or t.learned is not None for t in texts):
            return self._quickly(texts)
        inputs = [(t.text, t.pair) if t.pair is not None else t.text for t in texts]
        is_rendered = bool(texts) and texts[0].is_rendered
        encode = self._tokenizer.encode_batch if self._masks else self._tokenizer.encode_batch_fast
        with no_panic(self._vocabulary.name):
            encodings = encode(inputs, add_special_tokens=not is_rendered)
        ids = [
            self._piece(text, encoding.ids) for text, encoding in zip(texts, encodings, strict=True)
        ]
        ends = [self._ends(text, row) for text, row in zip(texts, ids, strict=True)]
        lengths = np.array([len(row) + end for row, end in zip(ids, ends, strict=True)], np.int64)
        flat = np.empty(int(lengths.sum()), np.uint32)
        columns = self._columns(len(flat))
        position = 0
        for text, encoding, row, end in zip(texts, encodings, ids, ends, strict=True):
            flat[position : position + len(row)] = row
            if self._masks:
                _mark(columns["loss_mask"][position : position + len(row)], encoding, text)
            if self._pairs and text.pair is not None:
                columns["token_type_ids"][position : position + len(row)] = encoding.type_ids
            position += len(row)
            if end and self._eos is not None:
                flat[position] = self._eos
                if self._masks and not _ends_learned(text):
                    columns["loss_mask"][position] = 0
                position += 1
        return Encoded(ids=flat, lengths=lengths, columns=columns)

    @cached_property
    def _tokenizer(self) -> Any:
        """Return the tokenizer of `tokenizers`, made when it is first needed: it takes 40 MB."""
        return self._vocabulary.tokenizer()

    def _columns(self, tokens: int) -> dict[str, NDArray[np.uint8]]:
        columns = {}
        if self._masks:
            columns["loss_mask"] = np.ones(tokens, np.uint8)  # the ends stay in the loss
        if self._pairs:
            columns["token_type_ids"] = np.zeros(tokens, np.uint8)
        return columns

    def _ends(self, text: Text, ids: Sequence[int]) -> int:
        is_whole = text.is_rendered or text.pair is not None or self._pairs or not text.is_last
        return int(self._eos is not None and not is_whole and ids[-1:] != [self._eos])

    def _piece(self, text: Text, ids: Sequence[int]) -> Sequence[int]:
        """Return the tokens of a text without the special tokens around the whole document."""
        before, after = self._around
        first = 0 if text.is_first else len(before)
        return ids[first : len(ids) - (0 if text.is_last else len(after))]

    def _quickly(self, texts: Sequence[Text]) -> Encoded:
        """Encode with the fast back end, which adds no special tokens, and add them here."""
        assert self._fast is not None
        is_rendered = bool(texts) and texts[0].is_rendered
        body, counts = self._fast([text.text for text in texts])
        before, after = ((), ()) if is_rendered else self._around
        ends = np.zeros(len(texts), np.int64)
        if self._eos is not None and not is_rendered and tuple(after[-1:]) != (self._eos,):
            last = (np.cumsum(counts) - 1)[counts > 0]
            is_open = np.array([text.is_last for text in texts], bool)
            is_open[counts > 0] &= body[last] != self._eos
            ends = is_open.astype(np.int64)
        heads = len(before) * np.array([text.is_first for text in texts], np.int64)
        tails = len(after) * np.array([text.is_last for text in texts], np.int64)
        lengths = counts + heads + tails + ends
        flat = np.empty(int(lengths.sum()), np.uint32)
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
        for offset, token in enumerate(before):
            flat[starts[heads > 0] + offset] = token
        inner = np.repeat(starts + heads - (np.cumsum(counts) - counts), counts)
        flat[inner + np.arange(len(body))] = body
        for offset, token in enumerate(after):
            flat[(starts + heads + counts)[tails > 0] + offset] = token
        if self._eos is not None:
            flat[(starts + lengths - 1)[ends > 0]] = self._eos
        return Encoded(ids=flat, lengths=lengths, columns=self._columns(len(flat)))


def _ends_learned(text: Text) -> bool:
    """Return whether a text ends with an answer, so that its end is learned, too."""
    if text.learned is None:
        return True
    last = max((end for _, end in text.learned), default=0)
    return not text.text[last:].strip()


def _mark(mask: NDArray[np.uint8], encoding: Any, text: Text) -> None:
    """Set the mask of the tokens that hold a character with loss.

    A token across the border is learned: " 4" of "2+2? 4" is the whole answer.
    """
    if text.learned is None:
        return
    mask[:] = 0
    for start, end in text.learned:
        first, last = (
            _token_at(encoding, start, end, 1),
            _token_at(encoding, end - 1, start - 1, -1),
        )
        if first is not None and last is not None:
            mask[first : last + 1] = 1


def _token_at(encoding: Any, char: int, stop: int, step: int) -> int | None:
    """Return the token of the first character from `char` to `stop` that has one."""
    for index in range(char, stop, step):
        token: int | None = encoding.char_to_token(index)
        if token is not None:
            return token
    return None


def is_compared(requested: str, sample: Sequence[Text]) -> bool:
    """Return whether `fast_backend` has to compare two back ends."""
    is_there = importlib.util.find_spec("gigatoken") is not None
    return requested in ("auto", "gigatoken") and is_there and bool(_plain(sample))


def import_fast() -> None:
    """Import the dependency of the fast back end, which takes 0.3 s; its use reports failures."""
    with suppress(ImportError):
        importlib.import_module("awkward")


def fast_backend(
    requested: str, vocabulary: TokenizerSpec, sample: Sequence[Text]
) -> tuple[str, str | None]:
    """Return the back end to use, and why it is not a faster one.

    Raises DeviceError if the requested one is missing, ConfigError if it is unknown or gives other
    tokens than `tokenizers`.
    """
    if requested not in BACKENDS:
        raise ConfigError(f"the back end {requested!r} is unknown: {', '.join(BACKENDS)}")
    if requested == "tokenizers":
        return "tokenizers", None
    if importlib.util.find_spec("gigatoken") is None:
        if requested == "gigatoken":
            raise DeviceError("the package gigatoken is missing: pip install gigatoken")
        return "tokenizers", "gigatoken, which is faster, is not installed"
    why = _differs(vocabulary, sample)
    if why is None:
        return "gigatoken", None
    if requested == "gigatoken":
        raise ConfigError(f"gigatoken {why}: --backend tokenizers")
    return "tokenizers", f"gigatoken {why}"


def _plain(sample: Sequence[Text]) -> list[Text]:
    """Return the texts that a fast back end can encode."""
    return [text for text in sample if text.pair is None and text.learned is None]


def _differs(vocabulary: TokenizerSpec, sample: Sequence[Text]) -> str | None:
    plain = _plain(sample)
    if not plain:
        return "is used for single texts of which every token carries loss, and these are others"
    usual = Encoder(vocabulary, has_loss_mask=False, has_pairs=False, backend="tokenizers")
    try:
        quick = Encoder(vocabulary, has_loss_mask=False, has_pairs=False, backend="gigatoken")
        results = [maker.encode(plain) for maker in (usual, quick)]
    except _REFUSALS as error:
        return f"cannot read this tokenizer ({type(error).__name__}: {error})"
    if not np.array_equal(results[0].ids, results[1].ids):
        return f"gives other tokens than tokenizers on {len(plain)} of these rows"
    return None


def _gigatoken(
    source: str,
) -> Callable[[Sequence[str]], tuple[NDArray[np.uint32], NDArray[np.int64]]]:
    awkward = importlib.import_module("awkward")  # it comes with gigatoken
    gigatoken = importlib.import_module("gigatoken")

    tokenizer = gigatoken.Tokenizer.from_json(source)

    def encode(texts: Sequence[str]) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        rows = tokenizer.encode_batch(list(texts))
        counts = awkward.to_numpy(awkward.num(rows)).astype(np.int64)
        return awkward.to_numpy(awkward.flatten(rows)).astype(np.uint32), counts

    return encode
