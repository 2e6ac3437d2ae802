"""hotloop train EXPERTS manifest=FILE --check: what becomes of each key; --to-flat FILE."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING

from rich.markup import escape

from hotloop.cli.terminal.lines import console_of, plain_table
from hotloop.core.errors import UsageError
from hotloop.core.storage.files import write_file
from hotloop.jobs.request import manifests_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.recipes.building.protocols import RunManifest

__all__ = ["check_manifests"]

_WIDTH = 160  # columns of the table, if it goes to a file


def check_manifests(recipe: str | None, assignments: Sequence[str], flat: Path | None) -> bool:
    """Print what becomes of each key of the manifests; write the short form to `flat`.

    Returns whether nothing is refused. Raises UsageError without a manifest, or for the short form
    of several, and ConfigError for a file that cannot be read.
    """
    manifests = [] if recipe is None else manifests_of(recipe, assignments)
    if not manifests:
        raise UsageError("--check and --to-flat are for manifests: write manifest=FILE")
    if flat is not None and len(manifests) > 1:
        raise UsageError("--to-flat writes one file: name one manifest")
    if flat is not None and flat.suffix.lower() != ".json":
        raise UsageError(f"--to-flat {flat}: expected a .json file: the short form is JSON")
    if flat is not None and flat.resolve() == manifests[0].path.resolve():
        raise UsageError(f"--to-flat {flat} is the manifest itself: name another file")
    for manifest in manifests:
        _print(manifest)
    is_right = not any(manifest.problems for manifest in manifests)
    if flat is not None and is_right:
        text = json.dumps(manifests[0].short(flat.parent), indent=2, ensure_ascii=False)
        write_file(flat, f"{text}\n")
        print(f"the short form is in {flat}")
    return is_right


def _print(manifest: RunManifest) -> None:
    table = plain_table("line", "key", "answer", "why")
    for answer in manifest.answers:
        line = answer.place.rpartition(":")[2]
        word = answer.word + (f" as {answer.became}" if answer.became else "")
        cells = (line if line.isdigit() else "", answer.keys, word, answer.why)
        style = "bold red" if answer.word == "refused" else None
        table.add_row(*map(escape, cells), style=style)
    counts = Counter(answer.word for answer in manifest.answers)
    counts["other program's"] = len(manifest.others)
    text = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    out = console_of(sys.stdout, _WIDTH)
    out.print(table)
    out.print(f"{manifest.path} ({manifest.dialect}): {text}", markup=False)
