"""Does a script do the same under the doctor, and what does that cost?

    python -m benchmarks.behaviour FOLDER [NAME ...]

Runs FOLDER/NAME/train.py plain, under `hotloop doctor --full` and plain again, in copies of its
folder at the same path. Compares exit code, stdout and files; what differs between the plain runs
(a clock, a seed) is listed and left out, by its text without numbers. The doctor may take 1.3 times
as long as the plain run and 20 s. Writes benchmarks/results/behaviour.json after each script.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.table import RESULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

RESULT = RESULTS / "behaviour.json"
DOCTOR = (sys.executable, "-m", "hotloop", "doctor", "--full")
FACTOR, CONSTANT = 1.3, 20.0  # of the plain run's time; seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run left behind."""

    code: int
    stdout: list[str]
    files: Mapping[str, str]  # path -> digest; hotloop's own folder is left out
    seconds: float
    cpu: float  # seconds of the run and of what it started
    stderr: str

    def differences(self, other: Outcome) -> list[str]:
        """Return what the other run did differently: "exit code 1", "said: loss #", "out/w.pt".

        Numbers in a line and in a file's name are written as "#".
        """
        said = difflib.SequenceMatcher(a=self.stdout, b=other.stdout, autojunk=False)
        lines = [
            f"said: {_without_numbers(line):.100}"
            for kind, *span in said.get_opcodes()
            if kind != "equal"
            for line in self.stdout[span[0] : span[1]] + other.stdout[span[2] : span[3]]
        ]
        names = sorted({*self.files, *other.files})
        files = [name for name in names if self.files.get(name) != other.files.get(name)]
        code = [] if other.code == self.code else [f"exit code {other.code}"]
        return list(dict.fromkeys([*code, *lines, *map(_without_numbers, files)]))


def _without_numbers(text: str) -> str:
    return re.sub(r"[\d.]*\d(e-?\d+)?", "#", text)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def outcome(
    command: Sequence[str],
    folder: Path,
    *,
    below: str = ".",
    limit: float = 600,
    env: Mapping[str, str] | None = None,
) -> Outcome:
    """Run a command in a fresh copy of a folder, or `below` it, always at the same path."""
    place = Path(tempfile.gettempdir(), f"behaviour-{os.getpid()}", folder.name)
    shutil.copytree(
        folder, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".git")
    )
    began, used = time.perf_counter(), _cpu()
    try:
        done = subprocess.run(
            command,
            cwd=place / below,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
        seconds, cpu = time.perf_counter() - began, _cpu() - used
        files = {
            path.relative_to(place).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in place.rglob("*")
            if path.is_file() and ".hotloop" not in path.parts
        }
    finally:
        shutil.rmtree(place)
    return Outcome(
        code=done.returncode,
        stdout=done.stdout.splitlines(),
        files=files,
        seconds=seconds,
        cpu=cpu,
        stderr=done.stderr,
    )


def compared(folder: Path, *arguments: str, limit: float = 600) -> dict[str, Any]:
    """Return one row: what the doctor changed, what varies by itself, and the seconds."""
    script = ("train.py", *arguments)
    plain, observed, again = (
        outcome((*launcher, *script), folder, limit=limit)
        for launcher in ((sys.executable,), DOCTOR, (sys.executable,))
    )
    by_itself = plain.differences(again)
    changed = [name for name in plain.differences(observed) if name not in by_itself]
    seconds = (plain.seconds + again.seconds) / 2
    return {
        "name": folder.name,
        "same": not changed,
        "changed": changed[:20],
        "varies by itself": by_itself[:20],
        "exit code": plain.code,
        "plain s": round(seconds, 2),
        "doctor s": round(observed.seconds, 2),
        "within": observed.seconds <= FACTOR * seconds + CONSTANT,
    }


def main() -> None:
    """Compare the scripts, and write each result when it is known."""
    folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    rows = []
    for name in names or sorted(path.parent.name for path in folder.glob("*/train.py")):
        rows.append(compared(folder / name))
        print(json.dumps(rows[-1]), flush=True)
        RESULT.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{sum(row['same'] for row in rows)} of {len(rows)} the same")
    print(f"{sum(row['within'] for row in rows)} of {len(rows)} within the time")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
