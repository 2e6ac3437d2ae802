"""hotloop export: a trained model as transformers or PEFT load it.

It is loaded with them again and its outputs are compared, before it is said to be done.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.recipe import CHECKPOINT, say_checkpoint
from hotloop.cli.terminal.lines import telling

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["run"]

FORMS = {
    "hf": "a model that was trained whole, for transformers",
    "merged": "adapters in the weights of the model, for transformers",
    "peft": "adapters alone, for PEFT",
}


def run(args: Sequence[str]) -> int:
    """Run the verb."""
    parser = argparse.ArgumentParser(
        prog="hotloop export",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN_DIR")
    what = "; ".join(f"{name}: {text}" for name, text in FORMS.items())
    add("--to", required=True, choices=tuple(FORMS), help=what)
    add("--out", type=Path, metavar="DIR", help="a new folder (default RUN_DIR/export-FORM)")
    add("--checkpoint", help=CHECKPOINT)
    add("-q", "--quiet", action="store_true", help="no progress")
    options = parser.parse_args(args)

    from hotloop.api import load_run

    trained = load_run(options.run)
    say_checkpoint(trained, options.checkpoint)
    out = options.out or options.run / f"export-{options.to}"
    with telling(quiet=options.quiet) as notify:
        notify("writing the model, and loading it again")
        done = trained.export(options.to, out, which=options.checkpoint)
    print(f"{done.folder}: loaded by {done.reader}, outputs within {done.apart:.1e} of the run's")
    for note in done.notes:
        print(f"  {note}")
    return 0
