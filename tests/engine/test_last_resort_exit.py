"""A rank that cannot heed a signal ends by itself; one that can is left alone."""

import signal
import subprocess
import sys
import time

from hotloop.engine.signals import Signals, leaving_in_time
from hotloop.session.ranks import SINGLE_PROCESS

STUCK = """
import ctypes, signal, sys
from types import SimpleNamespace
from hotloop.engine.signals import Signals, leaving_in_time
signals, ranks = Signals(), SimpleNamespace(world=2)
with signals.installed(), leaving_in_time(ranks, signals, seconds=0.3):
    print("ready", flush=True)
    if sys.argv[1] == "stuck":  # in C, without the lock, as a wait for another rank
        wait = ctypes.CDLL(None).sleep
        wait(60) and wait(60)  # the first one ends with the signal
    else:
        while signals.received is None:
            pass
print("left by itself", flush=True)
"""


def run(how):
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, how], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    return process.returncode, time.monotonic() - began, said


def test_one_that_waits_in_c_is_ended():
    code, seconds, said = run("stuck")
    assert (code, said) == (128 + signal.SIGTERM, "")
    assert seconds < 10


def test_one_that_heeds_it_ends_as_it_likes():
    code, _, said = run("heeds")
    assert (code, said) == (0, "left by itself\n")


def test_a_process_alone_is_not_watched():
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with leaving_in_time(SINGLE_PROCESS, Signals()):
        inside = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(inside)
    assert inside == before
