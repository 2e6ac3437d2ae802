"""Golden cases of X1 repeated_data."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.finding import Place
from hotloop.core.observed import Batches

CODE = """
class Windows(Dataset):
    def __len__(self):
        return len(self.data) - self.block

    def __getitem__(self, i):
        return self.data[i : i + self.block]
"""
LISTED = "rows = [ids[i : i + 64] for i in range(len(ids) - 64)]\n"
LOADER = replace(
    healthy().loaders[0], dataset="Windows", getitem=Place(file=SCRIPT, line=7), length=19936
)
STRIDE_1 = Batches(loader=1, overlap=64.0, shifted=1)
POSITIVE = [
    healthy(batches=(STRIDE_1,), loaders=(LOADER,), sources={SCRIPT: CODE}),
    healthy(batches=(replace(STRIDE_1, loader=None),), sources={SCRIPT: LISTED}),
    healthy(batches=(Batches(loader=1, duplicated=0.5),)),
    healthy(batches=(Batches(role="evaluate", in_evaluation=0.3),)),
]
NEGATIVE = [
    healthy(batches=(Batches(loader=1, overlap=1.0, shifted=64, duplicated=0.01),)),
    healthy(batches=(replace(STRIDE_1, role="evaluate"),)),
    healthy(
        batches=(Batches(loader=1, duplicated=0.5),),
        loaders=(replace(LOADER, sampler="WeightedRandomSampler"),),
    ),
    healthy(batches=(Batches(role="evaluate", in_evaluation=0.0),)),
]
