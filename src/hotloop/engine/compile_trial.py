"""Keep compiled blocks only if they are faster than eager ones; what was measured is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch

from hotloop.engine.apply_plan import nothing_stays
from hotloop.engine.timed_passes import MOST, PassRates, eager_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.session.batch import Batch
    from hotloop.session.session import Session

__all__ = ["found_needless", "left_out_before"]

ID: Final = "compile"
_KEPT: Final = "kept"


def left_out_before(session: Session) -> str | None:
    """Undo the compilation, before it is made, if the run's first part left it out; say why."""
    why = session.stepping.decided.get(ID, _KEPT)
    if why == _KEPT:
        return None
    session.undo.pop(ID)()
    return why


def found_needless(session: Session, batches: Sequence[Batch]) -> str | None:
    """Time compiled passes and eager ones; undo the compilation if it is not faster, and say so."""
    decided = session.stepping.decided
    if ID in decided:
        return None
    with nothing_stays(session):
        compiled = eager_seconds(session, batches[:MOST])
        with torch.compiler.set_stance("force_eager"):
            eager = eager_seconds(session, batches[:MOST])
    rates = PassRates(other=1 / compiled, eager=1 / eager)
    session.facts[ID] = str(rates)
    decided[ID] = _KEPT if rates.is_faster else str(rates)
    if rates.is_faster:
        return None
    session.undo.pop(ID)()
    return str(rates)
