"""hotloop predict: labels by a trained pair-classifier, routes and answers by a task-router.

Where rows have labels or right answers there are scores. A task-router takes its own held-out rows
where no file is named; in a file each row has the key task and is as rows of that task, or it has
text (and question), of a decoder prompt. Without --out the rows go to stdout, one JSON object a
line in the order of the file, and the scores to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hotloop.cli.arguments.recipe import CHECKPOINT, say_checkpoint
from hotloop.cli.terminal.lines import telling
from hotloop.core.storage.files import write_file, write_json
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import duration
from hotloop.process.standard_streams import say
from hotloop.recipes.building.declared_code import running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.recipes.pair_classifier.predictions import Predicted
    from hotloop.recipes.task_router.predictions import Answered

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(
        prog="hotloop predict",
        description=__doc__,
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
    from hotloop.recipes.task_router.predictions import Answered

    if options.rows is not None and options.rows < 1:
        parser.error(f"--rows: 1 or more, not {options.rows}")
    trained = load_run(options.run)
    say_checkpoint(trained, options.checkpoint)
    for said in running(options.declared):
        say(f"hotloop: {said}")
    with telling(quiet=options.quiet) as tell:
        tell("reading the model")
        found = trained.predict(
            options.file,
            which=options.checkpoint,
            progress=_progress(tell, time.monotonic),
            baselines=options.baselines,
            most=options.rows,
            declared=options.declared,
        )
    lines = [json.dumps(row, ensure_ascii=False) for row in found.rows()]
    text = "".join(f"{line}\n" for line in lines)
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_file(options.out, text)
    scores, table = _routed(found) if isinstance(found, Answered) else _labelled(found)
    if options.json is not None:
        write_json(options.json, scores)
    if isinstance(found, Answered) and scores is not None and options.file is None:
        write_json(RunDir(options.run).answers, scores)  # the report shows them
    if table is None:
        what = "right answers" if isinstance(found, Answered) else "label"
        print(f"hotloop: the rows have no {what}: there is nothing to score", file=sys.stderr)
    else:
        print(table, file=sys.stderr if options.out is None else sys.stdout)
    return 0


def _labelled(found: Predicted) -> tuple[dict[str, Any] | None, str | None]:
    """Return the scores of a classifier as JSON, and as text."""
    from hotloop.recipes.pair_classifier.baselines import MOST
    from hotloop.report.class_table import class_table

    if found.report is None:
        return None, None
    scores, table = found.report.to_json(), class_table(found.report)
    if found.baselines:
        scores["baselines"] = {name: asdict(each) for name, each in found.baselines.items()}
        text = "\n".join(
            f"{name:32} accuracy {each.accuracy:.4f}  macro F1 {each.macro_f1 or 0:.4f}"
            for name, each in found.baselines.items()
        )
        table += f"\n\nlearned of the run's rows ({MOST:,} at most):\n{text}"
    return scores, table


def _routed(found: Answered) -> tuple[dict[str, Any] | None, str | None]:
    """Return the same of a task router."""
    from hotloop.report.router_table import router_table

    scores = found.scores()
    return scores, None if scores is None else router_table(scores)


def _progress(
    tell: Callable[[str], None], clock: Callable[[], float]
) -> Callable[[int, int], None]:
    """Return what shows how far it is: rows, their rate and the time left."""
    began = clock()

    def told(done: int, whole: int) -> None:
        rate = done / max(1e-9, clock() - began)
        left = duration((whole - done) / rate)
        tell(f"predicting {done:,}/{whole:,}  {rate:,.0f} rows/s  left {left}")

    return told
