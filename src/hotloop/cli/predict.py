"""hotloop predict: what a trained model says of rows, by its recipe.

Where rows have labels or right answers there are scores. Without --out the rows go to stdout, one
JSON object a line in the order of the file, and the scores to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from hotloop.cli.arguments.recipe import CHECKPOINT, say_checkpoint
from hotloop.cli.terminal.lines import keep_json, telling
from hotloop.core.storage.files import write_file, write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import duration
from hotloop.process.standard_streams import say
from hotloop.recipes.building.declared_code import running
from hotloop.recipes.registry import RECIPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["run"]

_WIDTH = 100  # columns of the help


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(
        prog="hotloop predict",
        description=f"{__doc__}\n{_by_recipe()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN_DIR")
    text = "rows as those trained on; a folder of such files"
    add("file", type=Path, metavar="FILE", nargs="?", help=text)
    add("--out", type=Path, metavar="PATH", help="write the rows there, as JSON lines")
    add("--json", type=Path, metavar="PATH", help="write the scores there")
    add("--checkpoint", help=CHECKPOINT)
    add("--baselines", action="store_true", help="score what the model must beat, too")
    add("--declared", metavar="FILE", help="a task of your own, run as code (data.declared)")
    add("--rows", type=int, metavar="N", help="held-out rows of a task at most (default: 200)")
    add("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args(args)

    from hotloop.api import load_run

    if options.rows is not None and options.rows < 1:
        parser.error(f"--rows: 1 or more, not {options.rows}")
    trained = load_run(options.run)
    say_checkpoint(trained, options.checkpoint)
    for notice in running(options.declared):
        say(f"hotloop: {notice}")
    with telling(quiet=options.quiet) as notify:
        notify("reading the model")
        predictions = trained.predict(
            options.file,
            which=options.checkpoint,
            progress=_progress(notify, time.monotonic),
            baselines=options.baselines,
            most=options.rows,
            declared=options.declared,
        )
    lines = [json.dumps(row, ensure_ascii=False) for row in predictions.rows()]
    text = "".join(f"{line}\n" for line in lines)
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_file(options.out, text)
    scores = predictions.scores()
    keep_json(options.json, scores)
    if scores is None:
        notice = f"hotloop: the rows have no {predictions.truth}: there is nothing to score"
        print(notice, file=sys.stderr)
        return 0
    if options.file is None:
        write_json(RunDir(options.run).answers, scores)  # the report shows them
    print(predictions.table(), file=sys.stderr if options.out is None else sys.stdout)
    return 0


def _by_recipe() -> str:
    """Return a paragraph for each recipe on its predictions."""
    return "\n".join(
        fill(f"{recipe.name}: {recipe.predicts}", _WIDTH, subsequent_indent="  ")
        for recipe in RECIPES.values()
        if recipe.predict
    )


def _progress(
    notify: Callable[[str], None], clock: Callable[[], float]
) -> Callable[[int, int], None]:
    """Return the callback that shows progress: rows, their rate and the time left."""
    began = clock()

    def show(done: int, whole: int) -> None:
        rate = done / max(1e-9, clock() - began)
        left = duration((whole - done) / rate)
        notify(f"predicting {done:,}/{whole:,}  {rate:,.0f} rows/s  left {left}")

    return show
