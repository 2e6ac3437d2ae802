import sys
import time

import pytest

from hotloop.bench.trial_listener import GpuWatch, TrialListener

# A trial that says what it is asked for: 1 s of CPU time a step.
CODE = """
import json, socket, sys
line = socket.socket(fileno=int(sys.argv[1]))
lines, at, made = line.makefile("r"), 0, 1
while True:
    at += made
    said = {"seconds": 2.0 * made, "made": made, "at": at, "pid": 1, "cpu": 1.0 * at}
    line.sendall(json.dumps(said).encode() + b"\\n")
    made = json.loads(lines.readline())["steps"]
"""


def heard(watch=None) -> TrialListener:
    return TrialListener(
        lambda channel: [sys.executable, "-I", "-S", "-c", CODE, str(channel)], watch=watch
    )


def test_how_busy_it_was_is_of_the_timed_blocks():
    with heard() as trial:
        trial.first(seconds=20)
        trial.block(5, seconds=20)
        trial.block(5, seconds=20)
        assert trial.busy_cores is None, "these warm it up"
        trial.block(4, seconds=20)
        assert trial.busy_cores == pytest.approx(0.5)
        assert trial.message["cpu"] == 15
        assert trial.gpu == {}


def test_a_gpu_is_watched_while_a_timed_block_runs():
    readings = iter([{"gpu_utilisation": 0.2, "gpu_temperature_c": 60.0}] * 10_000)
    watch = GpuWatch(lambda: next(readings), every=0.001)
    with heard(watch) as trial:
        trial.first(seconds=20)
        trial.block(10, seconds=20)
        assert watch.seen == []
        with watch:
            time.sleep(0.1)
        trial.block(3, seconds=20)
        seen = len(watch.seen)
        time.sleep(0.02)
        assert len(watch.seen) == seen, "it rests with the trial"
        assert trial.gpu == {"gpu_util": pytest.approx(0.2), "temperature_c": 60.0}


class NoDriver:
    class NVMLError(Exception):
        pass

    def nvmlInit(self):  # noqa: N802 - NVML's name
        raise self.NVMLError


def test_without_a_driver_it_says_so():
    assert GpuWatch.of("a uuid", NoDriver()) == "the driver does not show this GPU to NVML"
