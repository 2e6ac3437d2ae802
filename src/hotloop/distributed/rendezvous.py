"""Let the ranks of a group find each other in a store that earlier groups have used.

torchrun keeps one store from start to end, with all entries from before a restart (torch 2.13,
DynamicRendezvousHandler.next_rendezvous). Its restart count is each machine's own and does not
count machines that join. So neither distinguishes one group from the next: each rank calls with a
name that is new, and rank 0 answers to that name with the number of the group.
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

_dist: Any = dist  # not all of its public names are typed

JOIN: Final = timedelta(minutes=10)  # for all ranks to join: a machine may still be starting
_LOOK: Final = 0.005  # seconds between looks into the store


def alone(env: Environment) -> tuple[bool, str]:
    """Return (whether this single rank continues an earlier group, the job of both groups).

    The rank also registers for later groups: an elastic group may shrink to one rank and grow
    again.
    """
    store, rank, world = next(_dist.rendezvous("env://", timeout=JOIN))
    return meet(store, rank=rank, world=world) > 1 or env.restarts > 0, job_of(store)


def job_of(store: Any) -> str:
    """Return a name that all groups of a store share and no group of another store has."""
    name: str = store.compare_set("job", "", uuid.uuid4().hex).decode()
    return name


def meet(store: Any, *, rank: int, world: int, patience: timedelta = JOIN) -> int:
    """Return how many groups have met in a store, with this one; the same on every rank.

    Raises LostRankError on rank 0 when other ranks do not come, DistError on those when rank 0 does
    not.
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
    missing = set(range(1, world))
    while missing:
        for other in sorted(missing):
            if store.check([f"call/{other}"]):
                name = store.get(f"call/{other}").decode()  # an earlier rank's until this one calls
                store.set(f"answer/{name}", str(number))
        missing = {other for other in missing if not store.check([f"heard/{number}/{other}"])}
        if missing and time.monotonic() > end:
            seconds = patience.total_seconds()
            raise LostRankError(
                f"ranks {sorted(missing)} of {world} did not come in {seconds:.0f} s: are all "
                "machines started, and do they see each other's ports?"
            )
        time.sleep(_LOOK)
    return number
