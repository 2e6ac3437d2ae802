"""Applies a suggested diff with git in a scratch copy, and makes a copy of the script to run."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hotloop.core.env import inherited
from hotloop.core.storage.files import make_folder, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hotloop.diagnosis.diff import Suggested

__all__ = ["NO_GIT", "edited_copy", "why_not_applied"]

NO_GIT: Final = "git is not installed here, so that `git apply` was not tried"
_SECONDS: Final = 60.0  # that git may take


def why_not_applied(suggested: Suggested) -> str | None:
    """Return why `git apply` does not turn the files into the edited ones, or None if it does.

    It is tried on copies of the files, with the user's own settings of git.
    """
    git = shutil.which("git")
    if git is None:
        return NO_GIT
    with tempfile.TemporaryDirectory(prefix="hotloop-apply-") as name:
        folder = Path(name).resolve()
        for file in suggested.files:
            copy = folder / file.relative_to(suggested.root)
            make_folder(copy.parent)
            write_file(copy, file.read_bytes())
        # Within another repository git would leave out files that do not belong to it.
        alone = inherited(GIT_CEILING_DIRECTORIES=str(folder.parent))
        for more in (["--check"], []):
            done = subprocess.run(
                [git, "apply", *more, "-"],
                cwd=folder,
                env=alone,
                input=suggested.diff.encode(),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode:
                return f"git apply refuses the diff: {done.stderr.decode(errors='replace').strip()}"
        for file, after in suggested.files.items():
            if (folder / file.relative_to(suggested.root)).read_bytes() != after:
                return f"git apply makes something else of {file.name}: see its settings"
    return None


@contextmanager
def edited_copy(script: Path, suggested: Suggested) -> Iterator[Path]:
    """Yield the path of a copy of the script in which the edits are made.

    The folders of the edited files are copies, whose other entries are links to the originals. The
    script itself is yielded where no file changes.
    """
    if not suggested.files:
        yield script
        return
    real = script.resolve()
    top = suggested.root if suggested.root != Path(real.anchor) else real.parent
    edited = {real: real.read_bytes(), **suggested.files}
    with tempfile.TemporaryDirectory(prefix="hotloop-suggest-") as name:
        _mirror(top, Path(name, top.name or "script"), edited)
        yield Path(name, top.name or "script") / real.relative_to(top)


def _mirror(folder: Path, copy: Path, edited: dict[Path, bytes]) -> None:
    make_folder(copy)
    for entry in folder.iterdir():
        if entry in edited:
            write_file(copy / entry.name, edited[entry])
        elif any(entry in file.parents for file in edited):
            _mirror(entry, copy / entry.name, edited)
        else:
            os.symlink(entry, copy / entry.name)
