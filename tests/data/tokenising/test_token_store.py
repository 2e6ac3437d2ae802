"""A folder of tokens: what it is made of is told apart in words."""

import json

import pytest

from hotloop.core.errors import DataError
from hotloop.data.tokenising.token_store import differences, open_store

FILE = {"name": "a.jsonl", "split": "train", "xxh3_128": "1", "bytes": 1}
MADE = {"length": 64, "template": None, "data": [FILE]}


def test_what_is_equal_has_no_differences():
    assert differences(MADE, MADE) == []
    moved = {**MADE, "data": [{**FILE, "bytes": 2, "path": "/elsewhere", "changed": 5}]}
    assert differences(MADE, moved) == []  # the checksum decides


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"length": 32}, "length: 64, not 32"),
        ({"length": None}, "length: 64, not none"),
        ({"fields": {"text": "body"}}, "fields: none, not text=body"),
        ({"data": [{**FILE, "xxh3_128": "2"}]}, "data: a.jsonl was changed since"),
        ({"data": [{**FILE, "split": "test"}]}, "data: a.jsonl was split train"),
        ({"data": [FILE, {**FILE, "name": "b"}]}, "data: b is not part of it"),
        ({"data": []}, "data: it has a.jsonl, which is gone"),
    ],
)
def test_what_differs_is_named(now, said):
    assert differences(MADE, {**MADE, **now}) == [said]


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (None, "holds no tokens"),
        ({"kind": "text"}, "is of kind text"),
        ({"kind": "tokens", "schema": 99}, "schema 99; this version reads tokens of schema 1"),
        ({"kind": "tokens", "schema": 1}, "is damaged"),
    ],
)
def test_a_folder_that_is_none_is_refused(tmp_path, about, said):
    if about is not None:
        (tmp_path / "about.json").write_text(json.dumps(about))
    with pytest.raises(DataError, match=said):
        open_store(tmp_path)
