"""Keeps this process and its children from changing any file of the user (Linux only).

The folders that a script usually writes to are covered by overlay file systems in a mount
namespace of this process: the script sees what it wrote, the files below stay as they are.
Landlock then denies every other write, so that nothing depends on how a library writes.
Where no overlay can be mounted (most containers), Landlock alone denies all writes.

On request the process loses the network as well: beside overlays in a network namespace of its own,
which has nothing but the loopback device; elsewhere Landlock (Linux 6.7) denies TCP connections.

Sources: user_namespaces(7), mount(2), landlock(7), network_namespaces(7), netdevice(7),
https://docs.kernel.org/filesystems/overlayfs.html (2026-11).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["How", "UnshieldedError", "can_cover", "shield", "why_no_shield"]

How = Literal["overlay", "denied"]

_NEW_USER, _NEW_MOUNTS, _NEW_NETWORK = 0x10000000, 0x00020000, 0x40000000  # flags of unshare(2)
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000  # flags of mount(2)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, on all architectures
_NO_NEW_PRIVILEGES = 38  # option of prctl(2)
_WRITES = sum(1 << bit for bit in (1, 4, 5, 6, 7, 8, 9, 10, 11, 12))  # write, remove, make
_REFER, _TRUNCATE = 1 << 13, 1 << 14  # of Landlock 2 and 3
_CONNECT = 1 << 1  # over TCP, of Landlock 4
_SET_FLAGS, _UP = 0x8914, 1  # a request of ioctl(2), and a flag of a network device
_ROOM = "size=4g"  # of the tmpfs that takes the writes
_WRITABLE = ("/dev", "/proc")  # devices and shared memory; no files of the user


class UnshieldedError(Exception):
    """This system cannot keep a process from changing files."""


def shield(scratch: Path, folders: Iterable[Path], *, network: bool = True) -> How:
    """Send writes below `folders` to `scratch`, or deny them; deny all others outside `scratch`.

    Without `network`, deny all connections to other machines too, as far as the system can. Returns
    whether the folders are covered by overlays. The process must have one thread only.
    Raises UnshieldedError, with nothing changed, if the system has no Landlock.
    """
    if (why := why_no_shield()) is not None:
        raise UnshieldedError(why)
    version = _landlock()
    covered = _outermost(folders)
    if covered and _succeeds(lambda: _cover(covered, scratch, network=network)):
        _cover(covered, scratch, network=network)
        with contextlib.suppress(OSError):
            os.chdir(os.getcwd())  # the same path, now below an overlay
        _deny([scratch, *covered], version, network=True)  # the namespace has none
        return "overlay"
    _deny([scratch], version, network=network)
    return "denied"


def why_no_shield() -> str | None:
    """Return why this system cannot keep a process from changing files, or None."""
    if _landlock() >= 1:
        return None
    return "this system cannot keep a process from writing files (no Landlock)"


def can_cover(folders: Iterable[Path], *, network: bool = True) -> bool:
    """Whether `shield` can show a process what it writes below `folders`; tried in a fork."""
    covered = _outermost(folders)
    if not covered or why_no_shield() is not None:
        return False
    with tempfile.TemporaryDirectory(prefix="hotloop-shield-") as scratch:
        return _succeeds(lambda: _cover(covered, Path(scratch), network=network))


def _landlock() -> int:
    """Return the version of Landlock; below 1 without it."""
    if sys.platform != "linux":
        return 0
    return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that lie in none of the others; the root is left out."""
    real = {folder.resolve() for folder in folders if folder.is_dir()} - {Path("/")}
    return sorted(folder for folder in real if not real & set(folder.parents))


def _succeeds(attempt: object) -> bool:
    """Try a change of this process in a fork of it."""
    assert callable(attempt)
    child = os.fork()
    if child == 0:  # pragma: no cover - in the fork
        try:
            attempt()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def _cover(folders: Sequence[Path], scratch: Path, *, network: bool) -> None:
    """Mount an overlay over each folder, and over each file system that is mounted below it."""
    user, group = os.getuid(), os.getgid()
    apart = _NEW_USER | _NEW_MOUNTS | (0 if network else _NEW_NETWORK)
    _checked("unshare", _libc().unshare(apart))
    _tell("setgroups", "deny")
    _tell("uid_map", f"{user} {user} 1")
    _tell("gid_map", f"{group} {group} 1")
    if not network:
        _start_loopback()
    _mount("none", "/", None, _RECURSIVE | _PRIVATE)
    covers = [*folders, *_mounted_below(folders)]
    files = {folder: os.open(folder, os.O_PATH) for folder in [*covers, scratch]}
    writes = scratch / "writes"
    writes.mkdir(exist_ok=True)
    _mount("tmpfs", str(writes), "tmpfs", 0, _ROOM)
    files[writes] = os.open(writes, os.O_PATH)  # its path may be covered below
    kept = Path(f"/proc/self/fd/{files[writes]}")
    for number, folder in enumerate(covers):
        upper, work = kept / f"{number}.upper", kept / f"{number}.work"
        upper.mkdir()
        work.mkdir()
        mode = folder.stat().st_mode & 0o7777
        upper.chmod(mode)
        layers = f"lowerdir=/proc/self/fd/{files[folder]},upperdir={upper},workdir={work},userxattr"
        _mount("overlay", str(folder), "overlay", 0, layers)
    if any(folder in scratch.parents for folder in covers):
        _mount(f"/proc/self/fd/{files[scratch]}", str(scratch), None, _BIND | _RECURSIVE)
    for file in files.values():
        os.close(file)


def _start_loopback() -> None:
    """Let processes of this network namespace reach each other, as servers on this machine do."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        fcntl.ioctl(device, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))


def _mounted_below(folders: Sequence[Path]) -> list[Path]:
    """Return the mount points below the folders, the outer ones first."""
    points = [
        Path(line.split()[4].encode().decode("unicode_escape"))
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    ]
    below = {point for point in points if point.is_dir() and set(folders) & set(point.parents)}
    return sorted(below, key=lambda point: len(point.parts))


def _deny(writable: Iterable[Path], version: int, *, network: bool) -> None:
    """Deny this process and its children all writes outside some folders, for ever."""
    rights = _WRITES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    over_tcp = 0 if network or version < 4 else _CONNECT
    attributes = struct.pack("QQ", rights, over_tcp)
    size = ctypes.c_size_t(8 if version < 4 else 16)  # as much as the kernel knows
    rules = _checked("landlock", _call(_CREATE_RULESET, attributes, size, 0))
    for path in [*writable, *map(Path, _WRITABLE)]:
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("=Qi", rights, file)
            _checked("landlock", _call(_ADD_RULE, rules, 1, rule, 0))
            os.close(file)
    _checked("prctl", _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    _checked("landlock", _call(_RESTRICT_SELF, rules, 0))
    os.close(rules)


def _tell(name: str, text: str) -> None:
    """Write to a file of this process in /proc, at once, as it asks for."""
    file = os.open(f"/proc/self/{name}", os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if text is None else text.encode() for text in (source, target, kind)]
    result = _libc().mount(*encoded, ctypes.c_ulong(flags), data.encode() or None)
    _checked(f"mount {target}", result)


def _call(number: int, *arguments: object) -> int:
    return int(_libc().syscall(number, *arguments))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
