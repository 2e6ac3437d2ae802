"""Defines what doctor, run and tune share: the arguments of a script, limits, copies."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.terminal.lines import keep_json
from hotloop.core.errors import UsageError
from hotloop.core.storage.files import write_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.core.case.case import Case
    from hotloop.core.finding import Diagnosis
    from hotloop.observe.when_to_stop import StopLimits
    from hotloop.process.run_script import ScriptTarget

__all__ = ["add_script", "is_script", "keep_copies", "limits_of", "target_of"]

_VALUES = frozenset({
    "--steps", "--time", "--json", "--log", "--html", "--out", "--with", "--plan", "--config",
    "--without", "--budget", "--allow", "--experiments", "--baseline", "--fail-on"
})  # fmt: skip


def is_script(args: Sequence[str]) -> bool:
    """Whether the first word that is not an option is a script, or -m precedes it."""
    words = iter(args)
    for word in words:
        if word == "-m":
            return True
        if word in _VALUES:
            next(words, None)
        elif not word.startswith("-"):
            path = Path(word)
            return word.endswith(".py") or path.is_file() or (path / "__main__.py").is_file()
    return False


def add_script(parser: argparse.ArgumentParser) -> None:
    """Add the script and its arguments, which include all words that follow it."""
    rest = argparse.REMAINDER
    parser.add_argument("-m", dest="module", nargs=rest, metavar="MODULE", help="as python -m")
    parser.add_argument("command", nargs=rest, metavar="train.py [args]", help="the script")


def target_of(options: argparse.Namespace) -> ScriptTarget:
    """Return the named script or module; raise UsageError if there is none."""
    from hotloop.process.run_script import ScriptTarget

    if options.module is not None:
        return ScriptTarget.of(["-m", *options.module])
    return ScriptTarget.of(options.command)


def limits_of(options: argparse.Namespace) -> StopLimits:
    """Return the limits of observation; raise UsageError for contradictory options."""
    from hotloop.observe.when_to_stop import PATIENCE, StopLimits

    if options.steps is not None and options.steps < 1:
        raise UsageError(f"--steps {options.steps}: at least 1 step must be observed")
    if options.time is not None and options.time <= 0:
        raise UsageError(f"--time {options.time:g}: a time above 0 s is needed")
    if options.full and (options.steps or options.time):
        raise UsageError("--full runs the script to its end; leave out --steps and --time")
    unset = options.steps is not None  # --steps alone sets no time limit
    seconds = options.time if options.time is not None else None if unset else 120.0
    patience = None if options.time is not None else PATIENCE
    return StopLimits(steps=options.steps, seconds=seconds, patience=patience, full=options.full)


def keep_copies(
    case: Case,
    diagnosis: Diagnosis,
    *,
    json: Path | None,
    html: Path | None = None,
    comparison: Mapping[str, object] | None = None,
) -> None:
    """Write the requested copies of the result, with its comparison with a baseline."""
    from hotloop.diagnosis.script import findings_json

    compared = {} if comparison is None else {"comparison": comparison}
    keep_json(json, findings_json(case, diagnosis) | compared)
    if html is not None:
        from hotloop.report.diagnosis import page

        write_file(html, page(case, diagnosis))
