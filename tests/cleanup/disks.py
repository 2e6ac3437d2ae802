"""Runs with checkpoints and caches, made by hand."""

import json
import os
import platform
from pathlib import Path

from hotloop.core.env import Environment
from hotloop.core.storage.files import write_folder
from hotloop.core.storage.lock import LockHolder
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import STATE, path_of

NOW = 2e9  # Unix time; all of this was used long before
GONE = 2**22 + 1  # no process has this id: Linux gives none above 2**22


def environment(folder: Path) -> Environment:
    return Environment.read({"HOTLOOP_CACHE": str(folder / "own"), "HF_HOME": str(folder / "hf")})


def made(folder: Path, *, keep: int | None = 2, status: str = "complete", best: int | None = None):
    """Make a run folder without a checkpoint."""
    folder.mkdir(parents=True)
    config = {} if keep is None else {"training.keep": keep}
    final = {"best_step": best}
    record = {"schema": 1, "recipe": "char-lm", "status": status, "config": config, "final": final}
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def checkpoint(run: Path, step: int, *, loss: float | None = None, best: int | None = None) -> Path:
    path = path_of(RunDir(run).checkpoints, step)
    state = {"saved_at": "now", "validation_loss": loss, "position": {"best_step": best}}
    write_folder(path, {STATE: [json.dumps(state).encode()], "model.safetensors": [b"x" * 1000]})
    return path


def spoil(path: Path) -> None:
    (path / "model.safetensors").write_bytes(b"y" * 1000)


def hold(run: Path, *, pid: int | None = None, host: str | None = None) -> None:
    """Leave the lock of a process: this one's, unless another is said."""
    me = LockHolder.me()
    holder = {
        "pid": me.pid if pid is None else pid,
        "host": host or platform.node(),
        "boot": me.boot,
        "started": me.started if pid is None else None,
    }
    (run / "lock.json").write_text(json.dumps(holder))


def temp(folder: Path, name: str, *, pid: int = GONE, age: float = 7200.0) -> Path:
    """Leave the temp of a writer, last changed so many seconds before NOW."""
    path = folder / f".tmp-{name}-{pid}-0123abcd"
    path.mkdir(parents=True)
    (path / "half").write_bytes(b"z" * 50)
    os.utime(path / "half", (NOW - age, NOW - age))
    return path
