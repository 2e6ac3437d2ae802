"""Golden cases of R13 wrong_build."""

from tests.golden.cases import CARD, machine

POSITIVE = [machine(CARD, unfit_build="it has kernels for sm_80, and the card is sm_75")]
NEGATIVE = [machine(CARD)]
