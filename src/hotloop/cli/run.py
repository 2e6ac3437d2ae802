"""hotloop run: a script as it is, with techniques put in from outside."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.script import add_script, console, target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.observe import Observed

__all__ = ["run"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop run",
        description="Runs a training script as python would, to its end. Exit code, stdout and "
        "files are the script's.",
    )
    add = parser.add_argument
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/<script>-<time>")
    add("-q", "--quiet", action="store_true", help="say nothing but what is wrong")
    add_script(parser)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb; leaves with the script's exit code."""
    options = _parser().parse_args(args)
    target = target_of(options)
    from hotloop.cli.diagnosis import show
    from hotloop.host import Limits
    from hotloop.observe import observe, place_for

    def tell(found: Observed) -> None:
        if not options.quiet:
            show(found.case, found.diagnosis, console(), folder=found.folder, page=found.page)
        if found.problem is not None:
            print(f"hotloop: nothing was kept: {found.problem}", file=sys.stderr)

    observe(target, Limits(full=True), folder=place_for(target, options.out), tell=tell)
    return 0
