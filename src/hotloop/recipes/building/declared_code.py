"""Guards the user's files that are executed as code: `data.declared` of task-router.

A run folder or a configuration file may come from somebody else and must not choose code to run. So
such a file is executed only if the command line names it, and its digest is saved with the run.
This module needs no torch.
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
    """Return the entry of flat settings that names files to execute; empty where there is none."""
    return {CODE: str(declared)} if (declared := config.get(CODE)) else {}


def digests(declared: str | None) -> dict[str, str]:
    """Return the SHA-256 of each file by its path. Raises ConfigError for an unreadable file."""
    hashes = {}
    for file in files_of(declared):
        try:
            hashes[str(file)] = hashlib.sha256(file.read_bytes()).hexdigest()
        except OSError as error:
            raise ConfigError(f"{CODE}: there is no file {file} that can be read") from error
    return hashes


def running(declared: str | None) -> list[str]:
    """Return a sentence for each file that is about to be executed."""
    return [
        f"runs the code of {file} (SHA-256 {digest[:16]}), which {CODE} of this call names"
        for file, digest in digests(declared).items()
    ]


def refuse_untyped(config: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raise ConfigError where a source other than the command line names code to run."""
    if (declared := config.get(CODE)) and origins.get(CODE) != TYPED:
        raise ConfigError(
            f"{CODE}={declared} stands in {origins.get(CODE, 'a file')}: it is run as code, so it "
            f"is taken from the command line only. Look at the file, then add {CODE}={declared}"
        )


def named_code(record: Mapping[str, Any], declared: str | None, *, how: str) -> str | None:
    """Return the code files that this call names for the run of `record`; None if it needs none.

    `how` is the beginning of the option to type. Raises UsageError where only one of the run and
    this call names files, ConfigError where the files have changed since the run began.
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
