"""Questions about a paragraph whose answer stands in it. Rows: SQuAD's JSON, 1.1 or 2.0.

Questions without an answer (SQuAD 2.0's impossible ones) are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.core.errors import DataError
from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import exact_match_f1

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    """Take an article of SQuAD, or a flat row as the Hub's squad has them."""
    if "paragraphs" not in record:
        yield from _asked(text_of(record, "context"), record, record.get("answers"))
        return
    for paragraph in record["paragraphs"]:
        context = text_of(paragraph, "context")
        for question in paragraph.get("qas", ()):
            yield from _asked(context, question, question.get("answers"))


def _asked(context: str, row: Mapping[str, Any], answers: Any) -> Iterator[Example]:
    if isinstance(answers, Mapping):  # the Hub's: two lists
        pairs = zip(answers["text"], answers["answer_start"], strict=True)
        answers = [{"text": text, "answer_start": start} for text, start in pairs]
    if not answers:
        return
    first = answers[0]
    start, text = first.get("answer_start"), text_of(first, "text")
    if not isinstance(start, int) or context[start : start + len(text)] != text:
        raise DataError(
            f"question {text_of(row, 'question')!r}: its answer {text!r} does not stand at "
            f"character {start!r} of its paragraph"
        )
    right = tuple(dict.fromkeys(text_of(each, "text") for each in answers))
    yield Example(text=context, question=text_of(row, "question"), answers=right, start=start)


TASK = Task(
    name="questions",
    kind="span",
    read=_read,
    prompt="{text}\nQuestion: {question}\n",
    figures=exact_match_f1,
    score="f1",
    files=("xquad/xquad.en.json", "squad.json", "squad.jsonl"),
)
