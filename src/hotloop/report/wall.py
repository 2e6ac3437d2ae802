"""The wall time of a run: the seconds of each row, and its processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hotloop.core.units import duration
from hotloop.report.chart import bar
from hotloop.report.figures import open_processes
from hotloop.report.history import UNTOLD
from hotloop.report.markup import Html, join, missing, panel, table, tag
from hotloop.report.sections import when

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.report.facts import Facts
    from hotloop.report.history import RunProcess

__all__ = ["key", "processes", "wall", "wall_bar"]

LOOKS = {  # of the wall time's rows, as classes of page.css
    "start": "start",
    "compile": "compile",
    "data wait": "wait",
    "step": "step",
    "evaluate": "evaluate",
    "save": "save",
    # rows of an observed script, whose steps are split up
    "import": "import",
    "data load": "load",
    "prepare": "prepare",
    "host to device": "copy",
    "forward": "step",
    "backward": "backward",
    "exchange": "exchange",
    "optimizer": "update",
    "host waits": "sync",
    "after step": "after",
    "log": "log",
}
_MEANS = {
    "start": "reading the data, building the model, restoring",
    "compile": "compiling or recording the model",
    "data wait": "waiting for a batch",
    "step": "forward, backward, update, and waiting for the device",
    "exchange": "waiting for the other processes, and what travels between them",
    "evaluate": "validations",
    "save": "checkpoints, as long as the loop waited",
    "other": "the log and the rest",
    UNTOLD: "of a process that wrote no end",
}


def key(name: str) -> Html:
    """Return a square in the colour of a row of the wall time."""
    look = LOOKS.get(name, "rest")
    square = tag("rect", class_=f"row {look}", width=12, height=12)
    return tag("svg", square, class_="key", aria_hidden="true")


def wall(run: Facts) -> Html:
    """Return the wall time of all processes as a bar and a table of rows."""
    rows = run.wall
    total = sum(rows.values())
    if not total:
        return missing("Unknown: no process has written an event.")
    lines: list[Sequence[object]] = [
        (join([key(name), name]), f"{seconds:,.2f}", f"{seconds / total:.1%}", _MEANS.get(name, ""))
        for name, seconds in rows.items()
    ]
    lines.append((tag("strong", "all"), tag("strong", f"{total:,.2f}"), "100.0%", duration(total)))
    titles = ("row", "seconds", "share", "what is in it")
    caption = "Every second since the start belongs to one row."
    if silent := open_processes(run):
        caption = (
            "Every second up to the last event of each process belongs to one row; what "
            f"{silent} of {len(run.history.processes)} took after it is unknown."
        )
    if run.ranks is not None:
        caption += " This is the time of rank 0; the others are below."
    return panel(
        wall_bar(rows, whole=total, id="wall", title="Wall time by row"),
        table(titles, lines, caption=caption, kind="wall"),
        processes(run),
    )


def wall_bar(rows: Mapping[str, float], *, whole: float, id: str, title: str) -> Html:
    """Return rows of seconds as one stacked bar, as wide as the page if they sum to `whole`."""
    shares = {name: seconds / (whole or 1.0) for name, seconds in rows.items()}
    return bar(shares, LOOKS, id=id, title=title)


def processes(run: Facts) -> Html:
    """Return a table of processes; empty if there is only one and it recorded its end."""
    all_processes = run.history.processes
    if len(all_processes) == 1 and all_processes[0].reason is not None:
        return Html()
    lines = [
        (
            f"{n}",
            when(process.began),
            f"{process.after:,} to {process.last:,}",
            f"{'' if process.reason else 'at least '}{duration(process.seconds)}",
            _ending(process, newest=n == len(all_processes)),
        )
        for n, process in enumerate(all_processes, 1)
    ]
    titles = ("process", "began", "steps", "wall time", "how it ended")
    caption = "The processes of this run; the time between them is not counted."
    return table(titles, lines, caption=caption, kind="list apart")


def _ending(process: RunProcess, *, newest: bool) -> str:
    sentence = process.reason
    if sentence is None:
        how = "is running, or was killed" if newest else "was killed"
        sentence = f"it {how}: no end was written, and its time after its last event is unknown"
    if process.void_steps:
        lost = f"{process.void_steps:,} steps, {duration(process.void)}"
        sentence += f"; what it made after its last checkpoint was lost ({lost})"
    return sentence
