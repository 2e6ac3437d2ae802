from hotloop import rules
from hotloop.cli.rules import run


def test_every_rule_is_listed_with_what_it_needs(capsys):
    assert run([]) == 0
    out = capsys.readouterr().out
    assert all(rule.id in out for rule in rules.ALL)
    assert f"{len(rules.ALL)} rules" in out
    assert "a CUDA GPU" in out
