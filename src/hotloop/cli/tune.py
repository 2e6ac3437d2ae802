"""hotloop tune: measures what makes a script or a recipe faster here, keeps it, and proves it."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import add_script, console, is_script, target_of
from hotloop.cli.terminal.tune_screen import Progress, show
from hotloop.core.errors import DeviceError, UsageError
from hotloop.core.secrets import redacted
from hotloop.core.storage.files import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hotloop.core.tuning_result import Tuned

__all__ = ["add_tuning", "finish", "run", "seconds_of", "stoppable"]

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop tune",
        description="Tries techniques one by one on a training script (or a recipe), in fresh "
        "processes beside the best plan so far; keeps what is faster and trains alike; proves the "
        "result against the script as it was. No line of the script changes. The trials run the "
        "script's first steps many times and end in the middle: they write what it writes, so give "
        "it an output folder that may be written over.",
    )
    add_tuning(parser)
    add_script(parser)
    return parser


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the options that scripts and recipes share."""
    add = parser.add_argument
    add("--budget", default="10m", metavar="T", help="time to search: 90s, 10m (default), 1h")
    add(
        "--allow",
        action="append",
        default=[],
        choices=["training"],
        help="also try what changes the training, such as the order or padding of samples",
    )
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/tune-<name>-<time>")
    add("--json", type=Path, metavar="PATH", help="write the result as JSON")
    add("--html", type=Path, metavar="PATH", help="write the page there as well")
    add("-q", "--quiet", action="store_true", help="the result alone, no progress")


def seconds_of(text: str) -> float:
    """Return the seconds of 90, 90s, 10m or 1.5h; UsageError for other words."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS or float(match[1]) <= 0:
        raise UsageError(f"--budget {text}: expected a time like 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def run(args: Sequence[str]) -> int:
    """Run the verb; 0 when the search came to its end, 130 after Ctrl-C, with what was found."""
    if args[:1] in (["-h"], ["--help"]):
        print(f"{_parser().format_help()}\nWith a recipe:\n")
    if not is_script(args):
        from hotloop.cli.tune_recipe import run_recipe

        return run_recipe(args)
    options = _parser().parse_args(args)
    target, seconds = target_of(options), seconds_of(options.budget)
    from hotloop.diagnosis.script import place_for
    from hotloop.diagnosis.script_plan import machine
    from hotloop.tuning.script_target import Script
    from hotloop.tuning.tune import Wanted, tune

    if sys.platform == "win32":
        raise DeviceError("hotloop tune stops processes by signals: use WSL, Linux or macOS")
    folder = place_for(target, options.out, prefix="tune-")
    progress = Progress(seconds, quiet=options.quiet)
    if not options.quiet:
        said = "each trial runs the script's first steps, and writes over what they write"
        print(f"hotloop: {said}", file=sys.stderr)
    script = Script(command=target.command, cwd=Path.cwd(), hardware=machine())
    wanted = Wanted(seconds=seconds, allow_training="training" in options.allow)
    try:
        with stoppable() as stopped:
            found = tune(
                script,
                folder,
                wanted,
                name=redacted(target.command),
                tell=progress.tell,
                row=progress.row,
            )
    finally:
        progress.close()
    return finish(found, folder, options, run="hotloop run", stopped=stopped)


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
    from hotloop.core.storage.files import write_file
    from hotloop.core.storage.rundir import RunDir
    from hotloop.report.tuned import page

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
