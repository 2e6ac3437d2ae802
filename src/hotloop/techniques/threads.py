"""Threads: as many compute threads as there are cores for them, and no more.

What: sets torch's intra-op thread count; 0 means at most the cores this process may really
    use, and never more than torch (or OMP_NUM_THREADS) says.
Helps when: a container's quota is smaller than the machine, so that torch starts too many
    threads: one spinning thread too many has cost 30x on two cores.
Does not help when: the count is right already, or the work is on a GPU.
Numbers: rounding; another count splits sums in other places.
Measured: 2 threads against 1 on two cores that other processes used as well: cannot be told,
    1.17 of the step time, quartiles 1.02-1.39 (n 12 pairs of steps; char-lm's default model, AMD
    EPYC, torch 2.13; benchmarks/techniques.py).
Source: https://docs.pytorch.org/docs/stable/notes/cpu_threading_torchscript_inference.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import many
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import TechniqueTarget

__all__ = ["TECHNIQUE", "counts"]

ID = "threads"


def counts(cores: float | None) -> list[int]:
    """Return the numbers of threads worth trying: one, half of the cores, and all of them.

    Small operators may be fastest on one thread, which waits for no other.
    """
    most = max(1, int(cores or 1))
    return sorted({1, max(1, most // 2), most})


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse a count above the number of cores, and a missing count if the cores are unknown."""
    count = (plan.choice(ID) or {}).get("count", 0)
    if hardware.cores is None:
        return None if count else "the cores of this machine are unknown: name a count"
    if isinstance(count, int) and count > max(1, int(hardware.cores)):
        return f"{count} threads on {many(hardware.cores, 'core')} would fight for them"
    return None


def apply(session: TechniqueTarget, *, count: int = 0) -> int:
    """Set the thread count; return 0 if it was right already, else 1."""
    import torch

    before = torch.get_num_threads()
    want = count or min(before, max(1, int(session.hardware.cores or 1)))
    if want == before:
        return 0
    torch.set_num_threads(want)
    session.facts[ID] = want
    session.undo[ID] = lambda: torch.set_num_threads(before)
    return 1


def read_back(session: TechniqueTarget) -> str | None:
    """Read torch's thread count; None if it was not set or has changed since."""
    import torch

    if ID not in session.undo or torch.get_num_threads() != session.facts[ID]:
        return None
    return f"{torch.get_num_threads()} compute threads"


TECHNIQUE = Technique(
    id=ID,
    title="Compute threads",
    stage=Stage.PROCESS,
    numerics=Numerics.ROUNDING,
    tolerance=3e-6,  # measured 1.5e-7
    cosine=1 - 1e-10,  # measured 1 - 2e-13
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    choices={"count": (0, 1, 2, 4, 8, 16)},
    nothing="torch uses the right count already",
)
