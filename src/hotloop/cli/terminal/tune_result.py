"""Ends hotloop tune, whether stopped or not: prints and writes the result."""

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


def finish(
    result: Tuned,
    folder: Path,
    options: argparse.Namespace,
    *,
    run: str,
    stopped: Sequence[int] = (),
) -> int:
    """Print a result and write the requested copies; return the exit code."""
    text = page(result)
    write_file(RunDir(folder).report, text)
    if options.html is not None:
        write_file(options.html, text)
    if options.json is not None:
        write_json(options.json, result.to_json())
    show(result, console(stdout=True), folder=folder, run=run)
    if result.stopped and result.stopped.startswith("stopped"):
        print("hotloop: stopped; what was measured until then is kept", file=sys.stderr)
        return 128 + (stopped[0] if stopped else signal.SIGINT)
    return 0
