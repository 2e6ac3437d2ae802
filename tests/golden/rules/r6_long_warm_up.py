"""Golden cases of R6 long_warm_up."""

from tests.golden.cases import planned

POSITIVE = [planned(settings={"warm_up": 334}), planned(settings={"warm_up": 1000})]
NEGATIVE = [planned(settings={"warm_up": 333})]
