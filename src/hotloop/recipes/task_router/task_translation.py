"""Translations. Rows: en and fr, or source and target."""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import bleu_chrf

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    source, target = ("en", "fr") if "en" in record else ("source", "target")
    yield Example(text=text_of(record, source), answers=(text_of(record, target),))


TASK = Task(
    name="translation",
    kind="text",
    read=_read,
    prompt="{text}\nIn French:\n",
    figures=bleu_chrf,
    score="chrf",
    best=100.0,
    files=("tico19/en-fr.jsonl", "translation.jsonl"),
)
