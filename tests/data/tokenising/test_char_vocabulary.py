import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotloop.core.errors import DataError
from hotloop.data.tokenising.char_vocabulary import MOST_CHARACTERS, CharVocabulary, code_points

CHARACTERS = st.characters(exclude_categories=["Cs"])


def test_ids_count_from_one_and_zero_is_everything_else():
    vocabulary = CharVocabulary(characters=("a", "é", "世", "🙂"))
    ids = vocabulary.encode("🙂a世?é\U0010ffff")
    assert ids.dtype == np.uint16
    assert ids.tolist() == [4, 1, 3, 0, 2, 0]
    assert len(vocabulary) == 5
    assert vocabulary.decode(ids) == "🙂a世\ufffdé\ufffd"


@given(data=st.data(), characters=st.lists(CHARACTERS, unique=True, min_size=1, max_size=50))
@settings(max_examples=100)
def test_what_is_in_the_vocabulary_comes_back(data, characters):
    vocabulary = CharVocabulary(characters=tuple(characters))
    text = data.draw(st.text(st.sampled_from(characters)))
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.encode(text).all()


@given(text=st.text(), known=st.sets(CHARACTERS, max_size=10))
@settings(max_examples=100)
def test_what_is_not_in_the_vocabulary_becomes_unknown(text, known):
    ids = CharVocabulary(characters=tuple(sorted(known))).encode(text).tolist()
    assert [id == 0 for id in ids] == [character not in known for character in text]


def test_an_empty_vocabulary_and_empty_text_work():
    vocabulary = CharVocabulary(characters=())
    assert vocabulary.encode("ab").tolist() == [0, 0]
    assert vocabulary.decode(vocabulary.encode("")) == ""
    assert len(vocabulary) == 1


def test_a_lone_surrogate_from_a_terminal_is_unknown():
    assert CharVocabulary(characters=("a",)).encode("a\udcff").tolist() == [1, 0]


def test_as_many_characters_as_uint16_has_ids_fit_and_no_more():
    every = tuple(chr(p) for p in range(0x110000) if not 0xD800 <= p <= 0xDFFF)
    full = CharVocabulary(characters=every[:MOST_CHARACTERS])
    assert full.encode(every[MOST_CHARACTERS - 1] + every[MOST_CHARACTERS]).tolist() == [65535, 0]
    with pytest.raises(DataError, match=r"has 65536 different characters.*data\.max_chars"):
        CharVocabulary(characters=every[: MOST_CHARACTERS + 1])


@pytest.mark.parametrize("ids", [[0, 3], [-1, 0]])
def test_ids_of_another_vocabulary_are_refused(ids):
    with pytest.raises(DataError, match=r"those of the vocabulary are 0\.\.2"):
        CharVocabulary(characters=("a", "b")).decode(np.array(ids))


def test_json_gives_the_same_vocabulary_back():
    vocabulary = CharVocabulary(characters=("\n", '"', "é", "🙂"))
    assert CharVocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"characters": ["a", "b", "a"]}, "entry 2 .* 'a', which stands twice"),
        ({"characters": ["a", "bc"]}, "entry 1 .* 'bc', not one character"),
        ({"characters": [""]}, "entry 0 .* '', not one character"),
        ({"characters": [7]}, "entry 0 .* 7, not one character"),
        ({"characters": [["a"]]}, "not one character"),
        ({"characters": ["\ud800"]}, "half a character"),
        ({"characters": "abc"}, "must be a list, not a str"),
        ({"schema": 2}, "got schema 2"),
        ({"kind": "bpe"}, "got schema 1, kind bpe"),
        ({"unknown": "?"}, r"with \?"),
        ({"extra": 1}, "has the keys"),
    ],
)
def test_json_of_anything_else_is_refused(change, message):
    good = CharVocabulary(characters=("a", "b")).to_json()
    with pytest.raises(DataError, match=message):
        CharVocabulary.from_json({**good, **change})


def test_a_missing_key_is_refused():
    with pytest.raises(DataError, match=r"has the keys .*, not schema"):
        CharVocabulary.from_json({"schema": 1})


def test_code_points_are_those_of_the_characters():
    assert code_points("a🙂").tolist() == [ord("a"), ord("🙂")]
