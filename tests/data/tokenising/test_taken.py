"""What is taken of rows is said, and answers beside plain text are not passed over."""

import pytest
from tests.golden.tiny_tokenizer import save

from hotloop.core.errors import DataError
from hotloop.data.tokenising.find_layout import layout
from hotloop.data.tokenising.taken import refuse_unread_answers, samples, taken
from hotloop.data.tokenising.tokenizer_files import find_tokenizer
from hotloop.recipes.sft.config import SAID


def said(rows):
    found = layout(rows)
    texts = [text for row in rows for text in found.texts(row)]
    return taken(rows, found, dict.fromkeys(text.label for text in texts if text.label))


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer") / "model"
    save(folder)
    return find_tokenizer(str(folder))


def shown(rows, vocabulary, longest=None, **options):
    found = layout(rows, **options)
    texts = [text for row in rows for text in found.texts(row)]
    return samples(texts, found, vocabulary, longest=longest)


def test_keys_labels_and_ignored_columns_are_named():
    rows = [{"id": n, "text": f"t{n}", "label": name} for n, name in enumerate(("no", "yes", "no"))]
    assert said(rows) == (
        "taken of a row: text=text, label=label; first labels: no, yes; ignored: id"
    )
    row = {"document": "x", "summary": "y"}
    assert said([row]) == "taken of a row: prompt=document, response=summary (as in XSum)"
    many = [{"text": "a", **{f"k{n}": 1 for n in range(20)}}]
    assert said(many).endswith("k6, k7 and 12 more")
    question = {"question": "q", "context": "c", "answers": {"text": ["a"]}}
    assert said([question]).endswith("; without an answer, 'unanswerable' is learned")


def test_samples_are_the_tokens_with_marks_around_what_carries_loss(vocabulary):
    lines = shown([{"question": "a\nb?", "answer": "c\x1b[31m"}], vocabulary)
    assert lines == [
        "sample 1 (12 tokens; «» carries loss): a⏎b?⏎«c\N{REPLACEMENT CHARACTER}[31m</s>»"
    ]
    (line,) = shown([{"question": "x" * 1000, "answer": "y"}], vocabulary)
    assert line.endswith("x⏎«y</s>»")
    assert len(line) < 200
    lines = shown([{"text": "fox", "label": n} for n in (0, 1, 2)], vocabulary, shape="pair")
    assert [line[-8:] for line in lines] == ["fox -> 0", "fox -> 1"]


def test_a_sample_shows_that_its_answer_is_cut_off(vocabulary):
    rows = [{"question": "the quick brown fox", "answer": "jumps over"}]
    (line,) = shown(rows, vocabulary, longest=5)
    assert "sample 1 (5 of " in line
    assert "jumps over" not in line


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
