"""Questions whose answers are spans of a paragraph. Rows: SQuAD's JSON, 1.1 or 2.0.

Questions without an answer (the impossible ones of SQuAD 2.0) are left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from hotloop.core.errors import DataError
from hotloop.recipes.task_router.task_base import Example, Task, text_of
from hotloop.recipes.task_router.task_metrics import exact_match_f1

__all__ = ["TASK"]


def _read(record: Mapping[str, Any]) -> Iterator[Example]:
    """Yield the examples of a SQuAD article, or of a flat row as in the Hub's squad."""
    if "paragraphs" not in record:
        yield from _question_rows(text_of(record, "context"), record, record.get("answers"))
        return
    for paragraph in record["paragraphs"]:
        context = text_of(paragraph, "context")
        for question in paragraph.get("qas", ()):
            yield from _question_rows(context, question, question.get("answers"))


def _question_rows(context: str, row: Mapping[str, Any], answers: Any) -> Iterator[Example]:
    if isinstance(answers, Mapping):  # the Hub's format: two parallel lists
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
    right = tuple(dict.fromkeys(text_of(answer, "text") for answer in answers))
    yield Example(text=context, question=text_of(row, "question"), answers=right, start=start)


TASK = Task(
    name="questions",
    kind="span",
    read=_read,
    prompt="{text}\nQuestion: {question}\n",
    figures=exact_match_f1,
    score="f1",
    hub="rajpurkar/squad",
    files=("xquad/xquad.en.json", "squad.json", "squad.jsonl", "squad", "squad_v2"),
    sets=("SQuAD", "SQuAD, articles"),
)
