"""Golden cases of D25 iterable_dup."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy

from hotloop.core.case.steps_and_loaders import BatchFacts

LOADER = replace(healthy().loaders[0], iterable=True, workers=2, worker_info=False, dataset="Lines")
CODE = "class Lines(IterableDataset):\n    def __iter__(self):\n        yield 1\n"
WHOLE = CODE.replace("yield 1", "random.shuffle(self.lines); yield from self.lines")
DRAWN = CODE.replace("yield 1", "yield torch.rand(3)")
POSITIVE = [
    healthy(loaders=(LOADER,), sources={SCRIPT: CODE}),
    healthy(loaders=(LOADER,), sources={SCRIPT: WHOLE}),
    healthy(loaders=(LOADER,)),
]
NEGATIVE = [
    healthy(loaders=(LOADER,), sources={SCRIPT: DRAWN}),  # each worker draws others
    healthy(loaders=(replace(LOADER, worker_info=True),)),
    healthy(loaders=(replace(LOADER, workers=1),)),
    healthy(loaders=(replace(LOADER, iterable=False),)),
]
TWICE = BatchFacts(loader=LOADER.key, duplicated=0.5)
KNOWN = [
    (POSITIVE[0], "read"),
    (healthy(loaders=(LOADER,), sources={SCRIPT: CODE}, batches=(TWICE,)), "proved"),
]
