"""hotloop checkpoints: what a run has saved, and whether it is sound."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.terminal.lines import keep_json
from hotloop.core.codec import to_json
from hotloop.core.errors import CheckpointError
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import bytes_
from hotloop.engine.checkpoint.folders import StoredCheckpoint, best_of, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb; raise CheckpointError (exit code 74) if a checkpoint is broken."""
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
    for checkpoint in stored:
        loss = "-" if checkpoint.validation_loss is None else f"{checkpoint.validation_loss:.4f}"
        size = "-" if checkpoint.bytes is None else bytes_(checkpoint.bytes)
        state = "  ".join(filter(None, [_state(checkpoint), marks.get(checkpoint.step)]))
        saved_at = checkpoint.saved_at or "-"
        print(f"{checkpoint.step:>10}  {saved_at:<25}  {size:>9}  {loss:>10}  {state}")
    keep_json(options.json, {"checkpoints": [_as_json(checkpoint) for checkpoint in stored]})
    if broken := [checkpoint for checkpoint in stored if checkpoint.broken]:
        raise CheckpointError(f"{len(broken)} of {len(stored)} checkpoints in {folder} are broken")
    return 0


def _state(checkpoint: StoredCheckpoint) -> str:
    if checkpoint.bytes is None:
        return "broken: its manifest or state cannot be read"
    if checkpoint.broken is None:
        return "not verified"
    return f"broken: {'; '.join(checkpoint.broken)}" if checkpoint.broken else "verified"


def _marks(stored: Sequence[StoredCheckpoint], best_step: int | None) -> dict[int, str]:
    readable = [
        checkpoint
        for checkpoint in stored
        if checkpoint.bytes is not None and not checkpoint.broken
    ]
    marks = {readable[-1].step: "last"} if readable else {}
    if (best := best_of(readable, best_step)) is not None:
        marks[best.step] = "best, last" if best.step in marks else "best"
    return marks


def _as_json(checkpoint: StoredCheckpoint) -> dict[str, object]:
    value, names = to_json(checkpoint), "step path saved_at bytes validation_loss broken"
    return {name: value[name] for name in names.split()}
