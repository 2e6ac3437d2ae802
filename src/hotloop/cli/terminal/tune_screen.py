"""Runs the search of hotloop tune, and prints its progress, its trials and its result."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.padding import Padding
from rich.text import Text

from hotloop.cli.terminal.lines import console, keep_json, redraw
from hotloop.core.finding import SourceLocation
from hotloop.core.storage.files import write_file
from hotloop.core.storage.rundir import RunDir
from hotloop.core.tuning_result import untried
from hotloop.core.units import bytes_, duration, moment
from hotloop.report.excerpt import visible, where
from hotloop.report.tuned import page

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from rich.console import Console

    from hotloop.core.tuning_result import Edit, Tuned, TuneRow
    from hotloop.techniques.base import Numerics

__all__ = ["TuneScreen", "search", "show"]

_COLOUR: Final = {
    "kept": "bold green",
    "proved": "bold green",
    "failed": "bold red",
    "dropped": "",
    "cannot be told": "yellow",
}


class TuneScreen:
    """Shows the current trial and the used part of the budget on stderr."""

    def __init__(self, budget: float, *, quiet: bool = False) -> None:
        self._budget, self._began = budget, time.monotonic()
        self._out = console()
        self._shows, self._live = not quiet, sys.stderr.isatty() and not quiet
        self._trying = ""

    def notify(self, what: str) -> None:
        """Show the current move, or the state of its trials."""
        if what == "started" or what.startswith("round "):
            text = f"{self._trying}: {what}"
        else:
            self._trying = text = what
        if self._live:
            spent = time.monotonic() - self._began
            left = f"{duration(spent)} of {duration(self._budget)}"
            line = f"[{left}] {visible(text)}"[: self._out.width - 1]
            redraw(line)

    def row(self, row: TuneRow) -> None:
        """Print the outcome of a trial."""
        if self._shows and row.plan is not None:
            self.clear()
            _line(row, self._out)

    def clear(self) -> None:
        """Clear the progress line."""
        if self._live:
            redraw()


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP end a search as Ctrl-C does; yield the received signals."""
    received: list[int] = []

    def stop(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield received
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def search(
    target: Any,
    folder: Path,
    options: argparse.Namespace,
    seconds: float,
    *,
    most: Numerics,
    run: Callable[[int], str],
    **more: Any,
) -> int:
    """Search, print and write the result, whether stopped or not; return the exit code.

    `most` says how far a plan may change the numbers. `run` returns the command that takes the
    plan, by its number of ranks. `more` are further arguments of `tuning.tune.tune`.
    """
    from hotloop.tuning.tune import TuneRequest, tune

    progress = TuneScreen(seconds, quiet=options.quiet)
    request = TuneRequest(seconds=seconds, most=most)
    try:
        with _stoppable() as stopped:
            result = tune(target, folder, request, notify=progress.notify, row=progress.row, **more)
    finally:
        progress.clear()
    text = page(result)
    write_file(RunDir(folder).report, text)
    if options.html is not None:
        write_file(options.html, text)
    keep_json(options.json, result.to_json())
    show(result, console(stdout=True), folder=folder, run=run(result.plan.ranks))
    if result.stopped and result.stopped.startswith("stopped"):
        print("hotloop: stopped; what was measured until then is kept", file=sys.stderr)
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    return 0


def show(result: Tuned, out: Console, *, folder: Path, run: str) -> None:
    """Print the result, every trial and the next step. `run` is the command that takes the plan."""
    out.print(Text(f"hotloop tune: {visible(result.said)}", style="bold"))
    if result.stopped is not None and result.stopped not in result.said:
        out.print(Text(visible(result.stopped)))
    for note in result.notes:
        out.print(Text(visible(note)))
    out.print(Text(f"\nwhat was tried, in {duration(result.seconds)}", style="bold"))
    if result.spent:
        out.print(Text(result.spent))
    rows = [*result.rows, *([result.proof] if result.proof else [])]
    for row in rows:
        if row.plan is not None:
            _line(row, out)
            _figures(row, out)
    for (decision, why), names in untried(rows).items():
        out.print(Text(f"{decision}: {visible(', '.join(names))}"))
        out.print(Padding(Text(visible(why)), (0, 0, 0, 3), expand=False))
    if result.costs:
        out.print(Text("\nwhat is paid besides the steps", style="bold"))
        for cost in result.costs:
            then = "" if cost.after is None else f", {moment(cost.after)} under the plan"
            note = f" ({cost.note})" if cost.note else ""
            out.print(Text(visible(f"{cost.what}: {moment(cost.before)}{then}{note}")))
    if result.edits:
        out.print(Text("\nwhat only an edit can mend", style="bold"))
        for edit in result.edits:
            _edit(edit, out)
    _next(result, out, folder, run)


def _line(row: TuneRow, out: Console) -> None:
    line = Text(f"{visible(row.name)}: ").append(row.decision, _COLOUR.get(row.decision, "dim"))
    if row.comparison is not None and row.comparison.ratio is not None:
        line.append(f"  {row.comparison.factor}")
    out.print(line)


def _figures(row: TuneRow, out: Console) -> None:
    lines = [row.why]
    figures = []
    if row.step_time is not None:
        figures.append(f"{moment(row.step_time.median)} a step (n {row.step_time.n} blocks)")
    if row.peak_bytes is not None:
        figures.append(bytes_(row.peak_bytes))
    if row.seconds:
        figures.append(f"took {duration(row.seconds)}")
    if row.pays_back and row.decision in ("kept", "proved"):
        figures.append(f"pays back after {row.pays_back:,} steps")
    if figures:
        lines.append(", ".join(figures))
    for text in lines:
        out.print(Padding(Text(visible(text)), (0, 0, 0, 3), expand=False))


def _edit(edit: Edit, out: Console) -> None:
    folder = str(Path.cwd())
    share = "" if edit.share is None else f" ({edit.share:.0%} of the time)"
    out.print(Text(f"{edit.rule}{share}: {visible(edit.claim)}"))
    if edit.places:
        places = ", ".join(where(place, folder) for place in edit.places[:4])
        out.print(Padding(Text(places), (0, 0, 0, 3), expand=False), soft_wrap=True)
    out.print(Padding(Text(visible(edit.remedy)), (0, 0, 0, 3), expand=False))


def _next(result: Tuned, out: Console, folder: Path, run: str) -> None:
    location = where(SourceLocation(file=str(folder)), str(Path.cwd()))
    out.print()
    if result.plan != result.baseline or result.plan.ranks > 1:
        command = visible(shlex.join(result.target))
        out.print(Text(f"use it: {run} --plan {location} {command}"), soft_wrap=True)
        if result.plan != result.baseline and not result.is_proved:
            out.print(Text("it was not proved: run hotloop tune again to prove it"))
    out.print(Text(f"everything: {location}/report.html"), soft_wrap=True)
