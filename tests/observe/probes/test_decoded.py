"""Shows a row of token ids as text."""

from hotloop.observe.probes.decoded import decode


def test_letters_are_joined_and_words_are_spaced():
    itos = ["a", "b", "c"]
    assert decode([2, 0, 1]) == "cab"
    del itos
    stoi = {"the": 0, "cat": 1}
    assert decode([0, 1, 0]) == "the cat the"
    del stoi


def test_ids_that_the_vocabulary_lacks_are_shown_as_numbers():
    itos = ["a", "b"]
    assert decode([0, 7]) == "0 7"
    del itos


def test_long_rows_are_cut():
    shown = decode(list(range(500)))
    assert shown.endswith("95 …")


def test_a_projects_own_decode_is_not_called():
    class Tokenizer:
        def decode(self, ids):
            raise AssertionError

    tokenizer = Tokenizer()
    assert decode([1, 2]) == "1 2"
    del tokenizer
