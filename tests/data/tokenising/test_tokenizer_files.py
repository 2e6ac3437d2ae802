"""Tokenizers as they lie in folders and on the hub."""

import json

import pytest
from tests.golden.tiny_tokenizer import save, tokenizer

from hotloop.core.errors import DataError
from hotloop.data.tokenising.chat_templates import CHATML
from hotloop.data.tokenising.tokenizer_files import find_tokenizer, no_panic


def test_a_folder_says_its_special_tokens_and_its_size(tmp_path):
    made = save(tmp_path / "model")
    found = find_tokenizer(str(tmp_path / "model"))
    assert found.size == made.get_vocab_size()
    assert found.eos == made.token_to_id("</s>") == 1
    assert found.specials == {"eos_token": "</s>", "bos_token": "<s>"}
    assert found.is_narrow
    file = find_tokenizer(str(tmp_path / "model" / "tokenizer.json"))
    assert file.fingerprint == found.fingerprint


def test_a_tokenizer_without_an_end_has_none(tmp_path):
    save(tmp_path, eos=None)
    assert find_tokenizer(str(tmp_path)).eos is None


def test_the_fingerprint_is_of_what_decides_the_ids(tmp_path):
    for name, options in {"a": {}, "b": {}, "c": {"eos": "<pad>"}, "d": {"size": 280}}.items():
        save(tmp_path / name, **options)
    a, b, c, d = (find_tokenizer(str(tmp_path / name)).fingerprint for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3


def test_its_own_chat_template_is_taken_where_it_has_one(tmp_path):
    save(tmp_path / "own", template="{{ messages[0].content }}{{ eos_token }}")
    save(tmp_path / "none")
    own = find_tokenizer(str(tmp_path / "own"))
    assert own.chat(None).render([{"role": "user", "content": "a"}]) == "a</s>"
    assert own.chat("chatml").source == CHATML
    none = find_tokenizer(str(tmp_path / "none"))
    assert none.chat(None).source == CHATML
    with pytest.raises(DataError, match="has no chat template of its own"):
        none.chat("tokenizer")
    with pytest.raises(DataError, match="did you mean chatml"):
        none.chat("chat-ml")


def test_a_template_in_a_file_of_its_own_and_one_of_several(tmp_path):
    save(tmp_path)
    (tmp_path / "chat_template.jinja").write_text("file")
    assert find_tokenizer(str(tmp_path)).template == "file"
    (tmp_path / "chat_template.jinja").unlink()
    config = {
        "chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": "y"}]
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert find_tokenizer(str(tmp_path)).template == "y"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("./nothing/here", "does not exist"),
        ("/nothing", "does not exist"),
        ("a/b/c", "does not exist"),
    ],
)
def test_what_is_not_there_is_said(name, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=said):
        find_tokenizer(name)


def test_a_file_that_is_no_tokenizer_is_said(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"the tokenizer\.json of .* is not one"):
        find_tokenizer(str(tmp_path))


def test_the_tiny_one_is_the_same_every_time():
    assert tokenizer().to_str() == tokenizer().to_str()


class PanicException(BaseException):
    """As pyo3 makes one for each package written in Rust."""


def test_a_panic_of_the_package_names_the_tokenizer():
    said = "fails on the tokenizer of mine: index out of bounds"
    with pytest.raises(DataError, match=said), no_panic("mine"):
        raise PanicException("index out of bounds")
    with pytest.raises(KeyboardInterrupt), no_panic("mine"):
        raise KeyboardInterrupt
