"""What H14 says of slow steps while other programs run."""

from dataclasses import replace

import pytest
from tests.golden.rules.h14_step_outliers import POSITIVE

from hotloop.rules import ALL


@pytest.mark.parametrize(
    ("others", "severity"), [(None, "critical"), (0.2, "critical"), (0.9, "note")]
)
def test_slow_steps_beside_other_programs_are_a_note(others: float | None, severity: str):
    case = replace(POSITIVE[0], process=replace(POSITIVE[0].process, other_cores=others))
    rule = next(rule for rule in ALL if rule.id == "H14")
    (finding,) = rule.findings(case)
    assert finding.severity == severity
