"""Golden cases of G19 ckpt_needless."""

from tests.golden.cases import healthy, on_gpu

from hotloop.core.case.environment import ProcessFacts
from hotloop.core.case.objects import Model

GIB = float(1 << 30)
cpu = Model(name="GPT", trainable=1, checkpointed=True)
gpu = Model(name="GPT", trainable=1, checkpointed=True, device="cuda:0")
POSITIVE = [
    on_gpu(models=(gpu,), process=ProcessFacts(allocator={"peak": 6 * GIB})),
    healthy(models=(cpu,), readings={"rss_bytes": (1 * GIB, 2 * GIB)}),
]
NEGATIVE = [
    on_gpu(models=(gpu,), process=ProcessFacts(allocator={"peak": 16 * GIB})),
    on_gpu(models=(gpu,)),
    healthy(models=(cpu,), readings={"rss_bytes": (12 * GIB,)}),
    healthy(readings={"rss_bytes": (1 * GIB,)}),
]
