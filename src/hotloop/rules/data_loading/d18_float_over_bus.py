"""Pictures are turned into float32 on the host, four times the bytes of their file.

Looks at: shape and dtype of the batches, and the row "host to device".
Says so when: batches of pictures are float32 and copying is 2 % of the wall time or more.
Stays silent when: pictures are sent as uint8.
Remedy: send uint8 and normalise on the GPU.
Numbers: rounding: the same division, by another device.
Seen: golden case only; not yet seen on a GPU.
Source: hotloop.
"""

from hotloop.core.units import bytes_
from hotloop.rules.base import ABSTAIN, Case, Finding, Needs, Rule, code_edit
from hotloop.rules.support.data_wait import costs, feeding, place_of

__all__ = ["RULE"]

CHANNELS = (1, 3, 4)


def judge(case: Case) -> Finding | None:
    """Look for images with four bytes per value."""
    loader, seconds = feeding(case), 0.75 * case.row("host to device")  # of four bytes, three
    if loader is None or "float32" not in loader.dtypes or case.part(seconds) < ABSTAIN:
        return None
    shapes = [
        shape
        for batch in case.batches
        if batch.role == "train"
        for shape in batch.shapes.values()
        if len(shape) == 4 and (shape[1] in CHANNELS or shape[3] in CHANNELS)
    ]
    if not shapes:
        return None
    return costs(
        case,
        f"pictures of {' x '.join(map(str, shapes[0][1:]))} go to the GPU as float32",
        seconds,
        places=[*([loader.getitem] if loader.getitem else []), *place_of(loader)],
        evidence={"a batch": bytes_(loader.batch_bytes)} if loader.batch_bytes else {},
        remedies=[
            code_edit(
                "keep uint8 in the data set; x.to(device).float().div_(255) and the "
                "normalisation on the GPU"
            )
        ],
    )


RULE = Rule(
    title="Pictures are sent to the GPU as float32",
    judge=judge,
    needs=(Needs.STEPS, Needs.LOADER, Needs.BATCHES, Needs.GPU),
    under="D17",
    weight=2,
    numerics="rounding",
)
