"""Golden cases of S13 constant_label."""

from dataclasses import replace

from tests.golden.cases import healthy

from hotloop.core.case.steps_and_loaders import BatchFacts

SAME = BatchFacts(loader=1, sampled=4, label="y", labels={"0": 128})
UNSHUFFLED = (replace(healthy().loaders[0], shuffle=False),)
POSITIVE = [healthy(batches=(SAME,)), healthy(batches=(SAME,), loaders=UNSHUFFLED)]
NEGATIVE = [
    healthy(batches=(replace(SAME, labels={"0": 127, "1": 1}),)),
    healthy(batches=(replace(SAME, labels={"0": 16}),)),
    healthy(batches=(replace(SAME, sampled=1),)),
    healthy(batches=(replace(SAME, role="evaluate"),)),
    healthy(batches=(replace(SAME, labels={}),)),
]
