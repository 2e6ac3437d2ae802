"""Starts the ranks of a trial, whose own process is rank 0.

torchrun would not pass on the socket to the parent. The other ranks make the same steps without a
gate, and wait in the gradient exchange while rank 0 rests.
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
    """Return the environment variables of rank 0 of `world` ranks, as torchrun would set them."""
    if world == 1:
        return {}
    threads = {} if named(["OMP_NUM_THREADS"]) else {"OMP_NUM_THREADS": "1"}  # as torchrun does
    several = {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    return {"RANK": "0", "LOCAL_RANK": "0", **several, **threads}


@contextmanager
def ranks_of(world: int) -> Iterator[ProcessGroup]:
    """Join the process group of this trial; rank 0 first starts the other ranks.

    With several ranks an error ends this process at once, with its message as the last line on
    stderr, as cleaning up would wait for the other ranks.
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
    with joined(ENV, on_gpus=torch.cuda.is_available(), store=store) as ranks:
        try:
            yield ranks
        except BaseException as error:  # noqa: BLE001 - it is printed, and this process ends
            print(_last_line(error, ranks, siblings), file=sys.stderr, flush=True)
            os._exit(1)


def _last_line(error: BaseException, ranks: ProcessGroup, siblings: Siblings | None) -> str:
    if siblings is not None and ranks.is_gone(error) and (how := siblings.how_ended()) is not None:
        return how
    if isinstance(error, HotloopError):
        return " ".join(str(error).split())
    return "".join(traceback.format_exception(error)).strip()
