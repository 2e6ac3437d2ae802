"""Defines the common options of the verbs that tokenise, and their progress line."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from hotloop.cli.terminal.lines import console_of, redraw
from hotloop.core.errors import UsageError
from hotloop.core.units import count, duration
from hotloop.data.readers.formats import FORMATS
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    import argparse

    from hotloop.data.tokenising.progress import TokenizeProgress

__all__ = ["FILE_WIDTH", "ProgressLine", "add_options", "at_least", "settings"]

TERMINAL_EVERY, FILE_EVERY, FILE_WIDTH = 0.2, 10.0, 120  # seconds; columns without a terminal


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of tokenising, except the tokenizer."""
    add = parser.add_argument
    add(
        "--format",
        choices=[f.name for f in FORMATS.values() if f.suffixes],
        help="of all files; else the name of each says it",
    )
    add("--shape", metavar="NAME", help="text, prompt, instruction, chat or pair; else found out")
    add("--fields", metavar="PART=KEY,...", help="which key is what, such as prompt=question")
    add("--ignore", metavar="KEY,...", default="", help="keys that look like answers and are not")
    add("--loss", metavar="WHAT", help="all, answers, completion or assistant: what carries loss")
    template = "chatml, alpaca, or tokenizer: its own (default for chats where it has one)"
    add("--template", metavar="NAME", help=template)
    kinds, policies = ("file", "line", "blank"), ("stop", "skip", "replace")
    text = "what one text of a .txt file is"
    add("--documents", choices=kinds, default="file", help=text)
    add("--bad", choices=policies, default="stop", help="what becomes of bad rows")
    add("--backend", choices=("auto", "tokenizers", "gigatoken"), default="auto")
    add(
        "--processes",
        type=int,
        metavar="N",
        help="worker processes (0: none; by default one a core, or none beside gigatoken)",
    )


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return these options as keywords of `TokenizeRequest`."""
    from hotloop.machine.detect import host

    return {
        "shape": options.shape,
        "fields": _fields(options.fields),
        "ignored": tuple(key.strip() for key in options.ignore.split(",")),
        "loss": options.loss,
        "template": options.template,
        "policy": options.bad,
        "backend": options.backend,
        "processes": options.processes,
        "cores": max(1, int(host().cores or 1)),
    }


def at_least(options: argparse.Namespace, **least: int) -> None:
    """Raise UsageError for an option that is below its minimum."""
    for name, low in least.items():
        value = getattr(options, name)
        if value is not None and value < low:
            raise UsageError(f"--{name.replace('_', '-')} must be {low} or more, not {value}")


def _fields(text: str | None) -> dict[str, str]:
    """Parse "part=key,..."; return the key of each part."""
    keys: dict[str, str] = {}
    for pair in text.split(",") if text else []:
        part, equals, key = pair.partition("=")
        if not equals or not part or not key:
            raise UsageError(f"--fields {text!r}: expected PART=KEY,..., such as text=body")
        if part in keys:
            raise UsageError(f"--fields names {part!r} twice")
        keys[part] = key
    return keys


class ProgressLine:
    """The progress line: redrawn in a terminal, written at intervals into a file."""

    def __init__(self, *, quiet: bool) -> None:
        self._shows, self._live = not quiet, sys.stderr.isatty() and not quiet
        self._console = console_of(sys.stderr, FILE_WIDTH)
        self._began = time.monotonic()
        self._next = 0.0 if self._live else self._began + FILE_EVERY

    @property
    def seconds(self) -> float:
        """The seconds since the construction of this object."""
        return time.monotonic() - self._began

    def notify(self, progress: TokenizeProgress) -> None:
        """Show the progress, at most once in an interval."""
        now = time.monotonic()
        if not self._shows or now < self._next:
            return
        if progress.seconds:  # messages before the first count are shown at once
            self._next = now + (TERMINAL_EVERY if self._live else FILE_EVERY)
        line = visible(_progress_text(progress))[: self._console.width - 1]
        if self._live:
            redraw(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Clear the line."""
        if self._live:
            redraw()


def _progress_text(progress: TokenizeProgress) -> str:
    if not progress.seconds:
        return progress.what
    tokens_per_s = count(progress.tokens / progress.seconds)
    rate = f"{progress.bytes / progress.seconds / 1e6:.1f} MB/s, {tokens_per_s} tokens/s"
    if not progress.share:
        return f"{rate}  {progress.what}"
    left = progress.seconds * (1 - progress.share) / progress.share
    return f"{progress.share:4.0%}  {rate}, {duration(left)} left  {progress.what}"
