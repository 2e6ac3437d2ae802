"""Python functions from a sentence. Rows: text and code, as MBPP has them."""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import same_code

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    code = text_of(record, "code").replace("\r\n", "\n")
    yield Example(text=text_of(record, "text"), answers=(code,))


TASK = Task(
    name="code",
    kind="text",
    read=_read,
    prompt="{text}\nIn Python:\n",
    figures=same_code,
    score="exact",
    files=("mbpp/mbpp.jsonl", "code.jsonl"),
)
