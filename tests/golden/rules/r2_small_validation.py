"""Golden cases of R2 small_validation."""

from tests.golden.cases import of_rows, planned

from hotloop.core.case.planned_run import ValidationSize

POSITIVE = [
    planned(data={"validation": ValidationSize(rows=12, targets=192)}),
    of_rows("labels", ValidationSize(rows=100)),
    of_rows("answers", ValidationSize(rows=2, targets=20)),
    of_rows("tasks", ValidationSize(rows=12, task="sentiment")),
]
NEGATIVE = [
    planned(data={"validation": ValidationSize(rows=1100, targets=17_000)}),
    of_rows("labels", ValidationSize(rows=2501)),
    of_rows("answers", ValidationSize(rows=10, targets=2501)),
]
