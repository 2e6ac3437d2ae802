"""The data set is small enough to lie on the GPU, and is copied there batch by batch.

Looks at: the bytes of a data set in memory, the GPU's free memory, and the time that waiting for
    data and copying take.
Says so when: it is less than 10 % of the free memory and they take 2 % of the wall time or more.
Stays silent when: the size is unknown, or the data are read from files.
Remedy: move the tensors to the GPU once, before the loop.
Numbers: bitwise the same, in the same order.
Seen: golden case only; not yet seen on a GPU.
Source: hotloop.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import costs, feeding, place_of

__all__ = ["RULE"]

SMALL = 0.10  # of the free memory


def judge(case: Case) -> Finding | None:
    """Compare the data set with the memory the run leaves free."""
    loader, memory = feeding(case), case.hardware.memory_bytes
    if loader is None or not loader.in_memory or not loader.dataset_bytes or memory is None:
        return None
    free = memory - max(case.readings.get("gpu_memory_bytes", (0.0,)))
    seconds = case.row("data wait") + case.row("host to device")
    if loader.dataset_bytes >= SMALL * free or case.part(seconds) < ABSTAIN:
        return None
    return costs(
        case,
        f"the data ({bytes_(loader.dataset_bytes)}) fit in the GPU's free memory and are copied "
        "batch by batch",
        seconds,
        places=place_of(loader),
        evidence={"free on the GPU": bytes_(free)},
        remedies=[
            code_edit("data = data.to(device) once; cut batches with data[torch.randperm(n)[a:b]]")
        ],
    )


RULE = Rule(
    title="The data fit in the GPU's memory",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER, Needs.GPU),
    under="D1",
    numerics="bitwise",
)
