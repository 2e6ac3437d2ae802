import pytest

from hotloop import rules, techniques
from hotloop.cli.explain import page_of, run
from hotloop.core.errors import UsageError


@pytest.mark.parametrize("words", ["D13", "d13", "tokenize_hot", "D13 tokenize_hot"])
def test_a_rule_is_found_by_id_name_and_label(words):
    assert page_of(words).startswith("D13 tokenize_hot: ")


def test_every_rule_and_technique_has_a_page():
    for rule in rules.ALL:
        assert rule.page in page_of(rule.label)
    for technique in techniques.ALL:
        assert technique.page in page_of(technique.id)


def test_a_misspelt_name_gets_a_hint():
    with pytest.raises(UsageError, match="did you mean"):
        page_of("tokenise_hot")


def test_the_words_of_a_finding_need_no_quotes(capsys):
    assert run(["D13", "tokenize_hot"]) == 0
    assert "D13 tokenize_hot: " in capsys.readouterr().out
