"""Golden cases of D22 pad_waste."""

from tests.golden.cases import healthy, wall

from hotloop.core.observed import Batches

POSITIVE = [
    healthy(batches=(Batches(padding=0.45, widths=(128,), lengths=(30, 70, 128)),)),
    healthy(batches=(Batches(padding=0.25),)),
]
NEGATIVE = [
    healthy(batches=(Batches(padding=0.1),)),
    healthy(batches=(Batches(padding=0.45, role="evaluate"),)),
    healthy(batches=(Batches(padding=0.45),), wall=wall(data_wait=900.0)),
]
