"""Public data sets are read by their own keys."""

import json

import pytest
from tests.paths import ROOT

from hotloop.data.tokenising.public_sets import PUBLIC_SETS, public_set
from hotloop.data.tokenising.row_shapes import detect, layout

MBPP = ROOT.parent / "shared" / "data" / "mbpp" / "mbpp.jsonl"


@pytest.mark.parametrize("one", PUBLIC_SETS, ids=lambda one: one.name)
def test_a_row_of_a_set_is_a_prompt_and_its_answer(one):
    row = {**dict.fromkeys(one.keys, "x"), one.prompt: "p", one.response: "r", "id": 1}
    assert public_set(row) is one
    assert detect(row) == "prompt"
    (text,) = layout([row]).texts(row)
    assert text.text == "p\nr"
    assert [text.text[start:end] for start, end in text.learned] == ["r"]
    assert one.source.startswith("https://huggingface.co/datasets/")


def test_keys_that_a_user_names_decide():
    row = {"text": "p", "code": "r", "test_list": []}
    (text,) = layout([row], fields={"text": "code"}).texts(row)
    assert text.text == "r"


@pytest.mark.skipif(not MBPP.exists(), reason="shared/data/mbpp is not here")
def test_mbpp_itself_trains_on_its_code():
    rows = [json.loads(line) for line in MBPP.read_text().splitlines()[:20]]
    found = layout(rows)
    assert dict(found.fields) == {"prompt": "text", "response": "code"}
