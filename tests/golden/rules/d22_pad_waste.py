"""Golden cases of D22 pad_waste."""

from dataclasses import replace

from tests.golden.cases import healthy, of_rows, on_gpu, wall

from hotloop.core.case.planned_run import PaddedRows
from hotloop.core.case.steps_and_loaders import BatchFacts

WAITED = {"forward": 0.1, "backward": 0.2, "optimizer": 0.1, "host waits": 60.0}
POSITIVE = [
    healthy(batches=(BatchFacts(padding=0.45, widths=(128,), lengths=(30, 70, 128)),)),
    healthy(batches=(BatchFacts(padding=0.25),)),
    on_gpu(batches=(BatchFacts(padding=0.45),), wall=WAITED),  # the kernels of both passes
]
NEGATIVE = [
    healthy(batches=(BatchFacts(padding=0.45),), wall=WAITED),
    healthy(batches=(BatchFacts(padding=0.1),)),
    healthy(batches=(BatchFacts(padding=0.45, role="evaluate"),)),
    healthy(batches=(BatchFacts(padding=0.45),), wall=wall(data_wait=900.0)),
]

LOADER = healthy().loaders[0]
MASKED = BatchFacts(
    loader=1,
    padding=0.45,
    shapes={"input_ids": (32, 128), "attention_mask": (32, 128), "labels": (32,)},
    widths=(128, 128),
    label="labels",
)
DYNAMIC = BatchFacts(loader=1, padding=0.45, shapes={"0": (32, 90)}, widths=(90, 128))
TOKENS = replace(DYNAMIC, shapes={"0": (32, 90), "1": (32, 90)}, label="1")


def _case(given, *, techniques=(), **loader):
    loaders = (replace(LOADER, **loader),)
    return healthy(batches=(given,), loaders=loaders, techniques=dict.fromkeys(techniques, ""))


NAMED = [
    (_case(MASKED), ["length-bucketing"]),
    (_case(DYNAMIC), ["length-bucketing", "token-budget"]),
    (_case(TOKENS), ["length-bucketing", "token-budget"]),
    (_case(TOKENS, drop_last=True), ["length-bucketing"]),
    (_case(replace(MASKED, shapes={"0": (32, 128)})), []),  # one width, and no mask to cut it by
    (_case(TOKENS, sampler="LengthGroupedSampler"), []),
    (_case(TOKENS, sampler="SequentialSampler"), []),
    (_case(TOKENS, iterable=True), []),
    (_case(TOKENS, batch_size=1), []),
    (_case(TOKENS, batches=1), []),
    (_case(TOKENS, techniques=["token-budget"]), []),
    (_case(TOKENS, techniques=["vectorised-reads"]), []),
    (_case(replace(TOKENS, loader=None)), []),  # made by hand
]

# Before a run.
PADDED = PaddedRows(share=0.05, median=20, longest=90, packed=False)
POSITIVE += [
    of_rows("answers", padding=PADDED),
    of_rows("tasks", padding=PADDED),
]
NEGATIVE += [
    of_rows("answers", padding=replace(PADDED, share=0.04)),
    of_rows("labels"),
]
