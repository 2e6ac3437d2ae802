"""A loss at the level of guessing is a warning only if one batch is not learned either."""

import pytest
from tests.golden.rules.s11_loss_still import LEARNED, ONE_BATCH, TEN, losing, noisy

from hotloop.rules import ALL

(RULE,) = (rule for rule in ALL if rule.id == "S11")


@pytest.mark.parametrize(
    ("experiments", "severity", "said"),
    [
        ((), "note", "what guessing among 10 gives (ln 10 = 2.303)"),
        ((ONE_BATCH,), "warn", "it learns nothing from a single batch"),
        ((LEARNED,), "note", "90 steps on one batch take its loss from 2.3 to 0.4"),
    ],
)
def test_what_one_batch_shows_decides(experiments, severity, said):
    (finding,) = RULE.findings(losing(*noisy(2.3026), models=TEN, experiments=experiments))
    assert finding.severity == severity
    assert said in finding.claim
