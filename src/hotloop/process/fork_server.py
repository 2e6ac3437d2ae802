"""Starts child processes as forks of one process that has imported PyTorch already.

To import PyTorch takes seconds of each process, a fork milliseconds. The server forks a supervisor,
which forks the child: both do what child.py and supervisor.py say, so limits, the tree and its end
are the same. A child whose script is not served by what was imported (see process/preload.py)
becomes a fresh process in place. Only on Linux.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Final, NoReturn

from hotloop.core.env import replace_environment
from hotloop.process import run_script, supervisor
from hotloop.process.preload import Preload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["ForkServer", "ForkedSupervisor", "main"]

_TICK: Final = 0.25  # seconds between two looks at the parent and at what has ended
_IMPORTS: Final = 120.0  # seconds for the imports, at most
_END: Final = 5.0  # seconds that the supervisors have to end their trees
_HIGH: Final = 200  # descriptors of the supervisor's pipes begin here, apart from 0, 1 and 2
_LINE: Final = 1 << 20  # bytes of a request, at most
_READY: Final = b"ready\n"


class ForkedSupervisor:
    """A supervisor that the server forked, with the part of Popen's interface that is needed."""

    def __init__(self, stdin: int, stdout: int) -> None:
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")

    def wait(self) -> None:
        """Do nothing: the server waits for it, and its output is at its end when it has ended."""


class ForkServer:
    """The server; to be closed. It imports in the background."""

    def __init__(
        self,
        modules: Sequence[str],
        environment: Mapping[str, str],
        *,
        cwd: str | Path | None = None,
    ) -> None:
        """Start it with the whole `environment` of its children, and their folder."""
        self._environment, self._cwd = dict(environment), _folder(cwd)
        self._door, theirs = socket.socketpair()
        request = json.dumps({"door": theirs.fileno(), "modules": list(modules)})
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", run_script.starter(__name__), request],
                env=self._environment,
                cwd=self._cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(theirs.fileno(),),
            )
        self._is_ready: bool | None = None

    def close(self) -> None:
        """End the server; its children end with it."""
        self._door.close()
        self._process.wait()

    def supervisor(
        self, spec: Mapping[str, Any], ignored: Callable[[str, str], bool]
    ) -> ForkedSupervisor | None:
        """Return a supervisor for the child of `spec`, or None if the server cannot start it.

        `ignored` tells, by name and value, which variables may differ from the server's.
        """
        if not self._serves(spec, ignored):
            return None
        out, theirs_in = os.pipe()[::-1]
        theirs_out, back = os.pipe()[::-1]
        files = [theirs_in, theirs_out, *([spec["channel"]] if spec["channel"] is not None else [])]
        try:
            socket.send_fds(self._door, [b"fork\n"], files)
        except OSError:  # it is gone
            for file in (out, back):
                os.close(file)
            self._is_ready = False
            return None
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        return ForkedSupervisor(out, back)

    def _serves(self, spec: Mapping[str, Any], ignored: Callable[[str, str], bool]) -> bool:
        def fixed(variables: Mapping[str, str]) -> dict[str, str]:
            return {key: value for key, value in variables.items() if not ignored(key, value)}

        is_python = spec["command"][:2] == [sys.executable, "-c"]
        return (
            is_python
            and fixed(spec["environment"]) == fixed(self._environment)
            and _folder(spec["cwd"]) == self._cwd  # entries of PYTHONPATH may be relative to it
            and self._has_imported()
        )

    def _has_imported(self) -> bool:
        if self._is_ready is None:
            self._door.settimeout(_IMPORTS)
            try:
                self._is_ready = self._door.recv(len(_READY)) == _READY
            except OSError:
                self._is_ready = False
            self._door.settimeout(None)
        return self._is_ready


def _folder(cwd: str | Path | None) -> str:
    return os.path.abspath(os.getcwd() if cwd is None else cwd)


def main(argv: list[str]) -> None:
    """Import, then fork until the parent is gone. Returns only in a child, after its program."""
    asked = json.loads(argv[0])
    door = socket.socket(fileno=asked["door"])
    first = [] if sys.flags.safe_path else [sys.path.pop(0)]  # the folder of `python -c`
    preload = Preload(asked["modules"])
    sys.path[:0] = first
    with contextlib.suppress(OSError):
        door.sendall(_READY)
    child = _serve(door, preload)
    if child is None:
        os._exit(0)  # torch takes a second to leave
    child()


def _serve(door: socket.socket, preload: Preload) -> Callable[[], None] | None:
    """Fork supervisors; return None once the parent is gone, and in a child what it has to do."""
    parent, server = os.getppid(), os.getpid()
    supervisors, fresh = set[int](), list[bool]()
    signal.signal(signal.SIGUSR1, lambda *_: fresh.append(True))
    supervisor.adopt_orphans()
    while os.getppid() == parent:
        _reap(supervisors)
        if not select.select([door], [], [], _TICK)[0]:
            continue
        line, files, *_ = socket.recv_fds(door, _LINE, 3)
        if not line:
            break
        if pid := os.fork():
            supervisors.add(pid)
            for file in files:
                os.close(file)
            continue
        door.close()
        return _supervise(files, preload, server, is_fresh=bool(fresh))
    # What they used counts as used by this process, and so by its parent, once they are reaped.
    deadline = time.monotonic() + _END
    while supervisors and time.monotonic() < deadline:
        _reap(supervisors)
        time.sleep(0.01)
    return None


def _reap(supervisors: set[int]) -> None:
    """Collect the supervisors that have ended; kill what is left of the tree of one that died."""
    with contextlib.suppress(ChildProcessError):
        while pid := os.waitpid(-1, os.WNOHANG)[0]:
            supervisors.discard(pid)
    for pid in set(supervisor.children_of(os.getpid())) - supervisors:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _supervise(
    files: list[int], preload: Preload, server: int, *, is_fresh: bool
) -> Callable[[], None]:
    """Become a supervisor, which does not return; return only in its child."""
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.setsid()
    high = [fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, _HIGH) for file in files]
    for file in files:
        os.close(file)
    for number, file in enumerate(high[:2]):
        os.dup2(file, number)
        os.close(file)
    child: list[_Child] = []

    def start(spec: dict[str, Any], scratch: str, prctl: Any) -> supervisor.Supervised:
        child[0].tell(scratch)
        return child[0]

    # The child is forked before anything has an end that it must not bring about, such as that of
    # the scratch folder.
    with open(0, "rb", buffering=0, closefd=False) as stream:
        line = stream.readline()
    if not line:
        os._exit(0)
    spec = json.loads(line)
    forked = _Child.fork(spec, high[2:])
    if isinstance(forked, str):
        return lambda: _run(spec, forked, preload, server, is_fresh=is_fresh)
    child.append(forked)
    supervisor.main(line=line, start=start)
    os._exit(0)


class _Child:
    """A forked child, with the part of Popen's interface that the supervisor uses."""

    def __init__(self, pid: int, go: int, stdout: int, stderr: int) -> None:
        self.pid, self._go = pid, go
        self.stdout, self.stderr = os.fdopen(stdout, "rb"), os.fdopen(stderr, "rb")
        self.returncode: int | None = None

    @classmethod
    def fork(cls, spec: Mapping[str, Any], channel: Sequence[int]) -> _Child | str:
        """Fork; return the scratch folder in the child, as soon as there is one."""
        waits, go = os.pipe()
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        above = os.getpid()
        pid = os.fork()
        if pid:
            for file in (waits, theirs_out, theirs_err, *channel):
                os.close(file)
            return cls(pid, go, out, err)
        supervisor.die_with_parent()
        if os.getppid() != above:
            os._exit(1)
        for file in (go, out, err):
            os.close(file)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number, file in enumerate((null, theirs_out, theirs_err)):
            os.dup2(file, number)
            os.close(file)
        with os.fdopen(waits, "rb") as stream:
            scratch = stream.read().decode()
        if not scratch:
            os._exit(1)
        for file in channel:
            if file != spec["channel"]:
                os.dup2(file, spec["channel"])
                os.close(file)
            os.set_inheritable(spec["channel"], True)
        return scratch

    def tell(self, scratch: str) -> None:
        """Let it begin."""
        with os.fdopen(self._go, "wb") as stream:
            stream.write(scratch.encode())

    def wait(self, timeout: float) -> int:
        """Wait for its end as Popen does. Raises TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
            elif time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("a fork", timeout)
            else:
                time.sleep(min(0.01, timeout))
        return self.returncode


def _run(
    spec: Mapping[str, Any], scratch: str, preload: Preload, server: int, *, is_fresh: bool
) -> None:
    """Run the command of a child as a new interpreter would."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as the supervisor's children inherit it
    command, environment = supervisor.in_scratch(spec, scratch)
    folder = os.getcwd()  # that of the child as well

    def anew() -> NoReturn:
        os.kill(server, signal.SIGUSR1)  # the next ones need not try
        os.chdir(folder)
        os.execve(command[0], command, environment)

    if is_fresh:
        os.execve(command[0], command, environment)
    replace_environment(environment)
    preload.arm(anew)
    sys.argv, sys.orig_argv = ["-c", *command[3:]], command
    exec(compile(command[2], "<string>", "exec"), {"__name__": "__main__"})
