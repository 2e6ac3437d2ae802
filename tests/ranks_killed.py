"""Not a test: hotloop on a rank that kills itself at a place and step that the environment names.

HOTLOOP_FAULT is "rank:place:count": at the count-th call on that rank, SIGKILL. Places: forward
(within a window), exchange (of gradients), agree (on the next step), save (a file of a checkpoint
is written), commit (all are, and the folder has no name yet). "stop" is SIGTERM within a window;
at "read" the rank lives on, with an error of the system as it reads a window.
"""

import errno
import os
import signal
import sys

from hotloop.cli.main import main
from hotloop.core.env import ENV


def deadly(function, count, number=signal.SIGKILL):
    """Return a function that kills its process at its count-th call."""
    calls = iter(range(1, 1 << 30))

    def call(*args, **more):
        if next(calls) == count:
            os.kill(os.getpid(), number)
        return function(*args, **more)

    return call


def unreadable(function, count):
    """Return a function that fails at its count-th call."""
    calls = iter(range(1, 1 << 30))

    def call(*args, **more):
        if next(calls) == count:
            raise OSError(errno.ESTALE, "Stale file handle")
        return function(*args, **more)

    return call


def cut_short(chunks, count):
    """Return what makes a file of tensors; the count-th one ends its process half written."""
    calls = iter(range(1, 1 << 30))

    def cut(*tensors):
        is_last = next(calls) == count
        for chunk in chunks(*tensors):
            yield chunk
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

    return cut


def plant(place, count):
    from hotloop.distributed import ddp, fsdp, process_group
    from hotloop.engine import step
    from hotloop.engine.checkpoint import multi_rank_writer, state
    from hotloop.session import accumulation_windows

    if place == "read":
        accumulation_windows.batch_at = unreadable(accumulation_windows.batch_at, count)
    elif place == "stop":
        step.to_device = deadly(step.to_device, count, signal.SIGTERM)
    elif place == "forward":
        step.to_device = deadly(step.to_device, count)
    elif place == "exchange":
        ddp.allreduce_hook = deadly(ddp.allreduce_hook, count)
        fsdp._Timed.__call__ = deadly(fsdp._Timed.__call__, count)
    elif place == "agree":
        process_group.TorchProcessGroup.gather = deadly(
            process_group.TorchProcessGroup.gather, count
        )
    elif place == "save":
        state.tensor_chunks = cut_short(state.tensor_chunks, count)
    else:
        assert place == "commit", place
        multi_rank_writer.commit_folder = deadly(multi_rank_writer.commit_folder, count)


if __name__ == "__main__":
    if ENV.fault and not ENV.restarts:
        rank, place, count = ENV.fault.split(":")
        if int(rank) == ENV.rank:
            plant(place, int(count))
    sys.exit(main())
