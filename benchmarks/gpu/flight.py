"""Flies a call: its parts one after the other, each a process with a time limit of its own.

A part writes its result to a file of its own as soon as a figure is known; the record of the call
says how each part ended. A part that fails or passes its limit costs the call nothing else.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from hotloop.core.storage.files import make_folder, write_json
from hotloop.machine.detect import detect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from hotloop.core.hardware import Hardware

__all__ = ["CALL_S", "Call", "Part", "fly", "folder_of"]

CALL_S = 540  # a machine is lent for calls of 10 minutes at most, its start not included
_FEWEST_S = 10  # no part is begun with less: torch alone takes 4 s to load
_DYING_S = 10.0  # seconds that killed processes may take to end
_REHEARSED_S = 900.0  # limit of a part in a rehearsal: a busy machine of few cores compiles there
_LINES = 3  # of stderr, in the record of a part that failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A command of a call. It is given `--json FILE` and `--seconds`; `--short` in a rehearsal."""

    name: str  # of its file
    what: str
    module: str  # of benchmarks.gpu
    words: Sequence[str] = ()
    limit_s: float
    is_spare: bool = False  # run if the others leave time for it
    unrehearsed: str | None = None  # what a rehearsal does not show, and why

    def command(self, file: Path, limit_s: float, *, short: bool) -> list[str]:
        """Return what is run; it has to end within `limit_s` seconds."""
        command = [sys.executable, "-m", f"benchmarks.gpu.{self.module}", *self.words]
        command += ["--seconds", f"{limit_s:.0f}", "--json", str(file)]
        return [*command, *(["--short"] if short else [])]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The parts of a call, the most important first."""

    number: int
    parts: Sequence[Part]


def folder_of(hardware: Hardware, results: Path) -> Path:
    """Return the folder in `results` for this GPU."""
    name = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-")
    return results / f"gpu-{name}"


def fly(
    call: Call,
    folder: Path,
    *,
    short: bool = False,
    budget_s: float = CALL_S,
    copy: Path | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Run the parts of a call; return its record, which is also written after each part.

    `folder` takes a file of each part and call-N.json; `copy` takes the same files. A part that the
    rest of `budget_s` seconds is too short for is left out, and the record says so. A rehearsal
    (`short`) has no budget.
    """
    began, parts = clock(), dict[str, Any]()
    record = {"schema": 1, "call": call.number, "short": short, "hardware": detect().to_json()}
    for part in call.parts:
        left = _REHEARSED_S if short else min(part.limit_s, budget_s - (clock() - began))
        print(f"call {call.number}, {part.name}: {part.what}", flush=True)
        if left < min(_FEWEST_S, part.limit_s):
            parts[part.name] = {"state": f"not begun: the {budget_s:g} s of the call were over"}
        else:
            parts[part.name] = _run(part, make_folder(folder), left, short=short, clock=clock)
            if short and part.unrehearsed:
                parts[part.name]["not rehearsed"] = part.unrehearsed
        print(f"  {parts[part.name]['state']}", flush=True)
        write_json(make_folder(folder) / f"call-{call.number}.json", {**record, "parts": parts})
        if copy is not None:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
    return {**record, "parts": parts}


def _run(
    part: Part, folder: Path, limit_s: float, *, short: bool, clock: Callable[[], float]
) -> dict[str, Any]:
    """Run a part; return how it ended."""
    file = folder / f"{part.name}.json"
    file.unlink(missing_ok=True)  # an older result would be taken for this one's
    began, said = clock(), ""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            part.command(file, limit_s, short=short), stderr=errors, start_new_session=True
        )
        try:
            code = process.wait(limit_s)
            state = "done" if code == 0 else f"failed: exit code {code}"
        except subprocess.TimeoutExpired:
            state = f"stopped: it passed its limit of {limit_s:.0f} s"
        finally:
            _end(process)
        errors.seek(0)
        said = errors.read()
    ended: dict[str, Any] = {"state": state, "seconds": round(clock() - began, 1)}
    if state != "done":
        ended["said"] = said.strip().splitlines()[-_LINES:]
        print("\n".join(f"  {line}" for line in ended["said"]), flush=True)
    return {**ended, "file": file.name if file.exists() else None}


def _end(process: subprocess.Popen[Any]) -> None:
    """End a part with all that it started: what stays would use the GPU beside the next one.

    A killed process keeps its GPU memory until it is gone, so that is waited for.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + _DYING_S
    while time.monotonic() < deadline and any(map(_is_alive, _members(process.pid))):
        time.sleep(0.02)


def _members(group: int) -> Iterator[psutil.Process]:
    """Yield the processes of a group."""
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group:
                yield process


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
