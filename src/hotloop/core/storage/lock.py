"""A lock for one process at a time in a run folder; it names its holder and ends at a reboot."""

import contextlib
import ctypes
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from hotloop.core.errors import UsageError, WriteError
from hotloop.core.storage.files import naming

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["HeldError", "Lock", "LockHolder", "change_text"]

_TRIES, _WAIT = 200, 0.01  # attempts while another process holds the lock; seconds between
_POLL, _AGAIN = 0.2, 50  # seconds between two looks at a lock; looks between two messages

_GREATEST_PID = 2**31 - 1  # pid_t is a C int
# Windows' SYNCHRONIZE right, ERROR_INVALID_PARAMETER and WAIT_TIMEOUT, from
# https://learn.microsoft.com/windows/win32/procthread/process-security-and-access-rights and
# https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499- (2026-11)
_SYNCHRONIZE, _NO_SUCH_PROCESS, _WAIT_TIMEOUT = 0x00100000, 87, 258


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """The process that holds a lock."""

    pid: int
    host: str  # the host name, or a container's
    boot: str | None  # changes with every boot; None if the system has no such id
    started: str | None  # distinguishes a reused pid; None if unknown
    job: str | None = None  # of the launcher that restarts its group; None without one

    @classmethod
    def me(cls, job: str | None = None) -> "LockHolder":
        """Return the holder for this process."""
        pid = os.getpid()
        return cls(pid=pid, host=platform.node(), boot=_boot_id(), started=_started(pid), job=job)

    @classmethod
    def parse(cls, text: str) -> "LockHolder | None":
        """Return the holder in a lock's text, or None. Unknown keys are ignored."""
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(raw, dict):
            return None
        pid, host, boot, started = (raw.get(key) for key in ("pid", "host", "boot", "started"))
        job = raw.get("job")
        if type(pid) is not int or not 0 < pid <= _GREATEST_PID or not isinstance(host, str):
            return None
        return cls(
            pid=pid,
            host=host,
            boot=boot if isinstance(boot, str) else None,
            started=started if isinstance(started, str) else None,
            job=job if isinstance(job, str) else None,
        )

    def why_stale(self, job: str | None = None) -> str | None:
        """Return why this holder is certainly gone, or None if it may be alive.

        A launcher ends its group on all hosts before it starts the next one of its `job`.
        """
        me = (platform.node(), os.getpid())
        if job is not None and self.job == job and (self.host, self.pid) != me:
            return f"the group of process {self.pid} on {self.host} was started anew"
        if self.host != platform.node():
            return None  # another machine on a shared disk: unknown
        if _differ(self.boot, _boot_id()):
            return "the machine was restarted since"
        if not _alive(self.pid):
            return f"process {self.pid} is gone"
        if _differ(self.started, _started(self.pid)):
            return f"process id {self.pid} belongs to another process now"
        return None


def _differ(then: str | None, now: str | None) -> bool:
    """Whether two values are known and different; an unknown value proves nothing."""
    return None not in (then, now) and then != now


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None  # not Linux


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/<pid>/stat from the state on; [] if it cannot be read.

    The name before them may contain any character:
    https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return []  # not Linux, gone, or hidden from this user
    return text.rpartition(")")[2].split()


def _started(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None  # field 22, in ticks since the boot


def _alive(pid: int) -> bool:
    if sys.platform == "win32":  # os.kill(pid, 0) would end the process there
        kernel32 = ctypes.WinDLL("kernel32", use_last_error=True)
        handle = kernel32.OpenProcess(_SYNCHRONIZE, False, pid)
        if not handle:  # of another user, or there is no such process
            return ctypes.get_last_error() != _NO_SUCH_PROCESS
        running = bool(kernel32.WaitForSingleObject(handle, 0) == _WAIT_TIMEOUT)
        kernel32.CloseHandle(handle)
        return running
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # of another user
    return _stat(pid)[:1] not in (["Z"], ["X"])  # a zombie: dead, but not yet waited for


class HeldError(UsageError):
    """Another process holds a lock."""

    def __init__(self, text: str, holder: LockHolder) -> None:
        super().__init__(text)
        self.holder = holder


class Lock:
    """A process holds it while it writes a run folder; a stale lock is taken over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mine: LockHolder | None = None
        self.took_over: str | None = None  # why the old holder was certainly gone

    def acquire(self, job: str | None = None) -> None:
        """Take the lock, for a launcher's `job` if given. Raises HeldError if it is held."""
        self.took_over = None
        change_text(self._path, lambda text: self._claim(text, job))

    def wait(self, waits: Callable[[LockHolder], None]) -> None:
        """Take the lock as soon as no other process of this machine holds it.

        `waits` is called with the holder now and then. Raises HeldError if this process holds it,
        or one of another machine, of which nobody knows here whether it is alive.
        """
        for look in itertools.count():
            try:
                self.acquire()
            except HeldError as error:
                holder = error.holder
                if holder.host != platform.node() or holder.pid == os.getpid():
                    raise
                if look % _AGAIN == 0:
                    waits(holder)
                time.sleep(_POLL)
            else:
                return

    def release(self) -> None:
        """Release the lock. Does nothing if it is not held, or in a forked child."""
        mine, self._mine = self._mine, None
        if mine is not None and mine.pid == os.getpid() and self._path.exists():
            change_text(self._path, lambda text: "" if LockHolder.parse(text) == mine else text)

    @contextlib.contextmanager
    def held(self, job: str | None = None) -> "Iterator[Lock]":
        """Hold the lock during the block. Raises HeldError if another process holds it."""
        self.acquire(job)
        try:
            yield self
        finally:
            self.release()

    def _claim(self, text: str, job: str | None) -> str:
        """Return the text of this process's lock, if the previous holder is gone.

        The check and the write happen under one system lock. Otherwise a second process that had
        found the same stale holder would overwrite the first one's new lock.
        """
        if text:
            holder = LockHolder.parse(text)
            why = holder.why_stale(job) if holder else "its holder died while it wrote its name"
            if holder is not None and why is None:
                own = " (this one)" if holder.pid == os.getpid() else ""
                raise HeldError(
                    f"{self._path.parent} is in use by process {holder.pid}{own} on "
                    f"{holder.host}; wait for it or stop it. If it surely is gone, "
                    f"delete {self._path}",
                    holder,
                )
            self.took_over = why
        self._mine = LockHolder.me(job)
        return json.dumps(asdict(self._mine))


def change_text(path: Path, change: Callable[[str], str]) -> None:
    """Replace the text of a small file by `change` of it, one process at a time.

    A missing file is the empty text. The system's lock excludes other processes and ends with the
    process, so `change` may get a text that a kill cut off. An exception from `change` passes
    through, and the file stays. Raises WriteError, also if another process keeps the file locked.
    """
    with naming(path):
        for _ in range(_TRIES):
            with path.open("a+b") as stream, _locked(stream) as alone:
                if alone and _is_at(path, stream):
                    _change(path, stream, change)
                    return
            time.sleep(_WAIT)
    raise WriteError(f"{path} is kept locked by a process that does not go on: end that one")


def _change(path: Path, stream: BinaryIO, change: Callable[[str], str]) -> None:
    stream.seek(0)
    old = stream.read().decode(errors="replace")
    new = change(old)
    if new != old:
        stream.truncate(0)
        stream.write(new.encode())
        stream.flush()
    if not new:
        with contextlib.suppress(PermissionError):  # Windows: it is open, and stays empty
            path.unlink()


def _is_at(path: Path, stream: BinaryIO) -> bool:
    """Whether an open file still has its name: another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _locked(stream: BinaryIO) -> Iterator[bool]:
    """Hold the system's lock on an open file; yield False if another process holds it."""
    try:
        _lock(stream, on=True)
    except (BlockingIOError, PermissionError):
        yield False
        return
    try:
        yield True
    finally:
        _lock(stream, on=False)  # closing is not enough: a forked child may have it open too


def _lock(stream: BinaryIO, *, on: bool) -> None:
    if sys.platform == "win32":
        stream.seek(1 << 30)  # a locked byte cannot be read: take one far behind the text
        msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK if on else msvcrt.LK_UNLCK, 1)
    else:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB if on else fcntl.LOCK_UN)
