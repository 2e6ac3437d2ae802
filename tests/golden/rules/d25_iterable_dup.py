"""Golden cases of D25 iterable_dup."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.observed import Batches

LOADER = replace(healthy().loaders[0], iterable=True, workers=2, worker_info=False, dataset="Lines")
CODE = "class Lines(IterableDataset):\n    def __iter__(self):\n        yield 1\n"
POSITIVE = [
    healthy(loaders=(LOADER,), sources={SCRIPT: CODE}),
    healthy(loaders=(LOADER,), batches=(Batches(loader=1, duplicated=0.5),)),
]
NEGATIVE = [
    healthy(loaders=(replace(LOADER, worker_info=True),)),
    healthy(loaders=(replace(LOADER, workers=1),)),
    healthy(loaders=(replace(LOADER, iterable=False),)),
]
