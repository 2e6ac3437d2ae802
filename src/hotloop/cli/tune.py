"""hotloop tune: measures what makes a script or a recipe faster here, keeps it, and proves it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.script import add_script, is_script, target_of
from hotloop.cli.arguments.tuning import add_tuning, most_of, seconds_of
from hotloop.cli.terminal.tune_screen import search
from hotloop.core.errors import DeviceError
from hotloop.core.secrets import redacted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop tune",
        description="Tries techniques on a training script (or a recipe), in processes beside"
        " the best plan so far, beginning with those for which the doctor measured the "
        "largest gain; keeps what is faster and trains alike; proves the result against"
        " the script as it was. No line of the script changes. The trials run the "
        "script's first steps many times and end in the middle, and a script of seconds"
        " is also run whole: they write what it writes, so give it an output folder "
        "that may be written over.",
    )
    add_tuning(parser)
    add_script(parser)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; return 0 after a whole search, 130 after Ctrl-C, which keeps its result."""
    if args[:1] in (["-h"], ["--help"]):
        print(f"{_parser().format_help()}\nWith a recipe:\n")
    if not is_script(args):
        from hotloop.cli.tune_recipe import run_recipe

        return run_recipe(args)
    options = _parser().parse_args(args)
    target, seconds = target_of(options), seconds_of(options.budget)
    most = most_of(options)
    from hotloop.diagnosis.script import place_for
    from hotloop.tuning.script_target import Script

    if sys.platform == "win32":
        raise DeviceError("hotloop tune stops processes by signals: use WSL, Linux or macOS")
    folder = place_for(target, options.out, prefix="tune-")
    if not options.quiet:
        print(
            "hotloop: each trial runs the script's first steps, and a script of seconds is run "
            "whole at the end: they write over what it writes",
            file=sys.stderr,
        )
    script = Script(command=target.command, cwd=Path.cwd())
    name = redacted(target.command)
    return search(
        script, folder, options, seconds, most=most, run=lambda ranks: "hotloop run", name=name
    )
