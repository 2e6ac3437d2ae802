"""How the ranks of a group find each other in a store that groups before them have used.

torchrun keeps one store from start to end, with all that was said in it before a restart (torch
2.13, DynamicRendezvousHandler.next_rendezvous), and its restart count is each machine's own and
does not count machines that join: neither tells one group from the next. So each rank calls with a
name that nobody had before, and rank 0 answers to that name with the number of the group.
"""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import torch.distributed as dist

from hotloop.core.errors import LostRankError

if TYPE_CHECKING:
    from hotloop.core.env import Environment

__all__ = ["JOIN", "alone", "job_of", "meet"]

_dist: Any = dist  # of which not all public names are typed

JOIN: Final = timedelta(minutes=10)  # until all have come: the last machine may still be starting
_LOOK: Final = 0.005  # seconds between looks into the store


def alone(env: Environment) -> tuple[bool, str]:
    """Return (whether the only rank goes on for a group before it, the job of both).

    It leaves word for a group after it: an elastic group may shrink to one rank, and grow from one.
    """
    store, rank, world = next(_dist.rendezvous("env://", timeout=JOIN))
    return meet(store, rank=rank, world=world) > 1 or env.restarts > 0, job_of(store)


def job_of(store: Any) -> str:
    """Return a name that all groups of a store have in common, and no group of another one has."""
    name: str = store.compare_set("job", "", uuid.uuid4().hex).decode()
    return name


def meet(store: Any, *, rank: int, world: int, patience: timedelta = JOIN) -> int:
    """Return how many groups have met in a store, this one counted; the same on every rank.

    Raises LostRankError on rank 0 when others do not come, DistError on them when it does not.
    """
    if rank:
        name = uuid.uuid4().hex
        store.set(f"call/{rank}", name)
        store.wait([f"answer/{name}"], patience)
        number = int(store.get(f"answer/{name}"))
        store.set(f"heard/{number}/{rank}", "")
        return number
    number = int(store.add("groups", 1))
    end = time.monotonic() + patience.total_seconds()
    away = set(range(1, world))
    while away:
        for each in sorted(away):
            if store.check([f"call/{each}"]):
                name = store.get(f"call/{each}").decode()  # of a rank before, until this one calls
                store.set(f"answer/{name}", str(number))
        away = {each for each in away if not store.check([f"heard/{number}/{each}"])}
        if away and time.monotonic() > end:
            seconds = patience.total_seconds()
            raise LostRankError(
                f"ranks {sorted(away)} of {world} did not come in {seconds:.0f} s: are all "
                "machines started, and do they see each other's ports?"
            )
        time.sleep(_LOOK)
    return number
