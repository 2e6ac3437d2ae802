"""Writes a folder from several ranks: each writes its files, and rank 0 commits the folder.

The folder gets its name only after all files of all ranks are durable. A lost rank leaves a hidden
folder, which the next start removes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import WriteError
from hotloop.core.storage.files import add_files, begin_folder, commit_folder, drop, write_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hotloop.core.digest import Buffer
    from hotloop.core.storage.files import Disk
    from hotloop.session.ranks import ProcessGroup

__all__ = ["write_together"]

_numbers = itertools.count()  # numbers the folders that this process writes with other ranks


def write_together(
    target: Path, files: Mapping[str, Iterable[Buffer]], *, disk: Disk, ranks: ProcessGroup
) -> int:
    """Write this rank's files into a folder durably; return the bytes of the whole folder.

    The folder holds the files of all ranks or does not exist. Every rank calls this in the same
    order, from one thread. Raises WriteError on all ranks if one of them could not write.
    """
    if ranks.world == 1:
        manifest = write_folder(target, files, disk=disk)
        return _bytes(manifest["files"])
    name = f"folder/{next(_numbers)}"
    lead = _lead if ranks.rank == 0 else _follow
    return lead(target, files, disk, ranks, name)


def _lead(
    target: Path, files: Mapping[str, Iterable[Buffer]], disk: Disk, ranks: ProcessGroup, name: str
) -> int:
    size, failed, temp = 0, None, None
    try:
        temp = begin_folder(target)
        ranks.put(f"{name}/begun", temp.name)
        entries = add_files(temp, files, disk=disk)
        for rank in range(1, ranks.world):
            answer: dict[str, Any] = ranks.take(f"{name}/{rank}")
            if "error" in answer:
                raise WriteError(f"rank {rank}: {answer['error']}")
            entries |= answer["files"]
        manifest = commit_folder(temp, target, entries, disk=disk)
        size = _bytes(manifest["files"])
    except WriteError as error:
        failed = error
    finally:
        if temp is not None:
            drop(temp)  # after a commit there is no folder of that name
    if temp is None:
        ranks.put(f"{name}/begun", None)
    ranks.put(f"{name}/done", {"bytes": size, "error": None if failed is None else str(failed)})
    if failed is not None:
        raise failed
    return size


def _follow(
    target: Path, files: Mapping[str, Iterable[Buffer]], disk: Disk, ranks: ProcessGroup, name: str
) -> int:
    temp = ranks.take(f"{name}/begun")
    if temp is not None:
        try:
            folder = target.parent / temp
            if not folder.is_dir():
                raise WriteError(
                    f"rank {ranks.rank} does not see {folder}: the run folder must lie on a disk "
                    "that all machines share"
                )
            answer: dict[str, Any] = {"files": add_files(folder, files, disk=disk)}
        except WriteError as error:
            answer = {"error": str(error)}
        ranks.put(f"{name}/{ranks.rank}", answer)
    done = ranks.take(f"{name}/done")
    if done["error"] is not None:
        raise WriteError(done["error"])
    size: int = done["bytes"]
    return size


def _bytes(entries: Any) -> int:
    return sum(entry["bytes"] for entry in entries.values())
