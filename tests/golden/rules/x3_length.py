"""Golden cases of X3 length."""

from dataclasses import replace

from tests.golden.cases import healthy, of_rows

from hotloop.core.case.steps_and_loaders import BatchFacts

CUT = BatchFacts(sampled=4, widths=(128, 128, 128, 128), lengths=(60, 128, 128, 90), truncated=0.5)
POSITIVE = [
    healthy(batches=(CUT,)),
    healthy(batches=(replace(CUT, truncated=0.08),)),
    healthy(batches=(replace(CUT, truncated=None),), requested={"max_length": "2048"}),
    healthy(batches=(replace(CUT, widths=(99, 300), truncated=None),), requested={"max_len": "64"}),
]
NEGATIVE = [
    healthy(batches=(replace(CUT, truncated=0.01),), requested={"max_length": "128"}),
    healthy(batches=(replace(CUT, truncated=None),), requested={"block_size": "127"}),
    healthy(
        batches=(replace(CUT, widths=(99, 128), truncated=0.0),), requested={"max_length": "256"}
    ),
    healthy(batches=(replace(CUT, role="evaluate"),)),
]

# Before a run.
POSITIVE += [
    of_rows("labels", cut=20_000),
    of_rows("answers", cut=200_000),
]
NEGATIVE += [
    of_rows("labels", cut=9_000),
]
