"""Decodes a row of token ids with a tokenizer or a vocabulary that the script holds."""

from __future__ import annotations

import sys
from traceback import walk_stack
from typing import TYPE_CHECKING, Any

from hotloop.observe.hooks.stack_frames import is_own, names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["decode"]

_SHOWN = 96  # tokens
_LIBRARIES = ("transformers.", "tokenizers", "tiktoken.")  # their decode() has no side effects
_NAMES = ("itos", "idx2char", "id2char", "idx2word", "id2word", "id_to_token", "idx_to_char")
_BACK = ("stoi", "char2idx", "char2id", "word2idx", "vocab", "token_to_id", "char_to_idx")


def decode(ids: Sequence[int]) -> str:
    """Return a row as text, by a tokenizer or a vocabulary of the script, else as numbers.

    The variables of the project's own frames and of `__main__` are searched. No function of the
    project is called.
    """
    numbers = [int(number) for number in ids[:_SHOWN]]
    more = " …" if len(ids) > _SHOWN else ""
    for variables in _scopes():
        for name, value in list(variables.items()):
            text = _by(name, value, numbers)
            if text is not None:
                return text + more
    return " ".join(map(str, numbers)) + more


def _scopes() -> Iterator[dict[str, Any]]:
    for frame, _ in walk_stack(sys._getframe(1)):
        if is_own(frame.f_code.co_filename):
            yield names(frame)
    main = sys.modules.get("__main__")
    if main is not None:
        yield vars(main)


def _by(name: str, value: Any, ids: Sequence[int]) -> str | None:
    """Return the text of a row by one variable if it is a tokenizer or a vocabulary, or None."""
    module = type(value).__module__
    if module.startswith(_LIBRARIES) and callable(getattr(value, "decode", None)):
        size = getattr(value, "vocab_size", None) or getattr(value, "n_vocab", None)
        if all(number >= 0 and (not isinstance(size, int) or number < 2 * size) for number in ids):
            try:
                return str(value.decode(list(ids)))
            except (KeyError, OverflowError, TypeError, ValueError):
                return None
    words = _words(name, value)
    if words is None or not all(number in words for number in ids):
        return None
    texts = [str(words[number]) for number in ids]
    letters = sum(len(text) == 1 for text in texts) * 2 > len(texts)
    return ("" if letters else " ").join(texts)


def _words(name: str, value: Any) -> dict[int, Any] | None:
    """Return a vocabulary as number -> word, or None."""
    if name in _NAMES and isinstance(value, list | tuple):
        return dict(enumerate(value))
    if name in _NAMES and isinstance(value, dict):
        return value
    if name in _BACK and isinstance(value, dict):
        return {number: word for word, number in value.items() if isinstance(number, int)}
    return None
