"""Not a test: trials of scripts as forks of one process, which has imported torch already.

A trial of its own takes seconds to import torch, a fork takes milliseconds. It runs the same code;
`Forked` has the methods of `Live` that a race needs.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

from hotloop.core.plan import Plan
from hotloop.tuning.script_trial import command
from hotloop.tuning.trial_process import TrialEnded, TrialReport

__all__ = ["Forked", "Forks"]


class Forks:
    """The process that forks. To be used in a `with`."""

    def __enter__(self):
        self.door, theirs = socket.socketpair()
        with theirs:
            argv = (sys.executable, "-m", "tests.forked", str(theirs.fileno()))
            self._process = subprocess.Popen(argv, cwd=ROOT, pass_fds=(theirs.fileno(),))
        return self

    def __exit__(self, *error):
        self.door.close()
        self._process.wait()

    def start(self, plan: Plan, *script: str, cwd: Path, module: str) -> "Forked":
        """Return a trial that runs already; `module` is the one whose `main` it calls."""
        ours, theirs = socket.socketpair()
        asked = command(0, plan, script, module=module)[3:]
        said = json.dumps({"module": module, "argv": asked, "cwd": str(cwd)}).encode()
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
        importlib.import_module(said["module"]).main([json.dumps(asked), *said["argv"][1:]])
    finally:
        os._exit(1)


def _serve(door: socket.socket) -> None:
    import torch._dynamo

    assert torch
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
    _serve(socket.socket(fileno=int(sys.argv[1])))
