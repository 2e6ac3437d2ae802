"""Public data sets are read by their own keys."""

import json

import pytest
from tests.paths import ROOT

from hotloop.core.errors import DataError
from hotloop.data.tokenising.chat_templates import CHATML, Template
from hotloop.data.tokenising.find_layout import detect, layout
from hotloop.data.tokenising.public_sets import PUBLIC_SETS, public_set, value_at

MBPP = ROOT.parent / "shared" / "data" / "mbpp" / "mbpp.jsonl"


def row_of(one):
    """Return a row of a set that holds the name of each part under its key."""
    row = {"id": 1, **dict.fromkeys(one.beside, "x")}
    for part, key in one.fields.items():
        head, _, rest = key.partition(".")
        value = [{"role": "user", "content": part}, {"role": "assistant", "content": "reply"}]
        value = value if part == "messages" else part
        row[head] = json.dumps([value]) if rest == "0" else {rest: [value]} if rest else value
    for key in reversed(one.within):
        row = {key: [row]}
    return row


@pytest.mark.parametrize("one", PUBLIC_SETS, ids=lambda one: one.name)
def test_a_row_of_a_set_gives_its_parts(one):
    row = row_of(one)
    assert public_set(row) is one
    assert one.source.startswith("https://")
    if one.refused is not None:
        with pytest.raises(DataError, match=f"the rows are those of {one.name}: "):
            layout([row])
        return
    if one.shape != "pair" or "text_b" in one.fields:
        assert detect(row) == one.shape
    found = layout([row], shape=one.shape)
    (text,) = found.texts(row, Template(source=CHATML) if one.shape == "chat" else None)
    assert found.public == one.name
    if one.shape == "pair":
        assert (text.text, text.pair, text.label) == (
            "text_a",
            "text_b" if "text_b" in one.fields else None,
            "label",
        )
    elif one.shape == "chat":
        assert [text.text[start:end] for start, end in text.learned] == ["reply<|im_end|>"]
        assert "messages" in text.text
    else:
        parts = list(one.fields)
        assert [text.text[start:end] for start, end in text.learned] == [parts[-1]]
        assert text.text.startswith(parts[0])


def test_squads_first_answer_is_learned_and_a_question_without_one_is_unanswerable():
    row = {"question": "q", "context": "c", "answers": {"text": ["a", "b"], "answer_start": [0]}}
    found = layout([{**row, "answers": {"text": [], "answer_start": []}}, row])
    (text,) = found.texts(row)
    assert text.text == "q\n\nc\n\na"
    (text,) = found.texts({**row, "answers": {"text": [], "answer_start": []}})
    assert text.text == "q\n\nc\n\nunanswerable"
    with pytest.raises(DataError, match=r"key 'answers\.text' is missing"):
        list(found.texts({"question": "q", "context": "c"}))


def test_an_article_of_squad_gives_a_text_for_each_question():
    hard = {"question": "Why?", "answers": [], "is_impossible": True, "plausible_answers": []}
    easy = {"question": "Who?", "answers": [{"text": "me", "answer_start": 0}, {"text": "I"}]}
    article = {"title": "t", "paragraphs": [{"context": "me", "qas": [hard, easy]}] * 2}
    found = layout([article])
    texts = [text.text for text in found.texts(article)]
    assert texts == ["Why?\n\nme\n\nunanswerable", "Who?\n\nme\n\nme"] * 2
    with pytest.raises(DataError, match="key 'qas' must hold a list of objects"):
        list(found.texts({"paragraphs": [{"context": "c"}]}))


def test_a_label_that_stands_for_none_is_a_bad_row():
    row = {"sentence1": "a", "sentence2": "b", "gold_label": "neutral"}
    found = layout([{**row, "gold_label": "-"}, row], shape="pair")
    with pytest.raises(DataError, match="key 'gold_label' is '-', which means no label"):
        list(found.texts({**row, "gold_label": "-"}))


def test_keys_of_a_set_that_are_typed_mean_the_same():
    row = {"sentence1": "a", "sentence2": "b", "gold_label": "-", "label1": "x"}
    typed = {"text_a": "sentence1", "text_b": "sentence2", "label": "gold_label"}
    assert layout([row], shape="pair", fields=typed).unlabelled == ("-",)
    other = layout([row], shape="pair", fields={**typed, "label": "label1"})
    assert other.public is None
    assert other.unlabelled == ()


def test_the_best_ranked_thread_of_a_tree_is_learned():
    tree = {
        "text": "hi",
        "role": "prompter",
        "replies": [
            {"text": "worse", "role": "assistant", "rank": 1, "replies": []},
            {
                "text": "better",
                "role": "assistant",
                "rank": 0,
                "replies": [{"text": "unanswered", "role": "prompter", "rank": None}],
            },
        ],
    }
    row = {"message_tree_id": "1", "tree_state": "ready_for_export", "prompt": tree}
    (text,) = layout([row]).texts(row, Template(source=CHATML))
    assert "hi<|im_end|>" in text.text
    assert [text.text[start:end] for start, end in text.learned] == ["better<|im_end|>"]
    assert "unanswered" not in text.text


@pytest.mark.parametrize(
    ("row", "key", "value"),
    [
        ({"a": '["x", "y"]'}, "a.1", "y"),
        ({"a": '["x"]'}, "a.1", None),
        ({"a": ""}, "a.0", None),
        ({"a": "[oops"}, "a.0", None),
        ({"a": [{"b": "x"}, {"b": "y"}]}, "a.b", "x"),
        ({"a": [{"b": "x"}, {"b": "y"}]}, "a.1.b", "y"),
        ({"a.b": 1, "a": {"b": 2}}, "a.b", 1),
        ({"a": 3}, "a.b", None),
    ],
)
def test_a_path_leads_through_objects_and_lists(row, key, value):
    assert value_at(row, key) == value


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
