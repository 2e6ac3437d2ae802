"""hotloop track: sends a run's numbers to TensorBoard, MLflow or W&B, beside the training.

It reads the run folder in a process of its own: a tracker that hangs or fails cannot touch the
run. Called again, it sends what is new.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.core.storage.rundir import RunDir
from hotloop.export import trackers
from hotloop.export.trackers.follow import TrackerUpload, follow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.export.trackers.sink import OpenSink

__all__ = ["TRACKERS", "run"]

TRACKERS = ("mlflow", "tensorboard", "wandb")
# Names that all three accept and that cannot lead out of a folder.
_NAME = re.compile(r"\w[\w. -]*", re.ASCII)


def run(args: Sequence[str], *, open_sink: OpenSink | None = None) -> int:
    """Run the verb. `open_sink` is a seam: it stands for the tracker."""
    parser = argparse.ArgumentParser(
        prog="hotloop track",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", type=Path, metavar="RUN_DIR", help="a run of hotloop train, also a running one")
    add("--to", required=True, choices=TRACKERS, help="pip install 'hotloop[tensorboard]' etc.")
    add(
        "--follow",
        action="store_true",
        help="go on until the run is complete, or 30 s nobody trains it",
    )
    add("--name", help="in MLflow or W&B (default: the folder's name)")
    add("--project", default="hotloop", help="MLflow's experiment, W&B's project")
    options = parser.parse_args(args)
    folder = RunDir.open(options.run)
    name = options.name or folder.path.resolve().name
    for word in (name, options.project):
        if not _NAME.fullmatch(word):
            raise UsageError(f"{word!r} is no name: letters, digits, blanks and . _ - are expected")
    if open_sink is None:
        open_sink = importlib.import_module(f"{trackers.__name__}.{options.to}").open_sink
    with folder.tracking(options.to).held():
        feed = TrackerUpload(folder, options.to, open_sink, name=name, project=options.project)
        return _send(feed, folder, until_it_ends=options.follow)


def _send(feed: TrackerUpload, folder: RunDir, *, until_it_ends: bool) -> int:
    """Send the points and print where they are, even if the user stops it."""
    try:
        if until_it_ends:
            print(feed.open().where, flush=True)
            sent = follow(feed, lambda: _alive(folder), _say)
        elif sent := feed.catch_up():
            print(feed.open().where)
        _say(f"{sent:,} points were sent" if sent else "nothing new to send")
    finally:
        for text in feed.skipped:
            _say(text)
        feed.close()
    return 0


def _alive(folder: RunDir) -> bool:
    holder = folder.holder()
    return holder is not None and holder.why_stale() is None


def _say(text: str) -> None:
    print(f"hotloop: {text}", file=sys.stderr)
