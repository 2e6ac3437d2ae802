"""Sentiment: whether a text is positive. Rows: text and label (0 or 1, or a name).

A text may be under sentence, as in SST-2, and a label may be the folder of a file, as in IMDB.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.core.errors import DataError
from hotloop.data.readers.prose import FOLDER
from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import accuracy

__all__ = ["TASK"]

_NAMES = {0: "negative", 1: "positive", "0": "negative", "1": "positive"}


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    key = "sentence" if "sentence" in record and "text" not in record else "text"  # SST-2's name
    label = record.get("label", record.get(FOLDER))
    name = _NAMES.get(label, label) if isinstance(label, str | int) else None
    if not isinstance(name, str) or not name:
        raise DataError(f"key 'label' is {label!r}: 0, 1 or a name")
    yield Example(text=text_of(record, key), answers=(name,))


TASK = Task(
    name="sentiment",
    kind="label",
    read=_read,
    prompt="Is this positive or negative?\n{text}\n",
    figures=accuracy,
    score="accuracy",
    hub="stanfordnlp/sst2",
    files=(
        *("sentence_polarity/all.jsonl", "sentiment.jsonl", "sst2.jsonl"),
        *("SST-2", "sst2", "aclImdb", "imdb"),
    ),
)
