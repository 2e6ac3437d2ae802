"""hotloop bench: a ladder from the loop before to hotloop's best, each rung measured here."""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.bench.ladders import LADDERS, find
from hotloop.bench.targets import judge, parse
from hotloop.cli import bench_compare
from hotloop.cli.arguments.recipe import ORDER, split
from hotloop.cli.terminal.lines import console_of, keep_json, redraw
from hotloop.core.errors import UsageError, did_you_mean
from hotloop.core.secrets import redacted
from hotloop.core.storage.files import make_folder, write_file
from hotloop.jobs.request import fresh_request, read_plan
from hotloop.machine.threads import load, others, watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.bench.result import Result
    from hotloop.bench.targets import Requirement, RequirementVerdict
    from hotloop.recipes.building.ladder import Ladder
    from hotloop.tuning.lane import RaceLength

__all__ = ["run"]

_WIDTH = 80  # columns where stdout is no terminal
_MISSED, _STOPPED = 1, 130  # exit codes


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop bench",
        description="Measure a ladder: the loop before, then one technique at a time, up to "
        f"hotloop's own choice.\n\nladders: {', '.join(LADDERS)}\n\n{ORDER}\n"
        "hotloop bench compare A.json B.json compares two results of one machine; with --help it "
        "tells more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("what", nargs="*", metavar="LADDER key=value", help="the ladder, then settings")
    add("--config", type=Path, metavar="FILE", help="settings from a YAML or JSON file")
    add("--plan", type=Path, metavar="FILE", help="a plan as one more rung, the last")
    add("--rungs", metavar="ID,...", help="only these, beside the lowest")
    add("--rounds", type=int, default=10, metavar="N", help="blocks of each (default 10)")
    add("--require", metavar="TARGETS", help='such as "tokens_per_s>=5x vram<=23GiB"; else exit 1')
    add("--no-epochs", action="store_true", help="make no epoch for real")
    add("--json", type=Path, metavar="PATH", help="write the result, after each rung")
    add("--html", type=Path, metavar="PATH", help="write the result as a page")
    add("--out", type=Path, metavar="DIR", help="keep plans and settings of the epochs there")
    add("-q", "--quiet", action="store_true", help="no progress")
    return parser


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    if args and args[0] == "compare":
        return bench_compare.run(args[1:])
    watch()  # what other processes use while torch loads
    options = _parser().parse_intermixed_args(args)
    name, assignments = split(options.what)
    if name is None:
        raise UsageError(f"which ladder? There are: {', '.join(LADDERS)}")
    ladder, targets = find(name), parse(options.require) if options.require else []
    only = _only(options.rungs, ladder)
    if options.rounds < 1:
        raise UsageError(f"--rounds {options.rounds}: at least 1 round must be made")
    with ExitStack() as stack:
        folder = options.out or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        result = _climb(options, ladder, assignments, only, make_folder(folder))
    return _end(options, result, targets)


def _only(text: str | None, ladder: Ladder) -> tuple[str, ...]:
    """Return the ids of the requested rungs; raise UsageError for an unknown one."""
    known = [rung.id for rung in ladder.rungs]
    requested = tuple(text.split(",")) if text else ()
    for id in requested:
        if id not in known:
            near = did_you_mean(id, known)
            raise UsageError(f"--rungs: there is no {id!r}{near} (there are: {', '.join(known)})")
    return requested


def _climb(
    options: argparse.Namespace,
    ladder: Ladder,
    assignments: Sequence[str],
    only: tuple[str, ...],
    folder: Path,
) -> Result:
    request = fresh_request(ladder.recipe, assignments, config_file=options.config)
    request.refuse_series()
    if options.plan is not None:
        ladder = _with_plan(ladder, options.plan)
        only = (*only, ladder.rungs[-1].id) if only else ()
    before = load()
    from hotloop.bench.run_ladder import Climb
    from hotloop.jobs.job import assemble

    progress = _Progress(quiet=options.quiet)
    prepared = assemble(request, lambda _: None, lambda: None)
    climb = Climb(
        ladder,
        prepared,
        pace=_pace(options.rounds),
        folder=folder,
        command=_command(options),
        busy_cores=others(before, load()),
        notify=progress.notify,
        keep=lambda result: _write(options.json, result, ()),
    )
    try:
        return climb.climb(only, epochs=not options.no_epochs)
    finally:
        progress.clear()


def _pace(rounds: int) -> RaceLength:
    """Return a race of a fixed number of rounds, which must not depend on their results."""
    from hotloop.tuning.lane import RaceLength

    return RaceLength(rounds=rounds, pairs=1, start=600.0, hopeless=math.inf)


def _command(options: argparse.Namespace) -> list[str]:
    """Return the parts of the command that affect the measurement, without output paths."""
    rungs = ["--rungs", options.rungs] if options.rungs else []
    files = [f"--{name}" for name in ("config", "plan") if getattr(options, name) is not None]
    rounds = ["--rounds", str(options.rounds)]
    return ["hotloop", "bench", *redacted(options.what), *rounds, *rungs, *files]


def _with_plan(ladder: Ladder, path: Path) -> Ladder:
    from hotloop.recipes.building.ladder import Rung

    plan = read_plan(path, takes_techniques=False)
    rung = Rung(id="plan", name=f"plan {path.name}", change=lambda _, __: plan, is_top=True)
    return replace(ladder, rungs=(*ladder.rungs, rung), judged=rung.id)


def _end(options: argparse.Namespace, result: Result, targets: Sequence[Requirement]) -> int:
    """Print and write the result; return the exit code."""
    from hotloop.cli.terminal.bench_table import show, show_verdicts

    row = result.row(result.judged)
    verdicts = judge(targets, row, f"the rung {result.judged} was not measured")
    out = console_of(sys.stdout, _WIDTH)
    show(result, out)
    show_verdicts(verdicts, result.judged if row is None else row.name, out)
    _write(options.json, result, verdicts)
    if options.html is not None:
        from hotloop.bench.page import page

        write_file(options.html, page(result, verdicts))
    if result.stopped is not None:
        return _STOPPED
    return 0 if all(verdict.met for verdict in verdicts) else _MISSED


def _write(path: Path | None, result: Result, verdicts: Sequence[RequirementVerdict]) -> None:
    keep_json(path, {**result.to_json(), "targets": [v.to_json() for v in verdicts]})


class _Progress:
    """Shows progress on stderr: one line, or a line for each rung without a terminal."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._live, self._last_rung = quiet, sys.stderr.isatty(), ""

    def notify(self, text: str) -> None:
        """Show the current action."""
        if self._quiet:
            return
        if self._live:
            redraw(text[:_WIDTH])
            return
        rung = text.partition(":")[0]
        if rung != self._last_rung:
            print(text, file=sys.stderr, flush=True)
        self._last_rung = rung

    def clear(self) -> None:
        """Clear the line."""
        if self._live and not self._quiet:
            redraw()
