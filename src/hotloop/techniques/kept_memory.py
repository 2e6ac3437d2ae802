"""Freed memory stays with the process.

What: tells glibc's malloc to map no block of its own and to give no freed memory back, so that
    the next step finds its memory mapped. `MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1` does the
    same for a process that starts, and its workers.
    Recipes on a CPU use it by themselves.
Helps when: steps on the CPU allocate and free large tensors (images, long sequences): each block
    is mapped anew, and the kernel clears each page of it.
Does not help when: tensors are small, another allocator is loaded (jemalloc, tcmalloc), or memory
    is so short that other programs need what a step has freed.
Numbers: bitwise the same.
Measured: 0.55 of the CPU seconds of a step, quartiles 0.55-0.55 (n 8 pairs of processes, 44,323
    page faults a step before and 21 after; a convolutional net on 32 images of 64 x 64, one thread
    of an AMD EPYC, torch 2.13; benchmarks/kept_memory.py). 0.74 to 1.05 of the time of a step of
    the text recipes, median 0.86 (n 8 pairs of processes, 2 cores; docs/log.md, 2026-11-29).
Source: https://man7.org/linux/man-pages/man3/mallopt.3.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.machine.kept_memory import can_keep, give_back_memory, keep_memory
from hotloop.techniques.base import Numerics, Stage, Technique

if TYPE_CHECKING:
    from hotloop.core.hardware import Hardware
    from hotloop.core.plan import Plan
    from hotloop.session.session import TechniqueTarget

__all__ = ["ID", "TECHNIQUE"]

ID = "kept-memory"


def blocked(hardware: Hardware, plan: Plan) -> str | None:
    """Refuse systems whose C library is not glibc."""
    del hardware, plan
    return None if can_keep() else "this system's C library is not glibc"


def apply(session: TechniqueTarget) -> int:
    """Set glibc's thresholds; return 1, or 0 if it refuses them."""
    if not keep_memory():
        return 0
    session.undo[ID] = give_back_memory
    return 1


def read_back(session: TechniqueTarget) -> str | None:
    """Say that the thresholds are set; glibc cannot be asked for them."""
    return "freed memory is kept" if ID in session.undo else None


TECHNIQUE = Technique(
    id=ID,
    title="Keep freed memory",
    stage=Stage.PROCESS,
    numerics=Numerics.BITWISE,
    blocked=blocked,
    apply=apply,
    read_back=read_back,
    nothing="malloc refuses the thresholds",
)
