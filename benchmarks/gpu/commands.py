"""Runs a command of a part for a limited time, and lets it end as by Ctrl-C when that is over."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = ["ENDS_S", "Ended", "run"]

ENDS_S = 3.0  # a command that is told to end writes its result within


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a command ended."""

    said: list[str]  # lines of stdout and stderr
    failed: str | None  # why it did not end well; None: it did


def run(command: Sequence[str], limit_s: float, *, cwd: Path | None = None) -> Ended:
    """Run a command for at most `limit_s` seconds, and ENDS_S more to write its result.

    A ladder or a tuning that is told to end stops its trials too, which would use the GPU beside
    the next reading.
    """
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=cwd)
        failed = None
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            failed = f"stopped: it passed its limit of {limit_s:.0f} s"
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_S)
        finally:
            process.kill()
            process.wait()
        said.seek(0)
        lines = said.read().strip().splitlines()
    if failed is None and process.returncode:
        failed = f"exit code {process.returncode}: " + " / ".join(lines[-3:])
    return Ended(said=lines, failed=failed)
