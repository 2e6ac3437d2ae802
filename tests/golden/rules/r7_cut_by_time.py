"""Golden cases of R7 cut_by_time."""

from tests.golden.cases import planned

POSITIVE = [planned(settings={"max_time": 99.0})]
NEGATIVE = [planned(settings={"max_time": 100.0}), planned(settings={"max_time": 1.0}, time=None)]
