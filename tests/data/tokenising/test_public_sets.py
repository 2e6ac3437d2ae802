"""Public data sets are read by their own keys."""

import json

import pytest
from tests.paths import ROOT

from hotloop.core.errors import DataError
from hotloop.data.tokenising.public_sets import PUBLIC_SETS, public_set
from hotloop.data.tokenising.row_shapes import detect, layout

MBPP = ROOT.parent / "shared" / "data" / "mbpp" / "mbpp.jsonl"


def row_of(one):
    row = {"id": 1, **dict.fromkeys(one.beside, "x")}
    for part, key in one.fields.items():
        head, _, rest = key.partition(".")
        row[head] = {**row.get(head, {}), rest: part} if rest else part
    return row


@pytest.mark.parametrize("one", PUBLIC_SETS, ids=lambda one: one.name)
def test_a_row_of_a_set_is_a_prompt_and_its_answer(one):
    row = row_of(one)
    assert public_set(row) is one
    assert detect(row) == one.shape
    (text,) = layout([row]).texts(row)
    parts = list(one.fields)
    assert [text.text[start:end] for start, end in text.learned] == [parts[-1]]
    assert text.text.startswith(parts[0])
    assert one.source.startswith("https://huggingface.co/datasets/")


def test_squads_first_answer_is_learned_and_one_without_is_bad():
    row = {"question": "q", "context": "c", "answers": {"text": ["a", "b"], "answer_start": [0]}}
    found = layout([row])
    (text,) = found.texts(row)
    assert text.text == "q\n\nc\n\na"
    with pytest.raises(DataError, match=r"key 'answers\.text' holds nothing"):
        list(found.texts({**row, "answers": {"text": [], "answer_start": []}}))


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        ({"messages": [], "document": "d", "summary": "s"}, "chat"),
        ({"instruction": "i", "output": "o", "document": "d", "summary": "s"}, "instruction"),
        ({"title": "t", "text": "x", "summary": "s"}, "text"),
    ],
)
def test_clearer_keys_go_before_those_of_a_set(row, shape):
    assert detect(row) == shape


def test_a_label_may_be_at_a_path():
    row = {"text_a": "a", "meta": {"label": 3}}
    fields = {"label": "meta.label"}
    (text,) = layout([row], shape="pair", fields=fields).texts(row)
    assert text.label == 3


def test_a_user_may_name_a_path():
    row = {"translation": {"xx": "a", "yy": "b"}}
    (text,) = layout(
        [row], fields={"prompt": "translation.yy", "response": "translation.xx"}
    ).texts(row)
    assert text.text == "b\na"


def test_keys_that_a_user_names_decide():
    row = {"text": "p", "code": "r", "test_list": []}
    (text,) = layout([row], fields={"text": "code"}).texts(row)
    assert text.text == "r"


@pytest.mark.skipif(not MBPP.exists(), reason="shared/data/mbpp is not here")
def test_mbpp_itself_trains_on_its_code():
    rows = [json.loads(line) for line in MBPP.read_text().splitlines()[:20]]
    found = layout(rows)
    assert dict(found.fields) == {"prompt": "text", "response": "code"}
