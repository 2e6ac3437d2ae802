"""A run whose terminal closes, or whose log nobody takes any more: no completed step is lost."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.preloaded import Preloaded

from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import listing

STEPS = 1500
MOMENTS = 20  # of a campaign
LOOP = "while True: pass"
# Become the leader of a session with this terminal, as a shell of ssh is, and then the command.
LEAD = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(2, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'hotloop', *sys.argv[1:]])"
)


def command(out: Path, tiny: list[str]) -> list[str]:
    kept = [word for word in tiny if "steps" not in word and "epochs" not in word]
    return [
        "train", "--out", str(out), "char-lm", *kept,
        f"training.max_steps={STEPS}", "training.save_every_steps=400",
        "training.eval_every_steps=500",
    ]  # fmt: skip


@contextmanager
def others(count: int) -> Iterator[None]:
    busy = [subprocess.Popen([sys.executable, "-c", LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def wait_for_step(out: Path, step: int) -> None:
    """Wait until a step stands in the log."""
    until = time.monotonic() + 120
    log = out / "events-r0.jsonl"
    while not (log.exists() and logged(log) >= step):
        assert time.monotonic() < until, f"step {step} was not made"
        time.sleep(0.01)


def logged(log: Path) -> int:
    lines = log.read_text().splitlines()
    steps = [json.loads(line).get("step", 0) for line in lines if line.endswith("}")]
    return max(steps, default=0)


def saved(out: Path) -> int:
    return listing(out / "checkpoints")[-1].step


def close_terminal(out: Path, tiny: list[str], at: int, _: Preloaded) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", LEAD, *command(out, tiny)], stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    drained = draining(master)
    wait_for_step(out, at)
    next(drained)
    os.close(master)
    assert process.wait(60) == 128 + signal.SIGHUP
    record = RunDir.open(out).read()
    assert (record["status"], record["reason"]) == ("stopped", "signal")
    assert saved(out) >= logged(out / "events-r0.jsonl") >= at
    assert saved(out) < STEPS


def draining(master: int) -> Iterator[None]:
    """Read what a terminal shows in a thread of its own, until it is closed."""
    import threading

    def read() -> None:
        while True:
            try:
                os.read(master, 1 << 16)
            except OSError:
                return

    threading.Thread(target=read, daemon=True).start()
    while True:
        yield


def end_log_reader(out: Path, tiny: list[str], at: int, preloaded: Preloaded) -> None:
    (stdout, to_stdout), (stderr, to_stderr) = os.pipe(), os.pipe()
    with open(os.devnull, "rb") as null:
        streams = (null.fileno(), to_stdout, to_stderr)
        process = preloaded.start(*command(out, tiny), "-v", streams=streams)
    os.close(to_stdout)
    os.close(to_stderr)
    with open(stderr, "rb") as said:
        said.readline()
        wait_for_step(out, at)
    os.close(stdout)
    assert process.wait(120) == 0
    assert RunDir.open(out).read()["status"] == "complete"
    assert saved(out) == STEPS


ENDS = {"terminal": close_terminal, "reader": end_log_reader}


@pytest.mark.parametrize("how", ENDS)
def test_a_run_outlives_its_console(how, tiny, tmp_path, preloaded):
    ENDS[how](tmp_path / "run", tiny, 30, preloaded)


@pytest.mark.slow
@pytest.mark.parametrize("busy", [0, 4])
@pytest.mark.parametrize("how", ENDS)
def test_a_run_outlives_its_console_at_any_moment(how, busy, tiny, tmp_path, preloaded):
    draw = random.Random(f"{how} {busy}")
    with others(busy):
        for moment in range(MOMENTS):
            ENDS[how](tmp_path / f"run-{moment}", tiny, draw.randrange(1, STEPS // 3), preloaded)
            print(f"{how}, {busy} others: {moment + 1} of {MOMENTS}")


@pytest.mark.parametrize("stderr", ["full disk", "closed"])
def test_a_run_whose_log_cannot_be_written_completes(stderr, tiny, tmp_path, preloaded):
    words = command(tmp_path / "run", tiny)
    words[words.index(f"training.max_steps={STEPS}")] = "training.max_steps=40"
    if stderr == "closed":
        line = f'"{sys.executable}" -m hotloop "$@" 2>&-'
        ended = subprocess.run(["bash", "-c", line, "bash", *words], check=False, timeout=120)
        assert ended.returncode == 0
    else:
        with open(os.devnull, "r+b") as null, open("/dev/full", "wb", buffering=0) as full:
            streams = (null.fileno(), null.fileno(), full.fileno())
            assert preloaded.start(*words, streams=streams).wait(120) == 0
    assert saved(tmp_path / "run") == 40


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no SIGUSR1 here")
def test_sigusr1_saves_and_the_run_goes_on(tiny, tmp_path, preloaded):
    out = tmp_path / "run"
    process = preloaded.start(*command(out, tiny))
    wait_for_step(out, 20)
    process.send_signal(signal.SIGUSR1)
    until = time.monotonic() + 60
    while saved(out) < 20:  # the first periodic one comes at step 400
        assert time.monotonic() < until
        time.sleep(0.01)
    between = saved(out)
    assert process.wait(120) == 0
    assert saved(out) == STEPS
    assert between % 400
