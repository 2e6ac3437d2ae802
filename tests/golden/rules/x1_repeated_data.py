"""Golden cases of X1 repeated_data."""

from dataclasses import replace

from tests.golden.cases import PLANNED, SCRIPT, healthy, of_rows, planned

from hotloop.core.case.planned_run import RepeatedLines
from hotloop.core.case.steps_and_loaders import BatchFacts
from hotloop.core.finding import SourceLocation

CODE = """
class Windows(Dataset):
    def __len__(self):
        return len(self.data) - self.block

    def __getitem__(self, i):
        return self.data[i : i + self.block]
"""
LISTED = "rows = [ids[i : i + 64] for i in range(len(ids) - 64)]\n"
LOADER = replace(
    healthy().loaders[0],
    dataset="Windows",
    getitem=SourceLocation(file=SCRIPT, line=7),
    length=19936,
    batches=623,
    once=True,
)
OTHER = replace(LOADER, key=2, role="evaluate")
UNUSED = replace(LOADER, key=3, role="unused")


def leaking(share: float) -> BatchFacts:
    return BatchFacts(loader=2, role="evaluate", in_evaluation=share)


STRIDE_1 = BatchFacts(loader=1, overlap=64.0, shifted=1)
POSITIVE = [
    healthy(batches=(STRIDE_1,), loaders=(LOADER,), sources={SCRIPT: CODE}),
    healthy(batches=(replace(STRIDE_1, loader=None),), sources={SCRIPT: LISTED}),
    healthy(batches=(BatchFacts(loader=1, duplicated=0.5),), loaders=(LOADER,)),
    healthy(batches=(BatchFacts(role="evaluate", in_evaluation=0.3),)),
    healthy(batches=(BatchFacts(role="evaluate", in_evaluation=1.0),)),
    # notes: one of two evaluations, the training data themselves, another one may come
    healthy(batches=(leaking(0.3), replace(leaking(0.0), loader=3))),
    healthy(batches=(replace(leaking(1.0), of_training=True),)),
    healthy(batches=(leaking(0.3),), loaders=(LOADER, OTHER, UNUSED), stopped="enough"),
    # a run of half an epoch
    healthy(batches=(STRIDE_1,), loaders=(replace(LOADER, batches=2000, length=64_000),)),
]
NEGATIVE = [
    healthy(batches=(BatchFacts(loader=1, overlap=1.0, shifted=64, duplicated=0.01),)),
    healthy(batches=(replace(STRIDE_1, role="evaluate"),)),
    healthy(
        batches=(BatchFacts(loader=1, duplicated=0.5),),
        loaders=(replace(LOADER, sampler="WeightedRandomSampler", once=False),),
    ),
    healthy(
        batches=(BatchFacts(loader=1, duplicated=0.5),),
        loaders=(replace(LOADER, sampler="MySampler", once=None),),
    ),
    healthy(
        batches=(STRIDE_1,),  # the sampler draws 320 rows of 19,936 an epoch
        loaders=(replace(LOADER, sampler="RandomSampler", once=False, batches=10),),
    ),
    healthy(
        batches=(STRIDE_1,),  # it ends after 1,000 of 40,000 batches
        loaders=(replace(LOADER, batches=40_000, length=1_280_000),),
    ),
    healthy(batches=(BatchFacts(role="evaluate", in_evaluation=0.0),)),
    # the training data beside others, on purpose
    healthy(batches=(leaking(1.0), replace(leaking(0.0), loader=3))),
    healthy(batches=(replace(leaking(0.95), of_training=True), replace(leaking(0.0), loader=3))),
]

# Before a run.
TEXT = PLANNED.data.text
LINES = RepeatedLines(share=0.39, most="a line", times=2)
POSITIVE += [
    planned(settings={"steps": 2001}),
    planned(settings={"steps": 20_001}),
    planned(data={"text": replace(TEXT, repeated=LINES)}),
    planned(data={"text": replace(TEXT, leaked=LINES)}),
    of_rows("labels", leaked=0.02),
    of_rows("tasks", leaked=0.05),
    of_rows("answers", leaked=0.02),
    of_rows("answers", texts=100, copies=20),
]
NEGATIVE += [
    planned(settings={"steps": 2000}),
    planned(data={"text": replace(TEXT, repeated=replace(LINES, share=0.09))}),
    of_rows("labels", leaked=0.009),
    of_rows("answers", texts=100, copies=9),
]
