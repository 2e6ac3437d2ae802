"""Golden cases of R8 one_validation."""

from tests.golden.cases import planned

POSITIVE = [
    planned(time={"validations": 1}),
    planned(time={"validations": 1}, settings={"eval_interval": None}),
]
NEGATIVE = [planned(time={"validations": 2}), planned(time=None)]
