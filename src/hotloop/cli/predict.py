"""hotloop predict: labels of rows, by a trained pair-classifier; scores, where rows have a label.

Without --out the rows go to stdout, one JSON object a line in the order of the file, and the scores
to stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.line import telling
from hotloop.core.files import write_file, write_json
from hotloop.core.units import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
    add("file", type=Path, metavar="FILE", help="rows as those trained on; a folder of such files")
    add("--out", type=Path, metavar="PATH", help="write the rows there, as JSON lines")
    add("--json", type=Path, metavar="PATH", help="write the scores there")
    add("--checkpoint", default="best", help="best (default), last or a step")
    add("--baselines", action="store_true", help="score the majority class and bags of words too")
    add("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args(args)

    from hotloop.library import load_run
    from hotloop.recipes.pair_baselines import MOST
    from hotloop.report.class_table import class_table

    trained = load_run(options.run)
    with telling(quiet=options.quiet) as tell:
        tell("reading the model")
        found = trained.predict(
            options.file,
            which=options.checkpoint,
            progress=_progress(tell, time.monotonic),
            baselines=options.baselines,
        )
    lines = [json.dumps(row, ensure_ascii=False) for row in found.rows()]
    text = "".join(f"{line}\n" for line in lines)
    if options.out is None:
        sys.stdout.write(text)
    else:
        write_file(options.out, text)
    if options.json is not None:
        scores = None if found.report is None else found.report.to_json()
        if scores is not None and found.baselines:
            scores["baselines"] = {name: asdict(each) for name, each in found.baselines.items()}
        write_json(options.json, scores)
    if found.report is None:
        print("hotloop: the rows have no label: there is nothing to score", file=sys.stderr)
    else:
        screen = sys.stderr if options.out is None else sys.stdout
        print(class_table(found.report), file=screen)
        if found.baselines:
            text = "\n".join(
                f"{name:32} accuracy {each.accuracy:.4f}  macro F1 {each.macro_f1 or 0:.4f}"
                for name, each in found.baselines.items()
            )
            print(f"\nlearned of the run's rows ({MOST:,} at most):\n{text}", file=screen)
    return 0


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
