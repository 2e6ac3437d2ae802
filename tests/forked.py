"""Not a test: trials as forks of one process, which has imported torch and hotloop already.

A trial of its own takes seconds to import torch, a fork takes milliseconds. It runs the same code;
`Forked` has the methods of `TrialProcess` that a race needs.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from tests.paths import ROOT

from hotloop.tuning.trial_process import TrialEnded, TrialReport

__all__ = ["RECIPE_TRIAL", "Forked", "Forks"]

# What a trial of a recipe imports.
RECIPE_TRIAL = ("hotloop.tuning.recipe_trial", "hotloop.jobs.run", "hotloop.jobs.first_steps")


class Forks:
    """The process that forks and has imported `modules`. To be used in a `with`."""

    def __init__(self, *modules: str) -> None:
        self.modules = modules

    def __enter__(self):
        self.door, theirs = socket.socketpair()
        with theirs:
            argv = (sys.executable, "-m", "tests.forked", str(theirs.fileno()))
            how = {"cwd": ROOT, "pass_fds": (theirs.fileno(),), "stdin": subprocess.PIPE}
            self._process = subprocess.Popen(argv, **how)
        with self._process.stdin as names:  # not in its command, by which tests look for trials
            names.write(" ".join(self.modules).encode())
        return self

    def __exit__(self, *error):
        self.door.close()
        self._process.wait()

    def start(self, command: Sequence[str], *, cwd: Path = ROOT, module: str) -> "Forked":
        """Return a trial that runs already; `module` is the one whose `main` it calls.

        `command` is one of script_trial or recipe_trial; its channel is replaced.
        """
        ours, theirs = socket.socketpair()
        said = json.dumps({"module": module, "argv": command[3:], "cwd": str(cwd)}).encode()
        with theirs:
            socket.send_fds(self.door, [said], [theirs.fileno()])
        return Forked(ours)


class Forked:
    """One trial."""

    peak_bytes = 1

    def __init__(self, line: socket.socket) -> None:
        self._socket, self._lines = line, line.makefile("r")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """Let it end: at its next rest it finds nobody."""
        self._lines.close()
        self._socket.close()

    def first(self, *, seconds: float) -> TrialReport:
        self._socket.settimeout(seconds)
        line = self._lines.readline()
        if not line:
            raise TrialEnded("failed", "it ended before it had made its steps")
        said = json.loads(line)
        if "over" in said:
            raise TrialEnded(said["outcome"], said["over"], at=said["at"])
        parts = {name: said.pop(name) for name in ("seconds", "made", "at")}
        return TrialReport(**parts, more=said)

    has_workers = False

    def keep_memory(self) -> None:
        """Do nothing: it is about speed."""

    def block(self, steps: int, *, seconds: float) -> TrialReport:
        self._socket.sendall(json.dumps({"steps": steps}).encode() + b"\n")
        return self.first(seconds=seconds)


def _child(said: dict, channel: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    os.chdir(said["cwd"])
    asked = {**json.loads(said["argv"][0]), "channel": channel}
    try:
        import_module(said["module"]).main([json.dumps(asked), *said["argv"][1:]])
    finally:
        os._exit(1)


def _serve(door: socket.socket, *modules: str) -> None:
    import_module("torch._dynamo")
    for name in modules:
        import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        said, files, *_ = socket.recv_fds(door, 1 << 16, 1)
        if not said:
            os._exit(0)  # torch takes seconds to leave
        if os.fork() == 0:
            door.close()
            _child(json.loads(said), files[0])
        os.close(files[0])


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), *sys.stdin.read().split())
