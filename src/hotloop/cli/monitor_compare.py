"""hotloop monitor compare: two records of hotloop monitor, and conditions on the later one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape

from hotloop.cli.terminal.lines import console_of, keep_json, plain_table
from hotloop.core.codec import to_json
from hotloop.core.errors import UsageError
from hotloop.monitor.compare import compare_records, read_record
from hotloop.monitor.requirements import judged, parse_requirements
from hotloop.monitor.series import name_of, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hotloop.monitor.compare import MonitorComparison
    from hotloop.monitor.requirements import ReadingVerdict
    from hotloop.monitor.series import SeriesStats

__all__ = ["REQUIRE", "run", "show_verdicts"]

REQUIRE = (
    'exit 1 unless each condition is met: "gpu_util>=60%% temperature_c<=85"; the mean must be at '
    "least, the highest value at most; names are those of --output, without gpu0_ for every GPU"
)
_WIDTH = 120  # columns where stdout is no terminal
_APART = {True: "apart", False: "overlap", None: "too few samples"}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop monitor compare",
        description="Compare two records that hotloop monitor --output wrote. Readings are apart "
        "if the middle\nhalves of their samples do not overlap. --require judges B.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("records", nargs="*", type=Path, metavar="A.json B.json", help="the earlier, the later")
    add("--require", metavar="CONDITIONS", help=REQUIRE)
    add("--json", type=Path, metavar="PATH", help="write the comparison")
    return parser


def run(args: Sequence[str]) -> int:
    """Compare two records; return 1 if a condition is not met."""
    options = _parser().parse_args(args)
    if len(options.records) != 2:
        got = len(options.records)
        raise UsageError(f"hotloop monitor compare A.json B.json: expected two records, got {got}")
    requirements = [] if options.require is None else parse_requirements(options.require)
    before, after = map(read_record, options.records)
    result = compare_records(before, after)
    verdicts = judged(requirements, after.stats)
    out = console_of(sys.stdout, _WIDTH)
    for when, one in (("before", before), ("after", after)):
        out.print(f"{when}: {one.name}, {one.watched}, {one.seconds:.0f} s", markup=False)
    _show(result, out)
    code = show_verdicts(verdicts, out)
    keep_json(options.json, {**to_json(result), "requirements": list(map(to_json, verdicts))})
    return code


def show_verdicts(verdicts: Sequence[ReadingVerdict], out: Console) -> int:
    """Print the verdicts; return 1 unless all are met."""
    for verdict in verdicts:
        out.print(f"{verdict.outcome:<8} {verdict.requirement}: {verdict.why}", markup=False)
    return 0 if all(verdict.outcome == "met" for verdict in verdicts) else 1


def _show(result: MonitorComparison, out: Console) -> None:
    table = plain_table("reading", "before", "after", "after / before", "samples")
    for change in result.changes:
        ratio = "" if change.ratio is None else f"{change.ratio:.3g}"
        cells = (
            name_of(change.name),
            _figures(change.name, change.before),
            _figures(change.name, change.after),
            ratio,
            _APART[change.is_apart],
        )
        table.add_row(*map(escape, cells), style="bold" if change.is_apart else None)
    out.print(table)
    for name, file in result.only.items():
        out.print(f"only in {file}: {name_of(name)}", markup=False)
    for note in result.notes:
        out.print(f"unlike: {note}", markup=False)


def _figures(name: str, stats: SeriesStats) -> str:
    return f"{shown(name, stats.mean)} ({shown(name, stats.low)} to {shown(name, stats.high)})"
