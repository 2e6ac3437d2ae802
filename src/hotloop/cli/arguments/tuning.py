"""The options of hotloop tune that scripts and recipes share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.techniques.base import Numerics

if TYPE_CHECKING:
    import argparse

__all__ = ["add_tuning", "most_of", "seconds_of"]

_UNITS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


def add_tuning(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    add = parser.add_argument
    add("--budget", default="10m", metavar="T", help="time to search: 90s, 10m (default), 1h")
    add(
        "--allow",
        action="append",
        default=[],
        choices=["order", "training"],
        help="order: also try another order of the samples; training: also try another objective, "
        "effective batch or precision of products",
    )
    add("--exact", action="store_true", help="try only what keeps the losses equal bit for bit")
    add("--out", type=Path, metavar="RUN_DIR", help="default: .hotloop/tune-<name>-<time>")
    add("--json", type=Path, metavar="PATH", help="write the result as JSON")
    add("--html", type=Path, metavar="PATH", help="write the page there as well")
    add("-q", "--quiet", action="store_true", help="the result alone, no progress")


def most_of(options: argparse.Namespace) -> Numerics:
    """Return how far a plan may change the numbers. Raises UsageError for --exact with --allow."""
    if options.exact and options.allow:
        raise UsageError("--exact and --allow ask for opposites: leave out one of them")
    if options.exact:
        return Numerics.BITWISE
    if "training" in options.allow:
        return Numerics.TRAINING
    return Numerics.EQUIVALENT if "order" in options.allow else Numerics.ROUNDING


def seconds_of(text: str) -> float:
    """Parse a time such as 90, 90s, 10m or 1.5h; return seconds. Raises UsageError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _UNITS or float(match[1]) <= 0:
        raise UsageError(f"--budget {text}: expected a time like 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]
