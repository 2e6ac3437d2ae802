"""Defines arguments that several verbs share: a recipe, its settings and plan; a checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.core.errors import UsageError
from hotloop.jobs.request import expert_requests, fresh_request
from hotloop.recipes.registry import RECIPES

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from hotloop.api import Run
    from hotloop.jobs.request import RequestOptions, RunRequest

__all__ = [
    "CHECKPOINT",
    "ORDER",
    "add_options",
    "experts_of",
    "request_of",
    "say_checkpoint",
    "split",
]

CHECKPOINT = "best, last or a step (default: best; last where few held-out samples tell them apart)"

ORDER = "Order of settings: defaults < preset= < experiment= < --config FILE < key=value."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `request_of` reads."""
    add = parser.add_argument
    add("--config", type=Path, metavar="FILE", help="settings from a YAML or JSON file")
    add("--plan", type=Path, metavar="FILE", help="a plan file instead of the derived plan")
    add("--with", dest="added", action="append", default=[], metavar="ID[:choice=value]")
    add("--without", dest="removed", action="append", default=[], metavar="ID")
    add("--measure-peak", action="store_true", help="time matrix products first, for MFU")


def split(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """Return the recipe, if one is named, and the settings."""
    if words and "=" not in words[0]:
        return words[0], list(words[1:])
    return None, list(words)


def request_of(
    options: argparse.Namespace, recipe: str | None, assignments: Sequence[str]
) -> RunRequest:
    """Return the request of a run. Raises UsageError, ConfigError or PlanError."""
    if recipe is None:
        raise UsageError(f"which recipe? There are: {', '.join(RECIPES)}")
    return fresh_request(recipe, assignments, **_plan_options(options))


def experts_of(
    options: argparse.Namespace, recipe: str | None, assignments: Sequence[str]
) -> list[tuple[str, RunRequest]]:
    """Return (expert, request) for each named manifest. Raises the errors of `request_of`."""
    return [] if recipe is None else expert_requests(recipe, assignments, **_plan_options(options))


def _plan_options(options: argparse.Namespace) -> RequestOptions:
    return {
        "config_file": options.config,
        "plan_file": options.plan,
        "added": options.added,
        "removed": options.removed,
        "measure_peak": options.measure_peak,
    }


def say_checkpoint(run: Run, which: str | None) -> None:
    """Print to stderr which checkpoint of a run is used, and which newer ones are broken."""
    for bad in run.broken():
        text = f"{bad.path.name} is broken ({'; '.join(bad.broken or ())}); an older one is used"
        print(f"hotloop: {text}", file=sys.stderr)
    print(f"hotloop: this is {run.chosen(which)[1]}", file=sys.stderr)
