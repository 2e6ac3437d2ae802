"""Decode documents to text, divided into spans with and without loss."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from hotloop.data.statistics.document_digests import Tokens

__all__ = ["Decode", "Span", "decoder", "spans"]

if TYPE_CHECKING:
    Decode = Callable[[list[int]], str]

HEAD, TAIL = 96, 32  # tokens of a long span that are shown: its first and its last
MOST: Final = 12  # spans of a document, at most
_BEFORE: Final = 4  # tokens before a span that show whether it begins with a space


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive tokens that all carry loss, or all do not."""

    text: str
    is_learned: bool
    left_out: int = 0  # tokens of it between `text` and `end`
    end: str = ""  # the text of its last tokens


def decoder(source: str | None) -> Decode:
    """Return a function from ids to text by a tokenizer.json's text; without one, to numbers."""
    if source is None:
        return lambda ids: "".join(f"{token_id} " for token_id in ids)
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_str(source)
    return lambda ids: str(tokenizer.decode(ids, skip_special_tokens=False))


def spans(tokens: Tokens, decode: Decode) -> tuple[Span, ...]:
    """Return the text of a document, span by span; the middle of long spans is left out."""
    shown: list[Span] = []
    for begin, end, learned in _runs(tokens):
        if len(shown) == MOST:
            rest = len(tokens.ids) - begin + tokens.more
            shown.append(Span(text="", is_learned=False, left_out=rest))
            break
        more = tokens.more if end == len(tokens.ids) else 0
        stop = end if end - begin <= HEAD + TAIL and not more else min(end, begin + HEAD)
        last = end if stop == end or more else end - TAIL
        shown.append(
            Span(
                text=_text(tokens.ids, begin, stop, decode),
                is_learned=learned,
                left_out=last - stop + more,
                end=_text(tokens.ids, last, end, decode),
            )
        )
    return tuple(shown)


def _runs(tokens: Tokens) -> Iterator[tuple[int, int, bool]]:
    if tokens.mask is None:
        yield 0, len(tokens.ids), True
        return
    cuts = np.flatnonzero(np.diff(tokens.mask)) + 1
    edges = [0, *cuts.tolist(), len(tokens.mask)]
    for begin, end in pairwise(edges):
        yield begin, end, bool(tokens.mask[begin])


def _text(ids: NDArray[Any], begin: int, end: int, decode: Decode) -> str:
    """Decode a run after the tokens before it; alone, it may lose its leading space."""
    first = max(0, begin - _BEFORE)
    before, whole = decode(ids[first:begin].tolist()), decode(ids[first:end].tolist())
    if whole.startswith(before):
        return whole[len(before) :]
    return decode(ids[begin:end].tolist())  # a character that lies across the border
