"""Runs hotloop train as several processes, gloo ranks on a CPU: torchrun's, or forks."""

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time

from hotloop.core.events import steps
from hotloop.core.storage.rundir import RunDir

WAIT = 120  # seconds until a group counts as hanging


def command(*args, ranks=2, torchrun=(), module="hotloop"):
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*run, f"--nproc-per-node={ranks}", *torchrun, "-m", module, *map(str, args)]


def environment(**more):
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    return {**os.environ, **own, **more}


def together(*args, ranks=2, torchrun=(), module="hotloop", code=0, **more):
    """Run a command of hotloop on several ranks; return what they said on stderr."""
    done = subprocess.run(
        command(*args, ranks=ranks, torchrun=torchrun, module=module),
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=WAIT,
        check=False,
    )
    assert (done.returncode == 0) == (code == 0), done.stderr[-4000:]
    return done.stderr


def forked(preloaded, *args, ranks=2):
    """Do what `together` does, with forks in the place of torchrun: they have torch already."""
    shared = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": _free_port()}
    group = []
    with tempfile.TemporaryFile("w+") as said, open(os.devnull, "r+b") as null:
        for rank in range(ranks):
            own = {**shared, "RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
            env = {**os.environ, **{name: str(value) for name, value in own.items()}}
            streams = (null.fileno(), null.fileno(), said.fileno())
            group.append(preloaded.start(*args, env=env, streams=streams))
        until = time.monotonic() + WAIT
        try:  # one that failed ends the others, as torchrun would
            while time.monotonic() < until and any(process.poll() is None for process in group):
                if any(process.poll() for process in group):
                    break
                time.sleep(0.02)
        finally:
            codes = [process.poll() for process in group]
            for process in group:
                process.kill()
        said.seek(0)
        assert codes == [0] * ranks, f"{codes}: {said.read()[-4000:]}"


def _free_port():
    """Return a port that no program is given by chance before the first rank takes it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 30_000)  # below Linux's range for clients
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def started(*args, ranks=2, torchrun=(), module="hotloop", **more):
    """Start a group and return torchrun's process."""
    return subprocess.Popen(
        command(*args, ranks=ranks, torchrun=torchrun, module=module),
        env=environment(**more),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def losses(folder, rank=0):
    return [step.loss for step in steps(RunDir(folder).events(rank))]


def evaluations(folder):
    return [event["loss"] for event in RunDir(folder).events() if event["kind"] == "eval"]


def apart(mine, theirs):
    """Return the largest relative difference of two series as long as each other."""
    assert len(mine) == len(theirs) > 0, (mine, theirs)
    return max(abs(a - b) / abs(b) for a, b in zip(mine, theirs, strict=True))


def ended(process, within=30.0):
    """Wait for a process; return (exit code, seconds, what it said). Fails where it hangs."""
    began = time.monotonic()
    try:
        _, said = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, time.monotonic() - began, said
