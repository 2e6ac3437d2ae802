"""Python functions from a sentence. Rows: text and code, or those of MBPP, HumanEval and APPS."""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.recipes.task_router.task_base import Example, Task, as_in_set, text_of
from hotloop.recipes.task_router.task_metrics import same_code

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    of_set = None if "code" in record and "text" in record else as_in_set(record, TASK)
    text, code = of_set or (text_of(record, "text"), text_of(record, "code"))
    yield Example(text=text, answers=(code.replace("\r\n", "\n"),))


TASK = Task(
    name="code",
    kind="text",
    read=_read,
    prompt="{text}\nIn Python:\n",
    figures=same_code,
    score="exact",
    hub="google-research-datasets/mbpp",
    files=("mbpp/mbpp.jsonl", "code.jsonl", "mbpp", "humaneval"),
    sets=("MBPP", "MBPP, sanitized", "HumanEval", "APPS"),
)
