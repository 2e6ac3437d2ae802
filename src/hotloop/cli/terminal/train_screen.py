"""Prints the output of hotloop train: tables before step 1, a progress line, the wall time.

Everything goes to stderr except the path of the run, which is data. No meaning rests on colour
alone; without a terminal there are no control characters, and progress lines come at intervals.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotloop.cli.terminal.lines import console_of, plain_table
from hotloop.core.progress import (
    CheckpointSaved,
    EpochDone,
    Evaluated,
    Note,
    Progress,
    ReadyToTrain,
    Working,
)
from hotloop.core.units import bytes_, count, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hotloop.core.progress import Message
    from hotloop.jobs.run import RunResult

__all__ = ["Screen", "progress_line"]

TERMINAL_EVERY, FILE_EVERY = 0.1, 10.0  # seconds between two progress lines
FILE_WIDTH, SETTINGS_WIDTH = 120, 200  # columns without a terminal
NARROW = 70  # columns below which a table of four columns cannot be read
_COLOUR = {"in effect": "green", "not needed here": "dim", "refused": "yellow"}


class Screen:
    """Renders messages of a run."""

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, console: Console | None = None
    ) -> None:
        self._console = console or console_of(sys.stderr, FILE_WIDTH)
        self._quiet, self._verbose = quiet, verbose
        self._live = self._console.is_terminal
        self._drawn = False
        self._next = 0.0 if self._live else time.monotonic() + FILE_EVERY
        self._last: Progress | None = None
        self._is_seen = True

    @classmethod
    def unseen(cls) -> Screen:
        """Return a screen that shows nothing."""
        screen = cls(quiet=True, console=Console(quiet=True))
        screen._is_seen = False
        return screen

    def notify(self, message: Message) -> None:
        """Show one message of the engine."""
        match message:
            case Progress() | Working():
                self._progress(message)
            case Note(warning=True):
                self._line(f"[yellow]warning:[/] {escape(message.text)}", always=True)
            case Note():
                self._line(escape(message.text))
            case ReadyToTrain():
                self._ready(message)
            case Evaluated():
                best = "  best so far" if message.best else ""
                figures = "".join(
                    f"  {name} {'undefined' if value is None else format(value, '.4f')}"
                    for name, value in message.figures.items()
                )
                self._line(
                    f"step {message.step}  validation {message.loss:.4f} {message.unit}{figures}  "
                    f"({duration(message.seconds)}){best}"
                )
            case EpochDone() if message.seconds >= 1 or self._verbose:
                mfu = "unknown" if message.mfu is None else f"{message.mfu:.1%}"
                self._line(
                    f"epoch {message.epoch} done in {duration(message.seconds)}  "
                    f"{count(message.tokens_per_s)} tokens/s  MFU {mfu}"
                )
            case CheckpointSaved() if self._verbose:
                self._line(
                    f"saved step {message.step}, {bytes_(message.bytes)} in "
                    f"{duration(message.seconds)}"
                )

    def settings(self, rows: Iterable[tuple[str, str, str, str]]) -> None:
        """Print the resolved settings to stdout, as they are the requested output."""
        table = plain_table("key", "value", "origin", "meaning")
        for row in rows:
            table.add_row(*map(escape, row))
        console_of(sys.stdout, SETTINGS_WIDTH).print(table)

    def renamed(self, names: Sequence[tuple[str, str, str]]) -> None:
        """Print the present names of settings with an older spelling."""
        for old, new, _ in names:
            self._line(f"{escape(old)} is {escape(new)} here")

    def result(self, result: RunResult) -> None:
        """Print the end of a run: the reason, the best validation and the wall time by row."""
        self._erase()
        if self._last is not None and not self._quiet:
            self._console.print(progress_line(self._last, self._console.width), markup=False)
        if result.wall:
            self._wall(result.wall)
        best = ""
        if result.best_loss is not None:
            best = f"; best validation {result.best_loss:.4f} at step {result.best_step}"
        self._line(f"[bold]{result.reason}[/] after step {result.step}{best}", always=True)
        if result.path is None:
            self._line("no run folder was made yet: nothing to resume", always=True)
        if result.resume_command:
            self._line(f"go on with: {escape(result.resume_command)}", always=True)
        if result.path is not None and self._is_seen:
            print(result.path, flush=True)

    def say(self, text: str) -> None:
        """Print a line, even if the screen is quiet."""
        self._line(escape(text), always=True)

    def clear(self) -> None:
        """Clear the progress line before other output."""
        self._erase()

    def _wall(self, wall: Mapping[str, float]) -> None:
        if self._quiet:
            return
        total = sum(wall.values()) or 1.0
        table = Table(box=None, pad_edge=False, title="wall time", title_justify="left")
        table.add_column("")
        table.add_column("seconds", justify="right")
        table.add_column("share", justify="right")
        for name, seconds in wall.items():
            table.add_row(name, f"{seconds:.2f}", f"{seconds / total:.1%}")
        table.add_row("[bold]all[/]", f"[bold]{total:.2f}[/]", "100.0%")
        self._console.print(table)

    def _ready(self, message: ReadyToTrain) -> None:
        if self._quiet:
            return
        self._erase()
        facts = Table(box=None, show_header=False, pad_edge=False)
        for name, text in {"run": str(message.path), **message.facts}.items():
            facts.add_row(f"[bold]{name}[/]", escape(text))
        self._console.print(facts)
        reasons = {what: reason for what, _, reason in message.choices}
        if self._console.width < NARROW:
            for row in message.effects:
                self._console.print(
                    f"[{_COLOUR[row.word]}]{row.word}[/]: {escape(row.technique)}, "
                    f"asked by {escape(row.origin)}: {escape(row.how)}"
                )
            return
        titles = ("technique", "asked by", "", "how it was read back, or why not")
        effects = plain_table(*titles)
        for row in message.effects:
            reason = reasons.get(row.technique)
            how = escape(row.how) + (f" [dim]({escape(reason)})[/]" if reason else "")
            word = f"[{_COLOUR[row.word]}]{row.word}[/]"
            effects.add_row(escape(row.technique), escape(row.origin), word, how)
        self._console.print(effects)

    def _progress(self, message: Progress | Working) -> None:
        if isinstance(message, Progress):
            self._last = message
        now = time.monotonic()
        if self._quiet or (now < self._next and not self._verbose):
            return
        self._next = now + (TERMINAL_EVERY if self._live else FILE_EVERY)
        text = (
            f"{message.what} {message.share:.0%}"
            if isinstance(message, Working)
            else progress_line(message, self._console.width)
        )
        if not self._live:
            self._console.print(text, markup=False)
            return
        self._erase()
        self._console.file.write(text[: self._console.width - 1])
        self._console.file.flush()
        self._drawn = True

    def _line(self, text: str, *, always: bool = False) -> None:
        if self._quiet and not always:
            return
        self._erase()
        self._console.print(text)

    def _erase(self) -> None:
        if self._drawn:
            self._console.file.write("\r\x1b[2K")
            self._drawn = False


def progress_line(progress: Progress, width: int) -> str:
    """Return the progress line; the least important fields are dropped if it is too wide."""
    unknown = "unknown"
    memory = unknown if progress.memory_bytes is None else bytes_(progress.memory_bytes)
    busy = unknown if progress.utilisation is None else f"{progress.utilisation:.0%}"
    left = unknown if progress.seconds_left is None else duration(progress.seconds_left)
    if progress.steady_from is not None:
        left = f"compiling: judge speed from step {progress.steady_from}"
    # Rates are the least important if there are losses of parts.
    rates = 8 if progress.parts else 0
    part_losses = " ".join(f"{name} {loss:.3g}" for name, loss in _short(progress.parts).items())
    fields = [  # (text, rank: the highest goes first)
        (f"step {progress.step}/{progress.steps}", 0),
        (f"loss {progress.loss:.4f}", 1),
        *([(part_losses, 4)] if part_losses else []),
        (f"lr {progress.learning_rate:.1e}", 7),
        (f"{progress.steps_per_s:.3g} it/s", 2 + rates),
        (f"{count(progress.samples_per_s)} samples/s", 8 + rates),
        (f"{count(progress.tokens_per_s)} tokens/s", 4 + rates),
        (f"mem {memory}", 5),
        (f"util {busy}", 6),
        (f"left {left}", 3),
    ]
    while len(line := "  ".join(text for text, _ in fields)) >= width and len(fields) > 1:
        fields.remove(max(fields, key=lambda field: field[1]))
    return line


def _short(losses: Mapping[str, float]) -> dict[str, float]:
    """Return losses by the shortest prefixes of their names that are unique, 3 letters or more."""
    letters = 3
    while len({name[:letters] for name in losses}) < len(losses):
        letters += 1
    return {name[:letters]: loss for name, loss in losses.items()}
