"""How hotloop tune ends: stopped or not, it shows and keeps what was measured."""

from __future__ import annotations

import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import console
from hotloop.cli.terminal.tune_screen import show
from hotloop.core.storage.files import write_file, write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.report.tuned import page

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from hotloop.core.tuning_result import Tuned

__all__ = ["finish", "stoppable"]


@contextmanager
def stoppable() -> Iterator[list[int]]:
    """Have SIGTERM and SIGHUP end a search as Ctrl-C does; yields the signals that came."""
    came: list[int] = []

    def stop(number: int, frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), stop) for name in names}
    try:
        yield came
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def finish(
    found: Tuned,
    folder: Path,
    options: argparse.Namespace,
    *,
    run: str,
    stopped: Sequence[int] = (),
) -> int:
    """Show a result and write the copies that were asked for; return the exit code."""
    text = page(found)
    write_file(RunDir(folder).report, text)
    if options.html is not None:
        write_file(options.html, text)
    if options.json is not None:
        write_json(options.json, found.to_json())
    show(found, console(stdout=True), folder=folder, run=run)
    if found.stopped and found.stopped.startswith("stopped"):
        print("hotloop: stopped; what was measured until then is kept", file=sys.stderr)
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    return 0
