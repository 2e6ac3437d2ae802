"""What is taken of rows is said, and answers beside plain text are not passed over."""

import pytest

from hotloop.core.errors import DataError
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.taken import refuse_unread_answers, taken
from hotloop.recipes.sft.config import SAID


def said(rows):
    found = layout(rows)
    return taken(rows, found, [text for row in rows for text in found.texts(row)])


def test_keys_labels_and_ignored_columns_are_named():
    rows = [{"id": n, "text": f"t{n}", "label": name} for n, name in enumerate(("no", "yes", "no"))]
    assert said(rows) == [
        "taken of a row: text=text, label=label; first labels: no, yes; ignored: id",
        "sample 1: t0 -> no",
        "sample 2: t1 -> yes",
    ]


def test_samples_mark_what_carries_loss_in_one_printable_line():
    lines = said([{"question": "a\nb?", "answer": "c\x1b[31m"}])
    assert lines == [
        "taken of a row: prompt=question, response=answer",
        "sample 1 («» carries loss): a⏎b?⏎«c\N{REPLACEMENT CHARACTER}[31m»",
    ]
    (_, shown) = said([{"question": "x" * 1000, "answer": "y"}])
    assert shown.endswith("x⏎«y»")
    assert len(shown) < 200
    (first, _) = said([{"document": "x", "summary": "y"}])
    assert first == "taken of a row: prompt=document, response=summary (as in XSum)"
    (_, long) = said([{"text": "x" * 1000}])
    assert len(long) < 200
    many = [{"text": "a", **{f"k{n}": 1 for n in range(20)}}]
    assert said(many)[0].endswith("k6, k7 and 12 more")


def test_all_columns_that_look_like_answers_are_named_at_once():
    rows = [{"text": "a", "target": "b", "solution": ["c"]}]
    with pytest.raises(DataError, match=r"'target', 'solution' beside.*--ignore=target,sol"):
        refuse_unread_answers(rows, layout(rows), ())


@pytest.mark.parametrize("key", ["code", "summary", "highlights"])
def test_an_answer_beside_plain_text_is_asked_about(key):
    rows = [{"text": "a", key: "b", "id": 3}]
    with pytest.raises(DataError) as told:
        refuse_unread_answers(rows, layout(rows), ())
    ways = f"--fields prompt=text,response={key} learns it as the answer, --ignore={key} leaves it"
    assert ways in str(told.value)
    with pytest.raises(DataError) as told:
        refuse_unread_answers(rows, layout(rows), (), SAID)
    assert f"data.prompt=text data.response={key} learns it" in str(told.value)
    assert f"data.ignore={key} leaves it out" in str(told.value)
    refuse_unread_answers(rows, layout(rows), (key,))


@pytest.mark.parametrize(
    "row",
    [
        {"text": "a", "code": 7},  # no text
        {"text": "a", "code": ""},
        {"text": "a", "summary": []},
        {"text": "a", "title": "b"},
    ],
)
def test_other_columns_are_no_answers(row):
    refuse_unread_answers([row], layout([row]), ())
