"""The storage that a file is on, and its read rate."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from hotloop.machine.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import BinaryIO

__all__ = ["Kind", "Storage", "open_quietly", "read_speed", "storage_kind"]

Kind = Literal["hdd", "network", "virtual", "ssd", "nvme", "tmpfs"]

SIZE = 8 << 20  # bytes that are read for a speed
LEAST = 1 << 20  # bytes of the smallest file that is timed: for smaller ones, opening dominates
BLOCK = 1 << 20
LONGEST = 1.0  # seconds of reading, so that a hundred data sets on a slow disk can be measured
_SLOWEST_FIRST: tuple[Kind, ...] = ("hdd", "network", "virtual", "ssd", "nvme", "tmpfs")
_IN_MEMORY = {"tmpfs", "ramfs"}
# Shared folders of a virtual machine's host behave like a network: 9p, virtiofs, the last line.
_NETWORK = re.compile(
    r"nfs4?|cifs|smb3|smbfs|afs|ceph|lustre|gpfs|beegfs|glusterfs|9p|virtiofs|"
    r"fuse\.(sshfs|s3fs|mount-s3|gcsfuse|rclone|juicefs|glusterfs)|vboxsf|prl_fs|fuse\.vmhgfs-fuse"
)
_EMULATED = re.compile(r"virtual|qemu|vbox|persistentdisk|elastic block", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage of a file. Unknown is None."""

    kind: Kind | None  # virtual: a virtual machine's disk, whatever is behind it
    read: float | None = None  # bytes/s, measured once
    cold: bool | None = None  # False: a part of it was in memory already


def open_quietly(path: Path) -> BinaryIO:
    """Open a file for reading, without updating its access time if that is permitted."""

    def opener(name: str, flags: int) -> int:
        try:
            return os.open(name, flags | getattr(os, "O_NOATIME", 0))
        except PermissionError:  # it is another user's
            return os.open(name, flags)

    return cast("BinaryIO", open(path, "rb", buffering=0, opener=opener))


def storage_kind(
    path: Path, *, mounts: Path = Path("/proc/self/mountinfo"), sys: Path = Path("/sys")
) -> Kind | None:
    """Return the kind of storage of `path` from the system's list of mounts; None: unknown.

    Fields: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html. Other systems have no
    such list. `mounts` and `sys` are seams.
    """
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    real, mount, longest = os.path.realpath(path), None, -1
    for line in lines:
        before, _, after = line.partition(" - ")
        device, _, point = before.split()[2:5]
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), point)
        if len(point) >= longest and os.path.join(real, "").startswith(os.path.join(point, "")):
            mount, longest = (device, *after.split()[:2]), len(point)
    return None if mount is None else _kind(*mount, sys=sys)


def _kind(device: str, system: str, source: str, *, sys: Path) -> Kind | None:
    if system in _IN_MEMORY:
        return "tmpfs"
    if _NETWORK.fullmatch(system):
        return "network"
    if device.startswith("0:") and source.startswith("/dev/"):  # btrfs numbers its volumes itself
        try:
            number = os.stat(source).st_rdev
        except OSError:
            return None
        device = f"{os.major(number)}:{os.minor(number)}"
    return _disk(Path(os.path.realpath(sys / "dev" / "block" / device)))


def _disk(folder: Path) -> Kind | None:
    """Return the kind of a block device by its folder in /sys."""
    if (folder / "partition").exists():
        folder = folder.parent
    below = {_disk(Path(os.path.realpath(one))) for one in (folder / "slaves").glob("*")}
    if below:  # a volume or an array is as slow as its slowest part
        return None if None in below else min((k for k in below if k), key=_SLOWEST_FIRST.index)
    if re.match(r"(zram|ram)\d", folder.name):
        return "tmpfs"
    if re.match(r"(vd|xvd)[a-z]", folder.name) or _EMULATED.search(_word(folder / "device/model")):
        return "virtual"
    if folder.name.startswith("nvme"):
        return "nvme"
    turns = _word(folder / "queue/rotational")
    return "hdd" if turns == "1" else "ssd" if turns == "0" else None


def _word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def read_speed(
    path: Path, *, size: int = SIZE, now: Callable[[], float] = clock
) -> tuple[float | None, bool | None]:
    """Return (bytes/s, whether it came from the device) for up to `size` bytes in a file's middle.

    They are first dropped from the page cache, if the system does that; if a part stays, memory was
    read: False. (None, None) for a file that is too small; None for an unknown part. Raises
    OSError. `now` is a seam.
    """
    with open_quietly(path) as file:
        length = os.fstat(file.fileno()).st_size
        if length < LEAST:
            return None, None
        size = min(size, length)
        start = (length - size) // 2 // BLOCK * BLOCK
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_DONTNEED)
        cached = _cached(file.fileno(), start, size)
        file.seek(start)
        began, bytes_read = now(), 0
        while bytes_read < size and (block := file.read(min(BLOCK, size - bytes_read))):
            bytes_read += len(block)
            if now() - began > LONGEST:
                break
        took = now() - began
    return (bytes_read / took if took > 0 else None), None if cached is None else not cached


def _cached(handle: int, start: int, size: int) -> bool | None:
    """Whether a part of a file is in the page cache; None if the system does not tell.

    For users who may not write the file the system always answers yes:
    https://man7.org/linux/man-pages/man2/mincore.2.html
    """
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
    try:
        with mmap.mmap(handle, size, access=mmap.ACCESS_COPY, offset=start) as view:
            first = ctypes.c_char.from_buffer(view)
            address = ctypes.c_void_p(ctypes.addressof(first))
            failed = libc.mincore(address, ctypes.c_size_t(size), pages)
            del first, address  # or the map could not be closed
    except (OSError, ValueError):  # a file system without mmap
        return None
    if failed or (os.fstat(handle).st_uid != os.geteuid() and os.geteuid() != 0):
        return None
    return any(page & 1 for page in pages)
