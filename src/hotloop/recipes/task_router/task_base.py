"""What a task is: how a record becomes examples, how it is put to a language model, its figures.

A task is one file with a `TASK` in it, and so is one of your own: `data.declared=mine.py` with
`data.files={mine: rows.jsonl}`. Nothing here needs torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hotloop.core.errors import DataError

__all__ = ["Example", "Task", "text_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row of a task."""

    text: str  # what is asked about
    question: str | None = None  # what is asked, where rows differ in it
    answers: tuple[str, ...]  # right ones; of a label its name; the first is learned
    start: int | None = None  # where the first begins in `text`, in characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. `kind` says what an encoder learns: a label, a span of the text, or nothing (text).

    A decoder learns to write the answer after the prompt, whatever the kind.
    """

    name: str
    kind: Literal["label", "span", "text"]
    read: Callable[[Mapping[str, Any]], Iterator[Example]]  # a record -> its examples
    prompt: str  # with {text} and, where there is one, {question}
    # Texts that were written, and the right ones of each -> figures.
    figures: Callable[[Sequence[str], Sequence[tuple[str, ...]]], Mapping[str, float]]
    score: str  # the figure that counts
    best: float = 1.0  # what that figure can be at most
    files: tuple[str, ...] = ()  # where it is found below data.path

    def asked(self, example: Example) -> str:
        """Return the prompt of an example."""
        return self.prompt.format(text=example.text, question=example.question or "")


def text_of(record: Mapping[str, Any], key: str) -> str:
    """Return the text of a key. Raises DataError that names the key, without a place."""
    value = record.get(key)
    if not isinstance(value, str):
        have = ", ".join(map(str, record)) or "none"
        what = "is missing" if value is None else f"is a {type(value).__name__}, not a text"
        raise DataError(f"key {key!r} {what}; the keys are {have}")
    if not value.strip():
        raise DataError(f"key {key!r} is empty")
    return value
