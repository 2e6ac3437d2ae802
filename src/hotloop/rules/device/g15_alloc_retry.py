"""The caching allocator asks the driver for memory again and again, which stops the GPU.

Looks at: its retries, and memory it holds without using it.
Says so when: it freed its cache and tried again at least once; or it holds twice what tensors use
    and more than half of the GPU (a note).
Stays silent when: it holds what it needs.
Remedy: PYTORCH_ALLOC_CONF=expandable_segments:True, batches of few shapes, a little less memory.
Numbers: bitwise the same.
Seen: golden cases only; not yet seen on a GPU.
Source: https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management; TraceML
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import Case, Finding, Needs, Remedy, Rule, option

__all__ = ["RULE"]

TWICE = 2  # times what tensors use
NAMES = ("allocated_bytes", "reserved_bytes")


def judge(case: Case) -> Finding | None:
    """Read the allocator's counters."""
    retries = int(case.process.allocator.get("num_alloc_retries", 0))
    used, reserved = (max(case.readings.get(name, (0.0,))) for name in NAMES)
    memory = case.hardware.memory_bytes or 0
    if retries:
        claim = f"the allocator ran out of memory {retries} times, emptied its cache and went on"
    elif used and reserved >= TWICE * used and reserved >= memory / 2 > 0:
        claim = f"the allocator holds {bytes_(reserved)} for tensors of {bytes_(used)}: fragments"
    else:
        return None
    return Finding(
        claim=claim,
        severity="warn" if retries else "note",
        remedies=[
            option("PYTORCH_ALLOC_CONF=expandable_segments:True in the environment"),
            Remedy(
                text="a smaller micro batch, or batches of few shapes "
                "(hotloop explain out-of-memory)"
            ),
        ],
    )


RULE = Rule(
    title="The allocator runs out and starts again",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    weight=2,
    numerics="bitwise",
)
