"""Names, lists, verifies and removes the checkpoint folders of a run. Needs no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hotloop.core.errors import CheckpointError, DataError
from hotloop.core.storage.files import check_folder, read_json, read_manifest, remove_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "STATE",
    "StoredCheckpoint",
    "best_of",
    "beyond",
    "listing",
    "newest_sound",
    "path_of",
    "retain",
    "verified",
]

STATE = "state.json"
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCheckpoint:
    """One checkpoint on disk. `broken` is None until it has been verified."""

    path: Path
    step: int
    bytes: int | None  # None when its manifest cannot be read
    saved_at: str | None = None  # UTC, ISO 8601
    validation_loss: float | None = None  # of the validation at this step
    best_step: int | None = None  # best step of the run when it was saved
    broken: tuple[str, ...] | None = None

    @property
    def sound(self) -> bool:
        """Whether the checkpoint was verified without a fault."""
        return self.broken == ()


def path_of(folder: Path, step: int) -> Path:
    """Return the folder of the checkpoint of a step."""
    return folder / f"step-{step:08d}"


def listing(folder: Path, *, verify: bool = False) -> list[StoredCheckpoint]:
    """Return the checkpoints in the order of their steps; with `verify`, hash every byte."""
    if not folder.is_dir():
        return []
    checkpoints = []
    for path in folder.iterdir():
        if (match := _NAME.fullmatch(path.name)) and path.is_dir():
            stored = _describe(path, int(match[1]))
            checkpoints.append(verified(stored) if verify else stored)
    return sorted(checkpoints, key=lambda stored: stored.step)


def _describe(path: Path, step: int) -> StoredCheckpoint:
    try:
        files = read_manifest(path)["files"]
        state = read_json(path / STATE)
    except (DataError, OSError):
        return StoredCheckpoint(path=path, step=step, bytes=None)
    assert isinstance(files, dict)
    loss, position = state.get("validation_loss"), state.get("position")
    best = position.get("best_step") if isinstance(position, dict) else None
    return StoredCheckpoint(
        path=path,
        step=step,
        bytes=sum(entry["bytes"] for entry in files.values()),
        saved_at=str(state.get("saved_at")),
        validation_loss=loss if isinstance(loss, int | float) else None,
        best_step=best if isinstance(best, int) else None,
    )


def best_of(stored: Sequence[StoredCheckpoint], best_step: int | None) -> StoredCheckpoint | None:
    """Return the checkpoint with the best validation, or None if it is not in `stored`.

    `stored` is in the order of steps. `best_step` is the record of a finished run. If it is None,
    that of the newest checkpoint counts, which may have been saved before its own validation.
    """
    best = best_step if best_step is not None or not stored else stored[-1].best_step
    return next((one for one in stored if one.step == best), None)


def verified(stored: StoredCheckpoint) -> StoredCheckpoint:
    """Return a checkpoint with its faults in `broken`; hash every byte."""
    return replace(stored, broken=tuple(check_folder(stored.path)))


def newest_sound(folder: Path) -> tuple[StoredCheckpoint | None, list[StoredCheckpoint]]:
    """Return the newest checkpoint that verifies, and the newer ones that do not.

    Returns (None, []) if there are no checkpoints. Raises CheckpointError with a table of faults
    if all are broken.
    """
    broken: list[StoredCheckpoint] = []
    for stored in reversed(listing(folder)):
        checked = verified(stored)
        if checked.sound:
            return checked, broken
        broken.append(checked)
    if broken:
        table = "\n".join(f"  {s.path.name}: {'; '.join(s.broken or ())}" for s in broken)
        raise CheckpointError(
            f"none of the {len(broken)} checkpoints in {folder} can be read:\n{table}\n"
            "nothing was deleted; restore one from a backup, or train again into another folder"
        )
    return None, []


def beyond(
    checked: Sequence[StoredCheckpoint], *, keep: int, best_step: int | None
) -> list[StoredCheckpoint]:
    """Return the verified checkpoints to remove: all sound ones but the best and the newest `keep`.

    Broken ones are neither counted nor removed, because they are evidence. At least the two newest
    sound ones stay.
    """
    sound = [stored for stored in checked if stored.sound]
    return [stored for stored in sound[: -max(2, keep)] if stored.step != best_step]


def retain(folder: Path, *, keep: int, best_step: int | None) -> list[StoredCheckpoint]:
    """Remove the checkpoints that `beyond` returns, and return them."""
    old = beyond(listing(folder, verify=True), keep=keep, best_step=best_step)
    for stored in old:
        remove_folder(stored.path)
    return old
