"""Every technique, in one list. To add one: write its file, import it here, add it to ALL."""

from hotloop.core.errors import PlanError, did_you_mean
from hotloop.techniques import (
    autocast_bf16,
    autocast_fp16,
    compile,
    fused_adamw,
    gc_freeze,
    lagged_loss_read,
    sdpa,
    tf32,
    threads,
)
from hotloop.techniques.base import Technique

__all__ = ["ALL", "get"]

ALL: tuple[Technique, ...] = (
    autocast_bf16.TECHNIQUE,
    autocast_fp16.TECHNIQUE,
    compile.TECHNIQUE,
    fused_adamw.TECHNIQUE,
    gc_freeze.TECHNIQUE,
    lagged_loss_read.TECHNIQUE,
    sdpa.TECHNIQUE,
    tf32.TECHNIQUE,
    threads.TECHNIQUE,
)
_BY_ID = {technique.id: technique for technique in ALL}


def get(id: str) -> Technique:
    """Return the technique called `id`; PlanError lists the ones there are."""
    if id not in _BY_ID:
        known = ", ".join(_BY_ID)
        raise PlanError(
            f"no technique is called {id!r}{did_you_mean(id, _BY_ID)} (there are: {known})"
        )
    return _BY_ID[id]
