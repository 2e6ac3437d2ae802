"""The ranks of a trial: its own process is the first, and starts the others.

torchrun would not pass on the trial's line to its parent. The others make the same steps without a
gate, and wait in the exchange of a step while the first one rests.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotloop.core.env import ENV, named
from hotloop.core.errors import HotloopError
from hotloop.session.ranks import SINGLE_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.distributed.local_launcher import Siblings
    from hotloop.session.ranks import ProcessGroup

__all__ = ["environment", "ranks_of"]


def environment(world: int) -> dict[str, str]:
    """Return the variables of the first of so many ranks, as torchrun would set them."""
    if world == 1:
        return {}
    threads = {} if named(["OMP_NUM_THREADS"]) else {"OMP_NUM_THREADS": "1"}  # as torchrun does
    several = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    return {"RANK": "0", "LOCAL_RANK": "0", **several, **threads}


@contextmanager
def ranks_of(world: int) -> Iterator[ProcessGroup]:
    """Start the other ranks of this trial, or join the first one where this is another.

    An error of several ranks ends this process at once, with what is to be said of it as the last
    line on stderr: tidying up would wait for the others.
    """
    if world == 1:
        yield SINGLE_PROCESS
        return
    import torch

    from hotloop.distributed.local_launcher import Siblings, end_with_first
    from hotloop.distributed.process_group import hosted, joined

    assert ENV.world == world, "the parent sets the variables of `environment`"
    store, siblings = None, None
    if ENV.rank == 0:
        store = hosted()
        command = [sys.executable, *sys.orig_argv[1:]]
        siblings = Siblings(command, world=world, port=store.port)
    else:
        end_with_first()
    with joined(ENV, on_cards=torch.cuda.is_available(), store=store) as ranks:
        try:
            yield ranks
        except BaseException as error:  # noqa: BLE001 - it is told, and this process ends
            print(_said(error, ranks, siblings), file=sys.stderr, flush=True)
            os._exit(1)


def _said(error: BaseException, ranks: ProcessGroup, siblings: Siblings | None) -> str:
    if siblings is not None and ranks.is_gone(error) and (how := siblings.how_ended()) is not None:
        return how
    if isinstance(error, HotloopError):
        return " ".join(str(error).split())
    return "".join(traceback.format_exception(error)).strip()
