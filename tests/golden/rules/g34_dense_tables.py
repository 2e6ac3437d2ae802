"""Golden cases of G34 dense_tables."""

from dataclasses import replace

from tests.golden.cases import SCRIPT, healthy, wall

from hotloop.core.case.steps_and_loaders import BatchFacts

CODE = "items = nn.Embedding(30_000, 64)\n"
MODEL = replace(healthy().models[0], trainable=2_000_000, tables=1_920_000, table_rows=30_000)
BATCH = BatchFacts(sampled=3, shapes={"0": (512,), "1": (512, 5)})
SLOW = wall(optimizer=8.0)
POSITIVE = [healthy(wall=SLOW, models=(MODEL,), batches=(BATCH,), sources={SCRIPT: CODE})]
NEGATIVE = [
    healthy(wall=SLOW, models=(replace(MODEL, trainable=9_000_000),), batches=(BATCH,)),
    healthy(wall=SLOW, models=(MODEL,), batches=(replace(BATCH, shapes={"0": (64, 512)}),)),
    healthy(wall=wall(optimizer=0.3), models=(MODEL,), batches=(BATCH,)),
]
