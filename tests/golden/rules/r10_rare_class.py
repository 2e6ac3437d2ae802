"""Golden cases of R10 rare_class."""

from tests.golden.cases import of_rows

POSITIVE = [
    of_rows("labels", counts={"no": 100, "yes": 9}, metric="accuracy"),
    of_rows("labels", counts={"no": 900, "yes": 100}, metric="accuracy"),
    of_rows("tasks", counts={"questions": 19, "sentiment": 981}),
]
NEGATIVE = [
    of_rows("labels", counts={"no": 100, "yes": 50}, metric="accuracy"),
    of_rows("tasks", counts={"questions": 20, "sentiment": 980}),
    of_rows("answers"),
]
