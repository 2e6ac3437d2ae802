"""hotloop report: one self-contained HTML page of a run, or of two runs side by side."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.terminal.lines import keep_json
from hotloop.core.errors import HotloopError, UsageError
from hotloop.core.storage.files import write_file
from hotloop.core.storage.rundir import RunDir
from hotloop.recipes.registry import RECIPES
from hotloop.report.compare import summary
from hotloop.report.facts import read_facts
from hotloop.report.markup import Html
from hotloop.report.page import page
from hotloop.report.pair import pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hotloop.report.facts import Facts

__all__ = ["run"]

LENGTH = 400  # characters of the sample
# Errors that Python and torch raise for a record or a checkpoint that was edited by hand.
DAMAGED = (LookupError, AttributeError, TypeError, ValueError, RuntimeError)
NOT_ASKED = "hotloop report was called with --no-sample"


def run(args: Sequence[str], *, draw: Callable[[Path], str] | None = None) -> int:
    """Run the verb. `draw` is a seam: it returns the sample of a run folder."""
    parser = argparse.ArgumentParser(prog="hotloop report", description=__doc__)
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN_DIR", help="one run, or two to compare")
    add("--out", type=Path, metavar="FILE", help="default: in the run; of two: in this folder")
    add("--no-sample", action="store_true", help="do not let the trained model write a sample")
    add("--json", type=Path, metavar="PATH", help="write the figures as JSON")
    options = parser.parse_args(args)
    if len(options.runs) > 2:
        raise UsageError(f"a report shows one run or two, not {len(options.runs)}")
    runs = [read_facts(path) for path in options.runs]
    if len(runs) == 2 and runs[0].path.resolve() == runs[1].path.resolve():
        raise UsageError(f"{options.runs[0]} was named twice: name another run beside it")
    if len(runs) == 2:
        written = pair(*runs)
        out = options.out or Path(f"report-{runs[0].name}-vs-{runs[1].name}.html")
    else:
        sample, why = (None, NOT_ASKED) if options.no_sample else _drawn(options.runs[0], draw)
        written = page(runs[0], own=_own(runs[0]), sample=sample, why_no_sample=why)
        out = options.out or RunDir(options.runs[0]).report
    write_file(out, written)
    keep_json(options.json, summary(*runs))
    print(out)
    return 0


def _own(run: Facts) -> Html:
    """Return the section of the page that the run's recipe provides, if any."""
    recipe = RECIPES.get(run.recipe or "")
    if recipe is None or not recipe.section:
        return Html("")
    section: Html = recipe.load(recipe.section)(run)
    return section


def _drawn(path: Path, draw: Callable[[Path], str] | None) -> tuple[str | None, str | None]:
    """Return a sample and None, or None and the reason, as a page is useful without a sample."""
    try:
        return (draw or _sample)(path), None
    except HotloopError as error:
        return None, str(error)
    except DAMAGED as error:
        return None, f"its record and its checkpoint do not fit: {type(error).__name__}: {error}"


def _sample(path: Path) -> str:
    """Return a sample of the best checkpoint, at the default temperature of its objective.

    Raises a HotloopError if no checkpoint can write one, and the errors in DAMAGED.
    """
    from hotloop.api import load_run

    trained = load_run(path)
    writes_on = getattr(trained.config, "objective", None) == "next-char"
    length = LENGTH if writes_on else None  # None: as much as fits
    return trained.sample(length=length)[0]
