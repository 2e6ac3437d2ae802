"""One process at a time in a run folder: a lock that names its holder and outlives no boot."""

import ctypes
import json
import os
import platform
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from hotloop.core.errors import UsageError
from hotloop.core.files import create_exclusive

__all__ = ["Holder", "Lock"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that holds a lock."""

    pid: int
    host: str
    boot: str | None  # changes with every boot; None where the system has no such id
    started: str | None  # tells a reused pid from the old one; None where unknown

    @classmethod
    def me(cls) -> "Holder":
        """Return this process."""
        pid = os.getpid()
        return cls(pid=pid, host=platform.node(), boot=_boot_id(), started=_start_ticks(pid))

    def why_stale(self) -> str | None:
        """Return why this holder is surely gone, or None when it may be alive."""
        if self.host != platform.node():
            return None  # another machine on a shared disk: nothing here can tell
        if self.boot != _boot_id():
            return "the machine was restarted since"
        if not _alive(self.pid):
            return f"process {self.pid} is gone"
        if self.started != _start_ticks(self.pid):
            return f"process id {self.pid} belongs to another process now"
        return None


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None  # not Linux


def _start_ticks(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None  # not Linux, or gone


def _alive(pid: int) -> bool:
    if os.name == "nt":  # os.kill(pid, 0) would end the process on Windows
        kernel32 = getattr(ctypes, "windll").kernel32  # noqa: B009 - absent from other systems' stubs
        handle = kernel32.OpenProcess(0x1000, False, pid)  # PROCESS_QUERY_LIMITED_INFORMATION
        return bool(handle and kernel32.CloseHandle(handle))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Lock:
    """Held while a process writes a run folder; a stale one is taken over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.took_over: str | None = None  # why the old holder was surely gone

    def acquire(self) -> None:
        """Take the lock or raise UsageError naming the holder."""
        mine = json.dumps(asdict(Holder.me()))
        for _ in range(5):
            if create_exclusive(self._path, mine):
                return
            holder = self._holder()
            if holder is None:
                continue  # it was released just now
            why = holder.why_stale()
            if why is None:
                raise UsageError(
                    f"{self._path.parent} is in use by process {holder.pid} on {holder.host}; "
                    f"wait for it or stop it. If it surely is gone, delete {self._path}"
                )
            self.took_over = why
            self._set_aside()
        raise UsageError(f"{self._path} changes hands too fast: start one run at a time")

    def release(self) -> None:
        """Give the lock back."""
        self._path.unlink(missing_ok=True)

    def _set_aside(self) -> None:
        """Remove a stale lock so that of two processes that saw it only one succeeds."""
        aside = self._path.with_name(f".gone-{self._path.name}-{secrets.token_hex(4)}")
        try:
            os.replace(self._path, aside)
        except FileNotFoundError:
            return
        aside.unlink(missing_ok=True)

    def _holder(self) -> Holder | None:
        for _ in range(20):
            try:
                return Holder(**json.loads(self._path.read_text()))
            except FileNotFoundError:
                return None
            except (ValueError, TypeError):
                time.sleep(0.01)  # its holder is between creating and writing it
        self._set_aside()  # 0.2 s without a line: its writer died in between
        return None
