"""Summaries of texts. Rows: source and target (texts, or lists of sentences and of summaries).

Rows of XSum, CNN/DailyMail and SAMSum are read by their own keys.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.core.errors import DataError
from hotloop.recipes.task_router.task_base import Example, Task, as_in_set, text_of
from hotloop.recipes.task_router.task_metrics import rouge

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    if "source" not in record and (of_set := as_in_set(record, TASK)) is not None:
        yield Example(text=of_set[0], answers=(of_set[1].strip(),))
        return
    source, targets = record.get("source"), record.get("target")
    text = " ".join(source) if isinstance(source, list) else text_of(record, "source")
    answers = targets if isinstance(targets, list) else [text_of(record, "target")]
    right = tuple(
        answer.strip() for answer in answers if isinstance(answer, str) and answer.strip()
    )
    if not text.strip() or not right:
        raise DataError("source or target is empty")
    yield Example(text=text, answers=right)


TASK = Task(
    name="summaries",
    kind="text",
    read=_read,
    prompt="{text}\nIn one sentence:\n",
    figures=rouge,
    score="rougeL",
    hub="EdinburghNLP/xsum",
    files=("scitldr/train.jsonl", "summaries.jsonl", "xsum", "cnn_dailymail", "samsum"),
    sets=("XSum", "CNN/DailyMail", "SAMSum"),
)
