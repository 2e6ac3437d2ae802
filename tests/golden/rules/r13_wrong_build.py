"""Golden cases of R13 wrong_build."""

from tests.golden.cases import GPU, machine

POSITIVE = [machine(GPU, unfit_build="it has kernels for sm_80, and the GPU is sm_75")]
NEGATIVE = [machine(GPU)]
