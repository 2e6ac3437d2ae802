"""hotloop checkpoints: what a run has saved, and whether it is sound."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.terminal.numbers import bytes_
from hotloop.core.errors import CheckpointError
from hotloop.core.storage.files import write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.engine.checkpoint.folders import StoredCheckpoint, best_of, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb; 74 when one is broken."""
    parser = argparse.ArgumentParser(prog="hotloop checkpoints", description=__doc__)
    parser.add_argument("run", type=Path, metavar="RUN_DIR")
    parser.add_argument("--verify", action="store_true", help="read and hash every byte")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the list as JSON")
    options = parser.parse_args(args)
    run = RunDir.open(options.run)
    folder = run.checkpoints
    stored = listing(folder, verify=options.verify)
    print(f"{'step':>10}  {'saved (UTC)':<25}  {'size':>9}  {'validation':>10}  state")
    marks = _marks(stored, run.best_step())
    for one in stored:
        loss = "-" if one.validation_loss is None else f"{one.validation_loss:.4f}"
        size = "-" if one.bytes is None else bytes_(one.bytes)
        state = "  ".join(filter(None, [_state(one), marks.get(one.step)]))
        print(f"{one.step:>10}  {one.saved_at or '-':<25}  {size:>9}  {loss:>10}  {state}")
    if options.json:
        write_json(options.json, {"checkpoints": [_as_json(one) for one in stored]})
    if broken := [one for one in stored if one.broken]:
        raise CheckpointError(f"{len(broken)} of {len(stored)} checkpoints in {folder} are broken")
    return 0


def _state(one: StoredCheckpoint) -> str:
    if one.bytes is None:
        return "broken: its manifest or state cannot be read"
    if one.broken is None:
        return "not verified"
    return f"broken: {'; '.join(one.broken)}" if one.broken else "verified"


def _marks(stored: Sequence[StoredCheckpoint], best_step: int | None) -> dict[int, str]:
    readable = [one for one in stored if one.bytes is not None and not one.broken]
    marks = {readable[-1].step: "last"} if readable else {}
    if (best := best_of(readable, best_step)) is not None:
        marks[best.step] = "best, last" if best.step in marks else "best"
    return marks


def _as_json(one: StoredCheckpoint) -> dict[str, object]:
    return {
        "step": one.step,
        "path": str(one.path),
        "saved_at": one.saved_at,
        "bytes": one.bytes,
        "validation_loss": one.validation_loss,
        "broken": None if one.broken is None else list(one.broken),
    }
