"""H18: work after the update is loud only where one line below the training loop takes it."""

from tests.golden.rules.h18_after_step import POSITIVE

from hotloop.rules import ALL


def test_time_that_is_spread_over_the_loop_is_a_note():
    rule = next(rule for rule in ALL if rule.id == "H18")
    severities = [finding.severity for case in POSITIVE for finding in rule.findings(case)]
    assert severities == ["critical", "note", "note", "note", "note"]
