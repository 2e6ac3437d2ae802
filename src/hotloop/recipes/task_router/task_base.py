"""Defines a task: how a record becomes examples, the prompt of a decoder, and the metrics.

A task is one file that defines `TASK`. To add a task of your own, set `data.declared=mine.py` and
`data.files={mine: rows.jsonl}`. This module needs no torch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hotloop.core.errors import DataError
from hotloop.data.tokenising.public_sets import public_set, value_at

__all__ = ["Example", "Task", "as_in_set", "text_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One row of a task."""

    text: str  # the text that the task is about
    question: str | None = None  # for tasks whose question differs from row to row
    answers: tuple[str, ...]  # right answers, or the label's name; the first is the target
    start: int | None = None  # where the first answer begins in `text`, in characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task; `kind` is what an encoder learns: a label, a span of the text, or nothing (text).

    A decoder learns to write the answer after the prompt, whatever the kind.
    """

    name: str
    kind: Literal["label", "span", "text"]
    read: Callable[[Mapping[str, Any]], Iterator[Example]]  # a record -> its examples
    prompt: str  # with {text} and, where there is one, {question}
    # (generated texts, right answers of each) -> figures by name
    figures: Callable[[Sequence[str], Sequence[tuple[str, ...]]], Mapping[str, float]]
    score: str  # the figure that counts
    best: float = 1.0  # the maximum of that figure
    files: tuple[str, ...] = ()  # usual names of files and folders below data.path
    hub: str | None = None  # a data set of the hub with such rows: name::split::configuration
    sets: tuple[str, ...] = ()  # public sets whose rows it reads, by name

    def asked(self, example: Example) -> str:
        """Return the prompt of an example."""
        return self.prompt.format(text=example.text, question=example.question or "")


def as_in_set(record: Mapping[str, Any], task: Task) -> tuple[str, str] | None:
    """Return the prompt and the response of a row of one of the task's public sets, else None."""
    of_set = public_set(record, "prompt")
    if of_set is None or of_set.name not in task.sets:
        return None
    prompt, response = (value_at(record, of_set.fields[part]) for part in ("prompt", "response"))
    return text_of({"prompt": prompt}, "prompt"), text_of({"response": response}, "response")


def text_of(record: Mapping[str, Any], key: str) -> str:
    """Return the text under a key. Raises DataError that names the key but not the row."""
    value = record.get(key)
    if not isinstance(value, str):
        keys = ", ".join(map(str, record)) or "none"
        problem = "is missing" if value is None else f"is a {type(value).__name__}, not a text"
        raise DataError(f"key {key!r} {problem}; the keys are {keys}")
    if not value.strip():
        raise DataError(f"key {key!r} is empty")
    return value
