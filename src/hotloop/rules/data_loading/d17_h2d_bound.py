"""The GPU waits for its batches to be copied.

Looks at: the row "host to device", less the lines that make a tensor and send it (H4).
Says so when: it is 10 % of the wall time or more; 20 % is critical.
Stays silent when: copies run beside the computing.
Remedy: fewer bytes a batch, pinned memory, a copy ahead on a stream of its own.
Numbers: bitwise the same; fewer bits a value round.
Seen: golden case only; not yet seen on a GPU.
Source: TraceML for the thresholds.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import WARN, Case, Finding, Needs, Remedy, Rule, code_edit
from hotloop.rules.support.costs import seconds_at
from hotloop.rules.support.data_wait import costs, feeding, place_of
from hotloop.rules.support.device_moves import tensors_sent

__all__ = ["RULE"]


def judge(case: Case) -> Finding | None:
    """Report the share of host-to-device copies."""
    row = "host to device"
    seconds, loader = case.row(row), feeding(case)
    if case.part(seconds) < WARN:
        return None
    seconds -= seconds_at(case, tensors_sent(case), rows=(row,))
    if case.part(seconds) < WARN:
        return None
    size = loader.batch_bytes if loader else None
    return costs(
        case,
        f"copying batches to the GPU takes {case.part(seconds):.0%} of the time",
        seconds,
        places=place_of(loader),
        evidence={"a batch": bytes_(size)} if size else {},
        remedies=[
            Remedy(text="pin_memory=True and .to(device, non_blocking=True)"),
            code_edit("copy the next batch on a stream of its own"),
        ],
    )


RULE = Rule(
    title="Copying to the GPU takes much of the time",
    judge=judge,
    needs=(Needs.STEPS, Needs.GPU),
    weight=0,
    numerics="bitwise",
)
