"""Files of the user's that are run as code: `data.declared` of task-router.

Text that came from elsewhere must not choose code to run: a run folder, a configuration file. So
such a file is run only if this call names it, and its digest is kept beside the run. Needs no
torch.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.core.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CODE", "code_in", "digests", "files_of", "named_code", "refuse_untyped", "running"]

CODE = "data.declared"  # the setting that names the files, with commas between
TYPED = "command line"  # the origin that may name code


def files_of(declared: str | None) -> list[Path]:
    """Return the files that `data.declared` names."""
    return [Path(name.strip()) for name in (declared or "").split(",") if name.strip()]


def code_in(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the setting that names files to run as code, of flat settings; or nothing."""
    return {CODE: str(declared)} if (declared := config.get(CODE)) else {}


def digests(declared: str | None) -> dict[str, str]:
    """Return the SHA-256 of each file by its path; ConfigError where one cannot be read."""
    hashes = {}
    for file in files_of(declared):
        try:
            hashes[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise ConfigError(f"{CODE}: there is no file {file} that can be read") from error
    return hashes


def running(declared: str | None) -> list[str]:
    """Return a sentence for each file that is about to be run."""
    return [
        f"runs the code of {file} (SHA-256 {digest[:16]}), which {CODE} of this call names"
        for file, digest in digests(declared).items()
    ]


def refuse_untyped(config: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raise ConfigError where a configuration file, not this call, names code to run."""
    if (declared := config.get(CODE)) and origins.get(CODE) != TYPED:
        raise ConfigError(
            f"{CODE}={declared} stands in {origins.get(CODE, 'a file')}: it is run as code, so it "
            f"is taken from the command line only. Look at the file, then add {CODE}={declared}"
        )


def named_code(record: Mapping[str, Any], declared: str | None, *, how: str) -> str | None:
    """Return what this call names as code for the run of `record`; None where it needs none.

    `how` says what to type. Raises UsageError where the run has a task of its own and this call
    does not name its file, ConfigError where that file is another one than the run began with.
    """
    run_files = record["config"].get(CODE)
    if not run_files:
        if declared:
            raise UsageError(f"the run has no task of its own: leave out {CODE}")
        return None
    if not declared:
        raise UsageError(
            f"the run has a task that is declared in {run_files}. That file is run as code, so "
            f"hotloop takes it only from this call. If you trust it, add {how}{run_files}"
        )
    before, now = list(record.get("declared", {}).values()), list(digests(declared).values())
    if before and before != now:
        raise ConfigError(
            f"{declared} is not the file that the run began with (SHA-256 "
            f"{', '.join(sha[:16] for sha in before)}, now {', '.join(sha[:16] for sha in now)})"
        )
    return declared
