"""Texts become tokens, and the tokens of what is to be learned carry loss."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from tests.golden.tiny_tokenizer import save
from tokenizers.processors import TemplateProcessing

from hotloop.core.errors import ConfigError, DeviceError
from hotloop.data.tokenising import encode
from hotloop.data.tokenising.encode import Encoder, fast_backend
from hotloop.data.tokenising.row_shapes import Text
from hotloop.data.tokenising.tokenizer_files import find_tokenizer


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    save(folder)
    return find_tokenizer(str(folder))


@pytest.fixture(scope="module")
def made(vocabulary):
    from tokenizers import Tokenizer

    return Tokenizer.from_str(vocabulary.source)


def encoder(vocabulary, *, mask=False, pairs=False, backend="tokenizers"):
    return Encoder(vocabulary, has_loss_mask=mask, has_pairs=pairs, backend=backend)


def parts(encoded, values):
    return [part.tolist() for part in np.split(values, np.cumsum(encoded.lengths)[:-1])]


def test_each_text_is_what_the_tokenizer_gives_and_its_end(vocabulary, made):
    texts = [Text(text="the quick fox"), Text(text="a"), Text(text="jumps over \u00e9\U0001f600")]
    found = encoder(vocabulary).encode(texts)
    assert parts(found, found.ids) == [[*made.encode(text.text).ids, 1] for text in texts]
    assert found.columns == {}


def test_a_text_that_ends_itself_or_goes_on_or_is_rendered_gets_no_second_end(vocabulary, made):
    texts = [Text(text="fox</s>"), Text(text="fox", is_last=False)]
    found = encoder(vocabulary).encode(texts)
    fox = made.encode("fox").ids
    assert parts(found, found.ids) == [[*fox, 1], fox]
    rendered = encoder(vocabulary).encode([Text(text="fox", is_rendered=True)])
    assert rendered.ids.tolist() == fox


def test_the_mask_is_of_the_tokens_of_what_is_learned(vocabulary, made):
    text = "the quick brown fox"
    start = text.index("brown")
    found = encoder(vocabulary, mask=True).encode([Text(text=text, learned=((start, len(text)),))])
    encoding = made.encode(text)
    expected = [int(last > start) for _, last in encoding.offsets] + [1]  # its end is learned
    assert found.columns["loss_mask"].tolist() == expected
    assert sum(expected) < len(expected)


def test_a_token_across_the_border_is_learned(vocabulary, made):
    text = "the quick"
    border = text.index("quick")
    straddling = [pair for pair in made.encode(text).offsets if pair[0] < border < pair[1]]
    assert straddling == [(3, 9)]  # " quick": without it nothing would be learned
    found = encoder(vocabulary, mask=True).encode([Text(text=text, learned=((border, len(text)),))])
    expected = [int(last > border) for _, last in made.encode(text).offsets]
    assert found.columns["loss_mask"].tolist() == [*expected, 1]


def test_several_answers_carry_loss_and_special_tokens_stand_alone(vocabulary):
    text = "<|im_start|>fox<|im_end|><|im_start|>dog<|im_end|>"
    spans = tuple(
        (text.index(word), text.index(word) + len(word + "<|im_end|>")) for word in ("fox", "dog")
    )
    given = Text(text=text, learned=spans, is_rendered=True)
    found = encoder(vocabulary, mask=True).encode([given])
    learned = found.ids[found.columns["loss_mask"] == 1].tolist()
    assert learned.count(4) == 2  # <|im_end|>
    assert 3 not in learned  # <|im_start|>
    assert (found.columns["loss_mask"] == 0).sum() == 2


def test_pairs_have_the_tokenizers_own_marks_and_types(tmp_path):
    made = save(tmp_path, bos=True)
    vocabulary = find_tokenizer(str(tmp_path))
    found = encoder(vocabulary, pairs=True).encode([Text(text="fox", pair="dog"), Text(text="fox")])
    encoding = made.encode("fox", "dog")
    first, second = parts(found, found.ids)
    assert first == encoding.ids
    assert second == made.encode("fox").ids  # no end: an encoder reads it
    assert parts(found, found.columns["token_type_ids"])[0] == encoding.type_ids


def test_no_texts_are_no_tokens(vocabulary):
    found = encoder(vocabulary, mask=True).encode([])
    assert (len(found.ids), len(found.lengths)) == (0, 0)
    assert len(found.columns["loss_mask"]) == 0


# A fast back end: never trusted, always compared


class Fast:
    """Stands for gigatoken: gives what `change` makes of the right ids, as awkward arrays are."""

    def __init__(self, made, change):
        self._made, self._change = made, change

    def encode_batch(self, texts):
        found = self._made.encode_batch(texts, add_special_tokens=False)
        return [self._change(each.ids) for each in found]


@pytest.fixture
def fast(made, monkeypatch):
    def install(change=lambda ids: ids):
        package = SimpleNamespace(
            Tokenizer=SimpleNamespace(from_json=lambda source: Fast(made, change)),
            __spec__=SimpleNamespace(),
        )
        awkward = SimpleNamespace(
            num=lambda rows: np.array([len(row) for row in rows]),
            flatten=lambda rows: np.array([token for row in rows for token in row], np.uint32),
            to_numpy=lambda values: values,
        )
        monkeypatch.setitem(sys.modules, "gigatoken", package)
        monkeypatch.setitem(sys.modules, "awkward", awkward)

    return install


SAMPLE = [Text(text="the quick brown fox"), Text(text="dog</s>"), Text(text="a", is_last=False)]
PIECES = [
    Text(text="the fox\n", is_last=False),
    Text(text="jumps\n", is_first=False, is_last=False),
    Text(text="a dog\n", is_first=False),
]


@pytest.mark.parametrize("backend", ["tokenizers", "gigatoken"])
@pytest.mark.parametrize("single", ["<s> $A", "<s> $A </s>", "$A <pad>", "$A"])
def test_a_document_in_pieces_is_begun_and_ended_once(tmp_path, fast, made, single, backend):
    model = save(tmp_path)
    special = [(name, model.token_to_id(name)) for name in ("<s>", "</s>", "<pad>")]
    model.post_processor = TemplateProcessing(single=single, special_tokens=special)
    model.save(str(tmp_path / "tokenizer.json"))
    fast()
    found = encoder(find_tokenizer(str(tmp_path)), backend=backend).encode([*PIECES, *PIECES[:1]])
    first, *rest = [made.encode(piece.text).ids for piece in PIECES]
    begin = [0] * single.startswith("<s>")
    end = {"<s> $A": [1], "<s> $A </s>": [1], "$A <pad>": [2, 1], "$A": [1]}[single]
    expected = [begin + first, rest[0], rest[1] + end, begin + first]
    assert parts(found, found.ids) == expected


@pytest.mark.parametrize("bos", [False, True])
def test_a_fast_back_end_gives_the_same_tokens(tmp_path, fast, bos):
    save(tmp_path, bos=bos)
    vocabulary = find_tokenizer(str(tmp_path))
    fast()
    usual, quick = (
        encoder(vocabulary, backend=name).encode(SAMPLE) for name in ("tokenizers", "gigatoken")
    )
    assert np.array_equal(usual.ids, quick.ids)
    assert np.array_equal(usual.lengths, quick.lengths)
    assert fast_backend("auto", vocabulary, SAMPLE) == ("gigatoken", None)


def test_a_back_end_that_differs_is_not_used(vocabulary, fast):
    fast(lambda ids: ids[:-1])
    name, why = fast_backend("auto", vocabulary, SAMPLE)
    assert name == "tokenizers"
    assert "gives other tokens" in why
    with pytest.raises(ConfigError, match=r"gives other tokens.*--backend tokenizers"):
        fast_backend("gigatoken", vocabulary, SAMPLE)


def test_a_back_end_that_fails_is_not_used(vocabulary, fast):
    def fail(ids):
        raise RuntimeError("no such pre-tokenizer")

    fast(fail)
    name, why = fast_backend("auto", vocabulary, SAMPLE)
    assert name == "tokenizers"
    assert "cannot read this tokenizer (RuntimeError: no such pre-tokenizer)" in why


def test_texts_with_a_mask_go_the_usual_way(vocabulary, fast):
    fast()
    masked = [Text(text="fox", learned=((0, 3),))]
    name, why = fast_backend("auto", vocabulary, masked)
    assert name == "tokenizers"
    assert "every token carries loss" in why


def test_what_is_missing_or_unknown_is_said(vocabulary, monkeypatch):
    monkeypatch.setattr(encode.importlib.util, "find_spec", lambda name: None)
    assert fast_backend("auto", vocabulary, SAMPLE)[0] == "tokenizers"
    with pytest.raises(DeviceError, match="pip install gigatoken"):
        fast_backend("gigatoken", vocabulary, SAMPLE)
    with pytest.raises(ConfigError, match="unknown: auto, tokenizers, gigatoken"):
        fast_backend("fastest", vocabulary, SAMPLE)
