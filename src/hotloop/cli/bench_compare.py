"""hotloop bench compare: two results of one ladder, with the noise between them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.baseline import add_conditions, refuse_unknown_alone
from hotloop.cli.terminal.lines import console_of, keep_json
from hotloop.core.codec import to_json
from hotloop.core.errors import UsageError
from hotloop.core.fail_on import exit_code, parse_conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]

_WIDTH = 100  # columns where stdout is no terminal


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop bench compare",
        description="Compare two results of one ladder, of one machine, that hotloop bench --json "
        "wrote.\nB is FASTER or SLOWER only beyond what equal runs at separate times and other "
        "load explain.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("results", nargs="*", type=Path, metavar="A.json B.json", help="the earlier, the later")
    add_conditions(
        parser,
        "exit 1 if B got worse than A on the rung that --require judges: "
        '"tokens_per_s<-10%% ram>+10%%"; others: it_per_s, samples_per_s, targets_per_s, vram, '
        "start_s",
    )
    add("--json", type=Path, metavar="PATH", help="write the comparison")
    return parser


def run(args: Sequence[str]) -> int:
    """Compare two results; return 1 if a condition says so."""
    options = _parser().parse_args(args)
    refuse_unknown_alone(options, "tokens_per_s<-10%")
    if len(options.results) != 2:
        got = len(options.results)
        raise UsageError(f"hotloop bench compare A.json B.json: expected two results, got {got}")
    from hotloop.bench.compare import FIGURES, compare_files
    from hotloop.cli.terminal.bench_table import show_conditions, show_ratios

    conditions = (
        []
        if options.fail_on is None
        else parse_conditions(options.fail_on, FIGURES, findings=False)
    )
    result = compare_files(options.results[0], options.results[1], conditions)
    out = console_of(sys.stdout, _WIDTH)
    show_ratios(result.rungs, out)
    show_conditions(result.conditions, out)
    keep_json(options.json, to_json(result, schema=1))
    return exit_code(result.conditions, fails_on_unknown=options.fail_on_unknown) or 0
