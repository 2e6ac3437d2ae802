import pytest

from hotloop import rules, techniques
from hotloop.cli.explain import page_of, run
from hotloop.cli.guides.pages import guides
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


def test_a_guide_is_shown_as_it_stands():
    assert page_of("out-of-memory") == guides()["out-of-memory"]


def test_without_a_name_the_guides_are_listed(capsys):
    assert run([]) == 0
    listed = capsys.readouterr().out
    for name in guides():
        assert f"{name} " in listed


def test_a_misspelt_guide_gets_a_hint():
    with pytest.raises(UsageError, match="did you mean out-of-memory"):
        page_of("out-of-memry")
