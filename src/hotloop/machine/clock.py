"""The clock that times everything; the loop receives it and reads no other."""

import time

import psutil

__all__ = ["clock", "process_began"]

clock = time.perf_counter


def process_began() -> float:
    """Return the start of this process on the scale of `clock`: imports count as wall time."""
    return clock() - max(0.0, time.time() - float(psutil.Process().create_time()))
