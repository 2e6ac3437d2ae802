"""hotloop status: every run below a folder, what it does, how far it is, and what is saved."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.cli.terminal.lines import console_of, keep_json, plain_table
from hotloop.core.codec import to_json
from hotloop.core.units import ago, duration
from hotloop.monitor.runs import rows
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hotloop.monitor.runs import RunRow

__all__ = ["run"]

NARROW, WIDTH = 90, 120  # columns below which rows become lists; columns without a terminal
SCHEMA = 1  # of --json; history: 1 (2026-11) first
COLOURS = {
    "running": "cyan",
    "complete": "green",
    "crashed": "bold red",
    "diverged": "bold red",
    "failed": "bold red",
    "damaged": "bold red",
    "stopped": "yellow",
}


def run(args: Sequence[str], *, console: Console | None = None) -> int:
    """Run the verb; return 0 whatever the states of the runs. `console` is a seam."""
    parser = argparse.ArgumentParser(prog="hotloop status", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path(), metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the rows as JSON")
    options = parser.parse_args(args)
    run_rows = rows(options.folder)
    keep_json(options.json, {"schema": SCHEMA, "runs": [to_json(row) for row in run_rows]})
    out = console or console_of(sys.stdout, WIDTH)
    if not run_rows:
        print(f"there is no run in {options.folder.absolute()} or below", file=sys.stderr)
        return 0
    (_list if out.width < NARROW else _table)(run_rows, out)
    return 0


def _table(run_rows: Sequence[RunRow], out: Console) -> None:
    table = plain_table("run", "what", "state", "step", "saved", "left", "")
    for row in run_rows:
        table.add_row(
            Text(visible(row.path)),
            Text(visible(row.what or "unknown")),
            Text(_state(row), COLOURS.get(row.state, "")),
            _steps(row),
            _saved(row),
            _left(row),
            Text(visible(row.why or "")),
        )
    out.print(table)


def _list(run_rows: Sequence[RunRow], out: Console) -> None:
    for row in run_rows:
        out.print(Text(visible(row.path), "bold"))
        state = Text("  ").append(_state(row), COLOURS.get(row.state, ""))
        out.print(state.append(f"  step {_steps(row)}"))
        if row.saved_step is not None:
            out.print(Text(f"  saved {_saved(row)}"))
        if row.left_s is not None:
            out.print(Text(f"  left {_left(row)}"))
        if row.why:
            out.print(Text(f"  {visible(row.why)}"))


def _state(row: RunRow) -> str:
    return row.state if row.phase in (None, row.state) else f"{row.state}: {row.phase}"


def _steps(row: RunRow) -> str:
    if row.step is None:
        return "unknown"
    return f"{row.step:,}" + ("" if row.steps is None else f" of {row.steps:,}")


def _saved(row: RunRow) -> str:
    if row.saved_step is None or row.saved_ago_s is None:
        return "-" if row.steps is None else "none"
    return f"step {row.saved_step:,}, {ago(row.saved_ago_s)}"


def _left(row: RunRow) -> str:
    if row.state != "running":
        return "-"
    return "unknown" if row.left_s is None else duration(row.left_s)
