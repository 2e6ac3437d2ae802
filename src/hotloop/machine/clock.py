"""The clock everything is timed with, handed to the loop so that nothing else reads one."""

import time

import psutil

__all__ = ["clock", "process_began"]

clock = time.perf_counter


def process_began() -> float:
    """Return when this process started, on the scale of `clock`: imports count as wall time."""
    return clock() - max(0.0, time.time() - float(psutil.Process().create_time()))
