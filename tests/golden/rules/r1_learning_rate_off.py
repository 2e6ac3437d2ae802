"""Golden cases of R1 learning_rate_off."""

from tests.golden.cases import planned

POSITIVE = [planned(settings={"learning_rate": 3e-2}), planned(settings={"learning_rate": 1e-4})]
NEGATIVE = [
    planned(settings={"learning_rate": 1e-2}),
    planned(settings={"learning_rate": 1e-4, "from_scratch": False}),
]
