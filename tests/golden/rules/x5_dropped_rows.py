"""Golden cases of X5 dropped_rows."""

from dataclasses import replace

from tests.golden.cases import healthy

LOADER = replace(healthy().loaders[0], drop_last=True, length=100, batch_size=32)
EVALUATION = replace(LOADER, role="evaluate")
POSITIVE = [
    healthy(loaders=(EVALUATION,)),
    healthy(loaders=(replace(EVALUATION, length=32_001),)),
    healthy(loaders=(replace(LOADER, length=60),)),
    healthy(loaders=(replace(LOADER, length=20),)),
]
NEGATIVE = [
    healthy(loaders=(replace(EVALUATION, length=96),)),
    healthy(loaders=(replace(EVALUATION, drop_last=False),)),
    healthy(loaders=(LOADER,)),  # 4 %, other ones each epoch
]
