"""Supervises one child process: its limits, its tree, its end. Started by child.py.

It is a separate process, so that the tree is killed even if hotloop itself is killed. It imports
only the standard library and psutil, has its own session, and stops when its standard input closes
or its parent is gone. On Linux orphans of the tree become its children (PR_SET_CHILD_SUBREAPER), so
that no process can leave the tree. Elsewhere a process that is started and orphaned between two
looks can leave it; its process group is killed in any case.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "POLL",
    "SCRATCH",
    "TAIL",
    "PipeTail",
    "Supervised",
    "adopt_orphans",
    "children_of",
    "die_with_parent",
    "in_scratch",
    "is_tidier",
    "kill",
    "main",
    "memory_of",
]

SCRATCH: Final = "{hotloop:scratch}"  # in an argument or variable: a folder that is removed later
TAIL: Final = 16 * 1024  # bytes of stdout and of stderr that are kept
RESULT_BYTES: Final = 16 * 1024**2  # a longer result is refused
POLL: Final = 0.05  # seconds between two readings of memory: a fast allocation takes 0.2 GB in it
_DUTY: Final = 50  # readings take at most a 50th of the time, because the child is being timed
_SLOWEST: Final = 1.0  # seconds between two readings, at most
_TIDY: Final = 1.0  # seconds for processes that clean up by themselves
_TOLD: Final = 100  # pids in a beat, so that it stays under 4096 bytes
_NAMELESS: Final = 50  # attempts, 1 ms apart, to read a process's command line
_PATIENCE: Final = 10.0  # seconds until a process counts as one that cannot be killed
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_LINUX, _WINDOWS = sys.platform == "linux", sys.platform == "win32"
# They notice the end of their clients and then remove their semaphores and shared memory.
_TIDIERS = ("multiprocessing.resource_tracker", "torch_shm_manager")
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


class Supervised(Protocol):
    """A started child: what is used here of Popen."""

    pid: int
    stdout: Any
    stderr: Any
    returncode: Any

    def wait(self, timeout: float) -> int:
        """Wait for its end. Raises TimeoutExpired."""


def main(line: bytes | None = None, start: Callable[..., Supervised] | None = None) -> None:
    """Run the child that `line` describes, then report how it ended.

    Without `line` it is the first one of standard input. `start` is that of process/fork_server.py.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: stop.set())
    parent = os.getppid()
    if line is None:
        with open(0, "rb", buffering=0, closefd=False) as stream:
            line = stream.readline()
    if not line:
        return  # the parent died before it sent the request
    spec, prctl = json.loads(line), _prctl()
    adopt_orphans()
    with tempfile.TemporaryDirectory(
        prefix="hotloop-child-", ignore_cleanup_errors=True
    ) as scratch:
        try:
            child = (start or _start)(spec, scratch, prctl)
        except OSError as error:
            _say({"end": {"unknown": f"it could not be started: {error}"}})
        else:
            threading.Thread(target=_listen, args=(stop, parent), daemon=True).start()
            _say({"scratch": scratch})
            _say({"end": _Watch(spec, child).until_over(stop) | _result(Path(scratch))})
    os._exit(0)  # threads may be blocked in reads for ever


def kill(processes: Iterable[psutil.Process]) -> None:
    """Kill processes with a signal that they cannot ignore; skip those that are gone."""
    for process in processes:
        with contextlib.suppress(*_GONE):
            process.kill()


def _say(line: dict[str, Any]) -> None:
    """Send a line to the parent; `_listen` notices if the parent has died."""
    with contextlib.suppress(OSError), open(1, "wb", closefd=False) as stream:
        stream.write(json.dumps(line).encode() + b"\n")


def _beat(line: dict[str, Any]) -> None:
    """Send a line to the parent without waiting: a stopped parent must not stop this process."""
    if _WINDOWS:
        return _say(line)
    os.set_blocking(1, False)
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(line).encode() + b"\n")  # whole or not at all, under 4096 bytes
    return os.set_blocking(1, True)


def _listen(stop: threading.Event, parent: int) -> None:
    """Wait until the parent closes this standard input or dies."""
    if not _WINDOWS:
        threading.Thread(target=_until_orphaned, args=(stop, parent), daemon=True).start()
    with contextlib.suppress(OSError):
        os.read(0, 1)
    stop.set()


def _until_orphaned(stop: threading.Event, parent: int) -> None:
    """Wait for the parent's end, because a process that it forked may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(_SLOWEST / 4)
    stop.set()


def _prctl() -> Callable[[int, int], object] | None:
    if not _LINUX:
        return None
    import ctypes

    function = ctypes.CDLL(None).prctl
    return lambda option, value: function(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3)


def die_with_parent() -> None:
    """Have the kernel kill this process, even if stopped, when its parent dies.

    Only on Linux; elsewhere it does nothing.
    """
    if prctl := _prctl():
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def adopt_orphans() -> None:
    """Have orphans among the descendants of this process become its children (Linux)."""
    if prctl := _prctl():
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _start(
    spec: dict[str, Any], scratch: str, prctl: Callable[[int, int], object] | None
) -> subprocess.Popen[bytes]:
    # A preexec_fn is safe, because no thread runs yet.
    command, environment = in_scratch(spec, scratch)
    return subprocess.Popen(
        command,
        cwd=spec["cwd"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=() if spec.get("channel") is None else (spec["channel"],),
        preexec_fn=(lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)) if prctl else None,
    )


def in_scratch(spec: Mapping[str, Any], scratch: str) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment of a child with its scratch folder in them."""
    command = [part.replace(SCRATCH, scratch) for part in spec["command"]]
    variables = spec["environment"].items()
    return command, {key: value.replace(SCRATCH, scratch) for key, value in variables}


class PipeTail(threading.Thread):
    """Drains a pipe, hands each chunk to `then` and keeps the last TAIL bytes."""

    def __init__(self, pipe: Any, *, then: Callable[[bytes], object] = lambda _: None) -> None:
        super().__init__(daemon=True)
        self.seen, self._tail = 0, b""
        self._pipe, self._then = pipe, then
        self.start()

    def run(self) -> None:
        """Read until the pipe is closed."""
        while chunk := os.read(self._pipe.fileno(), 1 << 16):
            self._tail = (self._tail + chunk)[-TAIL:]
            self.seen += len(chunk)
            self._then(chunk)

    @property
    def text(self) -> str:
        """Return what was kept."""
        return self._tail.decode(errors="replace")


class _Tree:
    """All that descends from this process."""

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._members: dict[int, psutil.Process] = {}
        self._next_look = 0.0

    @property
    def pids(self) -> list[tuple[int, float]]:
        """Return (pid, start time) of the members at the last look, at most _TOLD of them."""
        members = list(self._members.items())[:_TOLD]
        return [(pid, process.create_time()) for pid, process in members]

    def __len__(self) -> int:
        return len(self._members)

    def look(self) -> list[psutil.Process]:
        """Find all living members. Orphans are known from earlier looks."""
        members = {**self._members, **{p.pid: p for p in _below(self._me)}}
        if not _LINUX:  # orphans are no longer descendants; they may have children
            for process in self._members.values():
                members |= {p.pid: p for p in _below(process)}
        self._members = {pid: process for pid, process in members.items() if _lives(process)}
        return list(self._members.values())

    def rss(self, now: float) -> int:
        """Return the sum of resident memory in bytes; look for new members from time to time."""
        if now >= self._next_look:
            started = time.monotonic()
            self.look()
            self._next_look = now + _pause(time.monotonic() - started)
        return sum(memory_of(process, "rss") for process in self._members.values())

    def pss(self) -> int | None:
        """Return the memory in bytes with shared pages counted once; None if unknown."""
        return sum(memory_of(p, "pss") for p in self._members.values()) if _LINUX else None

    def end(self, group: int) -> list[int]:
        """Kill all members; return the pids of the survivors."""
        started = time.monotonic()
        while living := self.look():
            elapsed = time.monotonic() - started
            if elapsed > _PATIENCE:
                return [process.pid for process in living]
            kill(p for p in living if elapsed > _TIDY or not is_tidier(p))
            time.sleep(0.01)
        if not _WINDOWS:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        return []


def _below(process: psutil.Process) -> list[psutil.Process]:
    """Return the descendants of a process.

    Reading the kernel's lists takes 0.7 ms of CPU time for a tree of 4 with 15 threads; psutil,
    which reads all processes of the machine, takes 4.4 ms with 93 of them (medians of 50, AMD
    EPYC).
    """
    descendants: list[psutil.Process] = []
    with contextlib.suppress(*_GONE):
        if not os.path.exists(f"/proc/{process.pid}/task/{process.pid}/children"):
            return list(process.children(recursive=True))  # needs CONFIG_PROC_CHILDREN: proc(5)
        waiting = [process.pid]
        for pid in waiting:
            waiting += (children := children_of(pid))
            for child in children:
                with contextlib.suppress(psutil.NoSuchProcess):
                    descendants.append(psutil.Process(child))
    return descendants


def children_of(pid: int) -> list[int]:
    """Return the children of all threads of a process (Linux)."""
    pids: list[int] = []
    with contextlib.suppress(OSError):  # it has ended meanwhile
        for thread in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii")
            pids += map(int, text.split())
    return pids


def _lives(process: psutil.Process) -> bool:
    try:
        ended = process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        return process.is_running() and not ended  # False if another process has the pid
    except psutil.AccessDenied:
        return True
    except psutil.NoSuchProcess:
        return False


def is_tidier(process: psutil.Process) -> bool:
    """Return whether a process cleans up after others; wait until it has a command line."""
    with contextlib.suppress(*_GONE):
        for _ in range(_NAMELESS):
            if words := " ".join(process.cmdline()):
                return any(name in words for name in _TIDIERS)
            time.sleep(0.001)  # Linux shows an empty one during exec
    return False


def memory_of(process: psutil.Process, kind: str) -> int:
    """Return its bytes in memory: "rss", or "pss" (Linux), where shared pages count once."""
    try:
        info = process.memory_info() if kind == "rss" else process.memory_full_info()
        return int(getattr(info, kind))
    except _GONE:
        return 0


def _pause(cost: float) -> float:
    return min(_SLOWEST, max(POLL, _DUTY * cost))


class _Watch:
    """Holds one child to its limits."""

    def __init__(self, spec: dict[str, Any], child: Supervised) -> None:
        self._spec, self._child = spec, child
        self._out, self._err = PipeTail(child.stdout), PipeTail(child.stderr)
        self._tree = _Tree()
        self._started = time.monotonic()

    def until_over(self, stop: threading.Event) -> dict[str, Any]:
        """Wait for the child's end or a limit, kill the remaining tree, and return the account."""
        pause, cause = POLL, None
        while cause is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(min(pause, POLL))
                break
            pause -= POLL
            cause = "interrupted" if stop.is_set() else self._over_limit()
            if cause is None and pause <= 0:
                pause, cause = self._look()
        seconds = time.monotonic() - self._started
        survivors = self._tree.end(self._child.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_PATIENCE if not survivors else 0.1)
        for reader in (self._out, self._err):
            reader.join(_PATIENCE if not survivors else 0.1)
        return {
            "cause": cause,
            "code": self._child.returncode,
            "seconds": seconds,
            "stdout": self._out.text,
            "stderr": self._err.text,
            "left": survivors,
        }

    def _over_limit(self) -> str | None:
        if time.monotonic() - self._started > self._spec["seconds"]:
            return "timeout"
        return "over output" if self._out.seen + self._err.seen > self._spec["output"] else None

    def _look(self) -> tuple[float, str | None]:
        """Measure the memory; return the pause until the next reading, and an exceeded limit."""
        now, limit = time.monotonic(), self._spec["memory"]
        rss = self._tree.rss(now)
        _beat({"beat": [now - self._started, rss, self._tree.pids]})
        over = limit is not None and rss > limit
        # Forked workers share their parent's pages, and each counts them as its own.
        if over and len(self._tree) > 1 and (pss := self._tree.pss()) is not None:
            over = pss > limit
        return _pause(time.monotonic() - now), "over memory" if over else None


def _result(scratch: Path) -> dict[str, Any]:
    """Return the text of the result file, or its fault."""
    path = scratch / "result.json"
    try:
        with path.open("rb") as stream:
            data = stream.read(RESULT_BYTES + 1)
        if len(data) > RESULT_BYTES:
            return {"result": None, "fault": f"is longer than {RESULT_BYTES} bytes"}
        return {"result": data.decode()}
    except FileNotFoundError:
        return {"result": None}
    except (OSError, UnicodeDecodeError) as error:
        return {"result": None, "fault": f"cannot be read: {error}"}


if __name__ == "__main__":
    main()
