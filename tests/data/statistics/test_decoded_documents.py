"""Text of tokens, span by span."""

import numpy as np
import pytest
from tests.golden.tiny_tokenizer import tokenizer

from hotloop.data.statistics.decoded_documents import HEAD, MOST, TAIL, Span, decoder, spans
from hotloop.data.statistics.document_digests import Tokens


def numbers(ids):
    return "".join(f"{each} " for each in ids)


def tokens(count, learned=()):
    mask = np.zeros(count, np.uint8)
    mask[list(learned)] = 1
    return Tokens(ids=np.arange(count), mask=mask)


@pytest.fixture(scope="module")
def made():
    return tokenizer()


def test_spans_join_to_the_text_and_tell_what_carries_loss(made):
    ids = made.encode("the quick brown fox jumps</s>").ids
    mask = np.array([0] * 3 + [1] * (len(ids) - 3), np.uint8)
    found = spans(Tokens(ids=np.array(ids), mask=mask), decoder(made.to_str()))
    assert [span.is_learned for span in found] == [False, True]
    assert "".join(span.text for span in found) == "the quick brown fox jumps</s>"
    assert found[0].text == made.decode(ids[:3])


def test_without_a_mask_everything_carries_loss(made):
    ids = np.array(made.encode("a lazy dog").ids)
    assert spans(Tokens(ids=ids), decoder(made.to_str())) == (
        Span(text="a lazy dog", is_learned=True),
    )


def test_a_character_across_a_border_spoils_no_other_text(made):
    ids = made.encode("a é b").ids
    at = next(n for n in range(len(ids)) if "\ufffd" in made.decode(ids[:n]))
    mask = np.array([0] * at + [1] * (len(ids) - at), np.uint8)
    first, second = spans(Tokens(ids=np.array(ids), mask=mask), decoder(made.to_str()))
    assert first.text.startswith("a ")
    assert second.text.endswith(" b")


def test_without_a_tokenizer_there_are_the_ids():
    assert spans(tokens(3), decoder(None)) == (Span(text="0 1 2 ", is_learned=False),)


@pytest.mark.parametrize(("count", "left_out"), [(HEAD + TAIL, 0), (HEAD + TAIL + 1, 1)])
def test_the_middle_of_a_long_span_is_left_out(count, left_out):
    (found,) = spans(tokens(count), numbers)
    assert found.left_out == left_out
    shown = [int(each) for each in f"{found.text} {found.end}".split()]
    assert len(shown) + left_out == count
    assert (shown[0], shown[-1]) == (0, count - 1)


@pytest.mark.parametrize("count", [1, HEAD, HEAD + 7, 5 * HEAD])
def test_of_a_document_that_goes_on_its_beginning_is_shown(count):
    (found,) = spans(Tokens(ids=np.arange(count), more=1000), numbers)
    assert found.text == numbers(range(min(count, HEAD)))
    assert found.left_out == 1000 + max(0, count - HEAD)
    assert found.end == ""


def test_many_spans_end_with_what_is_left_out():
    found = spans(tokens(4 * MOST, learned=range(0, 4 * MOST, 2)), numbers)
    assert len(found) == MOST + 1
    assert [span.is_learned for span in found[:4]] == [True, False, True, False]
    assert found[-1].left_out == 3 * MOST
