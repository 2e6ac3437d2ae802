"""Golden cases of X2 not_what_you_think."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, of_rows

from hotloop.core.case.steps_and_loaders import BatchFacts

TOKENS = BatchFacts(
    label="labels",
    shapes={"input_ids": (8, 128), "labels": (8, 128)},
    widths=(128,),
    padding=0.4,
    ignored=0.0,
)
POSITIVE = [
    healthy(batches=(replace(TOKENS, ignored=0.999, decoded="to be"),)),
    healthy(batches=(TOKENS,)),
]
NEGATIVE = [
    healthy(batches=(BatchFacts(label="y", labels={"0": 256}),)),  # S13's
    healthy(batches=(replace(TOKENS, ignored=0.4),)),
    healthy(batches=(TOKENS,), sources={SCRIPT: "loss = cross_entropy(x, y, ignore_index=0)"}),
    healthy(batches=(replace(TOKENS, shapes={"labels": (8,)}),)),
]

# Before a run.
POSITIVE += [
    of_rows("labels", contradicting=160),
    of_rows("labels", contradicting=800),
]
NEGATIVE += [
    of_rows("labels", contradicting=159),
]
