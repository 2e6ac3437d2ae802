"""Golden cases of X5 dropped_rows."""

from dataclasses import replace

from tests.golden.cases import PLANNED, healthy, planned

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

# Before a run.
TEXT = PLANNED.data.text
POSITIVE += [
    planned(settings={"steps": 400}),
    planned(data={"per_epoch": 12_000}),
    planned(data={"text": replace(TEXT, limit=288_000, limit_origin="preset cpu")}),
]
NEGATIVE += [
    planned(data={"per_epoch": 15_500}),
    planned(data={"text": replace(TEXT, limit=288_000)}),
    planned(data={"text": replace(TEXT, limit=300_000, limit_origin="preset cpu")}),
]
