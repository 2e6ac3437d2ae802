"""The worker processes and the loop keep every core busy, so more workers cannot help.

Looks at: the cores this run kept busy against those it may use (affinity and quota).
Says so when: rule D1 speaks, they are 90 % of the cores or more, and most of that is the workers'.
Stays silent when: cores are free (D6).
Remedy: cheaper samples: read once and keep, a faster format, or the transformation on the GPU.
Numbers: bitwise the same where samples are kept; other decoders and the GPU round differently.
Seen: examples/planted/loader_full_cores.py.
Source: gpuprof, and SageMaker's CPUBottleneck rule (90 %).
"""

from hotloop.core.units import many
from hotloop.rules.base import Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support import data_wait

__all__ = ["RULE"]

FULL, MOST = 0.90, 0.50  # of the cores, by the whole run and by the workers


def judge(case: Case) -> Finding | None:
    """Compare the cores that the workers use with the available ones."""
    loader, cores = data_wait.feeding(case), case.hardware.cores
    if (
        loader is None
        or not loader.worker_cpu
        or cores is None
        or not data_wait.waits_for_data(case)
    ):
        return None
    unused = data_wait.unused_cores(case)
    if unused is None or unused > (1 - FULL) * cores or loader.worker_cpu < MOST * cores:
        return None
    return data_wait.costs(
        case,
        f"{loader.workers} workers keep {loader.worker_cpu:.1f} of {many(cores, 'core')} busy, the "
        "loop has the rest and still waits: more workers cannot help",
        case.row("data wait"),
        places=[*([loader.getitem] if loader.getitem else []), *data_wait.place_of(loader)],
        remedies=[
            *data_wait.keep_samples(loader),
            code_edit("do the deterministic part of reading a sample once, before training"),
        ],
    )


RULE = Rule(
    title="No core is left for another worker",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER),
    under="D1",
    weight=2,
    numerics="bitwise",
    by_host=True,
)
