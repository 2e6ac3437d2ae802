"""What hotloop tune shows: a line that moves, one for each trial, the result with its proof."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.padding import Padding
from rich.text import Text

from hotloop.cli.arguments.script import console
from hotloop.core.finding import SourceLocation
from hotloop.core.tuning_result import untried
from hotloop.core.units import bytes_, duration, moment
from hotloop.report.excerpt import visible, where

if TYPE_CHECKING:
    from rich.console import Console

    from hotloop.core.tuning_result import Edit, Tuned, TuneRow

__all__ = ["TuneScreen", "show"]

_COLOUR: Final = {
    "kept": "bold green",
    "proved": "bold green",
    "failed": "bold red",
    "dropped": "",
    "cannot be told": "yellow",
}


class TuneScreen:
    """What is being tried and how much of the budget is left; on stderr."""

    def __init__(self, budget: float, *, quiet: bool = False) -> None:
        self._budget, self._began = budget, time.monotonic()
        self._out = console()
        self._shows, self._live = not quiet, sys.stderr.isatty() and not quiet
        self._trying = ""

    def tell(self, what: str) -> None:
        """Say what runs now: a move, or what its trials are at."""
        if what == "started" or what.startswith("round "):
            said = f"{self._trying}: {what}"
        else:
            self._trying = said = what
        if self._live:
            spent = time.monotonic() - self._began
            left = f"{duration(spent)} of {duration(self._budget)}"
            line = f"[{left}] {visible(said)}"[: self._out.width - 1]
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)

    def row(self, row: TuneRow) -> None:
        """Show what came of a trial."""
        if self._shows and row.plan is not None:
            self._clear()
            _line(row, self._out)

    def close(self) -> None:
        """Take the moving line away."""
        self._clear()

    def _clear(self) -> None:
        if self._live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def show(found: Tuned, out: Console, *, folder: Path, run: str) -> None:
    """Print the result, every trial and what is next. `run` is the command that takes the plan."""
    out.print(Text(f"hotloop tune: {visible(found.said)}", style="bold"))
    if found.stopped is not None and found.stopped not in found.said:
        out.print(Text(visible(found.stopped)))
    for note in found.notes:
        out.print(Text(visible(note)))
    out.print(Text(f"\nwhat was tried, in {duration(found.seconds)}", style="bold"))
    rows = [*found.rows, *([found.proof] if found.proof else [])]
    for row in rows:
        if row.plan is not None:
            _line(row, out)
            _figures(row, out)
    for (decision, why), names in untried(rows).items():
        out.print(Text(f"{decision}: {visible(', '.join(names))}"))
        out.print(Padding(Text(visible(why)), (0, 0, 0, 3), expand=False))
    if found.costs:
        out.print(Text("\nwhat is paid besides the steps", style="bold"))
        for cost in found.costs:
            then = "" if cost.after is None else f", {moment(cost.after)} under the plan"
            note = f" ({cost.note})" if cost.note else ""
            out.print(Text(visible(f"{cost.what}: {moment(cost.before)}{then}{note}")))
    if found.edits:
        out.print(Text("\nwhat only an edit can mend", style="bold"))
        for edit in found.edits:
            _edit(edit, out)
    _next(found, out, folder, run)


def _line(row: TuneRow, out: Console) -> None:
    line = Text(f"{visible(row.name)}: ").append(row.decision, _COLOUR.get(row.decision, "dim"))
    if row.comparison is not None and row.comparison.ratio is not None:
        line.append(f"  {row.comparison.factor}")
    out.print(line)


def _figures(row: TuneRow, out: Console) -> None:
    said = [row.why]
    figures = []
    if row.step_time is not None:
        figures.append(f"{moment(row.step_time.median)} a step (n {row.step_time.n} blocks)")
    if row.peak_bytes is not None:
        figures.append(bytes_(row.peak_bytes))
    if row.pays_back and row.decision in ("kept", "proved"):
        figures.append(f"pays back after {row.pays_back:,} steps")
    if figures:
        said.append(", ".join(figures))
    for text in said:
        out.print(Padding(Text(visible(text)), (0, 0, 0, 3), expand=False))


def _edit(edit: Edit, out: Console) -> None:
    here = str(Path.cwd())
    share = "" if edit.share is None else f" ({edit.share:.0%} of the time)"
    out.print(Text(f"{edit.rule}{share}: {visible(edit.claim)}"))
    if edit.places:
        places = ", ".join(where(place, here) for place in edit.places[:4])
        out.print(Padding(Text(places), (0, 0, 0, 3), expand=False), soft_wrap=True)
    out.print(Padding(Text(visible(edit.remedy)), (0, 0, 0, 3), expand=False))


def _next(found: Tuned, out: Console, folder: Path, run: str) -> None:
    there = where(SourceLocation(file=str(folder)), str(Path.cwd()))
    out.print()
    if found.plan != found.baseline or found.plan.ranks > 1:
        command = visible(shlex.join(found.target))
        out.print(Text(f"use it: {run} --plan {there} {command}"), soft_wrap=True)
        if found.plan != found.baseline and not found.is_proved:
            out.print(Text("it was not proved: run hotloop tune again to prove it"))
    out.print(Text(f"everything: {there}/report.html"), soft_wrap=True)
