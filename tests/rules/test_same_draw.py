"""D31: an order that nobody chose is a warning, one that may be meant is a note."""

from tests.golden.rules.d31_same_draw import DEFAULT, MIXED, WRITTEN, ordered

from hotloop.rules import ALL


def test_an_order_that_nobody_chose_is_loud():
    rule = next(rule for rule in ALL if rule.id == "D31")
    (default,), (written,), (mixed,) = map(rule.findings, map(ordered, (DEFAULT, WRITTEN, MIXED)))
    assert (default.severity, written.severity, mixed.severity) == ("warn", "note", "note")
    assert default.known == "proved"


def test_an_order_of_rows_that_were_not_compared_is_only_read():
    rule = next(rule for rule in ALL if rule.id == "D31")
    for repeats in (None, 0.2):
        (finding,) = rule.findings(ordered(DEFAULT, repeats=repeats))
        assert finding.known == "read"
