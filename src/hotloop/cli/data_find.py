"""hotloop data find: the data sets on this machine, what they lie on, and what names them."""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.cli.terminal.lines import console_of, facts, keep_json, plain_table, since, telling
from hotloop.core.env import ENV
from hotloop.core.units import bytes_, many
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from hotloop.core.env import Environment
    from hotloop.data.discovery.results import DataSet, Reference
    from hotloop.data.discovery.search import DiscoveryResult

__all__ = ["run"]

NARROW, WIDTH = 120, 160  # columns below which rows become lists; columns without a terminal
SHOWN = 4  # places and splits shown of one data set; the rest is counted
NOTES = 10
_ORDER = ("train", "validation", "test")
_ON = {"virtual": "virtual disk", "tmpfs": "memory (tmpfs)"}


def run(
    args: Sequence[str], *, console: Console | None = None, environment: Environment = ENV
) -> int:
    """Run the verb; return 0 whatever is missing. `console` and `environment` are seams."""
    options = _parser().parse_args(args)
    from hotloop.data.discovery.search import find

    with telling(quiet=options.quiet) as notify:
        result = find(options.root, environment=environment, progress=notify)
    keep_json(options.json, result.to_json())
    out = console or console_of(sys.stdout, WIDTH)
    if result.data_sets:
        (_list if out.width < NARROW else _table)(result, out)
        _sum(result, out)
    else:
        print("no data set was found; --root DIR looks into a folder", file=sys.stderr)
    _missing(result, out)
    for note in result.notes[:NOTES]:
        print(f"note: {visible(note)}", file=sys.stderr)
    if (more := len(result.notes) - NOTES) > 0:
        print(f"note: {more} more, all in --json", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop data find",
        description="Lists the data sets in Hugging Face's caches, in hotloop's own, in folders "
        "that are named, and those that YAML, JSON and Python files of this project name; and what "
        "these files name that is not there. Nothing is run, written or fetched.",
    )
    add = parser.add_argument
    add(
        "--root",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="look into this folder (or file) as well; may be given several times",
    )
    add("--json", type=Path, metavar="PATH", help="write what was found as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _table(result: DiscoveryResult, out: Console) -> None:
    titles = ("data set", "kind", "format", "rows", "size", "last use", "lies on", "named by")
    table = plain_table(*titles, right="size")
    for data_set in result.data_sets:
        rows = _rows(data_set, unit="" if data_set.unit == "rows" else f" {data_set.unit}")
        table.add_row(
            Text(_name(data_set), "bold"),
            data_set.kind,
            Text(visible(data_set.format)),
            Text("\n".join(rows)),
            Text(bytes_(data_set.bytes), no_wrap=True),
            since(data_set.last_used),
            "\n".join(_storage(data_set)),
            Text("\n".join(_places(data_set.referred_by))),
        )
    out.print(table)


def _list(result: DiscoveryResult, out: Console) -> None:
    for data_set in result.data_sets:
        out.print(Text(_name(data_set), "bold", overflow="fold"))
        about = [
            data_set.kind,
            visible(data_set.format),
            bytes_(data_set.bytes),
            f"last use {since(data_set.last_used)}",
        ]
        facts(
            out,
            ", ".join(about),
            f"{data_set.unit}: {', '.join(_rows(data_set)) or 'unknown'}",
            f"on {', '.join(_storage(data_set))}",
            *(f"named by {place}" for place in _places(data_set.referred_by)),
        )


def _sum(result: DiscoveryResult, out: Console) -> None:
    total = sum(data_set.bytes for data_set in result.data_sets)
    out.print(f"{many(len(result.data_sets), 'data set')}, {bytes_(total)}")


def _missing(result: DiscoveryResult, out: Console) -> None:
    places: dict[str, list[Reference]] = defaultdict(list)
    for entry in result.missing:
        places[entry.what].append(entry.place)
    for what, where in places.items():
        line = Text("missing: ", "bold red").append(visible(what), "bold")
        out.print(line.append(f", named by {', '.join(_places(where))}"), overflow="fold")


def _name(data_set: DataSet) -> str:
    name = data_set.id
    if os.path.isabs(name):
        home = os.path.expanduser("~")
        tilde = f"~{name[len(home) :]}" if name.startswith(os.path.join(home, "")) else name
        name = min(os.path.relpath(name), tilde, key=len)
    return visible(name if data_set.config is None else f"{name} ({data_set.config})")


def _rows(data_set: DataSet, *, unit: str = "") -> list[str]:
    """Return "train 87,599", ... by split, the first with the unit."""
    known = sorted(data_set.splits.items(), key=lambda pair: _place(pair[0]))
    lines = [visible(f"{split} {'unknown' if n is None else f'{n:,}'}") for split, n in known]
    return _cut([f"{line}{unit if not n else ''}" for n, line in enumerate(lines)])


def _place(split: str) -> tuple[str, int, str]:
    """Return the sort key of a split: by configuration, with train, validation and test first."""
    config, _, name = split.rpartition("/")
    return config, _ORDER.index(name) if name in _ORDER else len(_ORDER), name


def _storage(data_set: DataSet) -> list[str]:
    """Return the kind of storage of a data set, and its read rate."""
    if data_set.storage is None:
        return ["unknown"]
    kind = data_set.storage.kind
    lines = ["unknown" if kind is None else _ON.get(kind, kind)]
    if data_set.storage.read is not None:
        how = {True: " cold", False: " from memory", None: ""}[data_set.storage.cold]
        lines.append(f"{bytes_(data_set.storage.read)}/s{how}")
    return lines


def _places(where: Sequence[Reference]) -> list[str]:
    lines = [
        f"{reference.file}:{reference.line}" + (f" {reference.name}" if reference.name else "")
        for reference in where
    ]
    return _cut([visible(line) for line in lines])


def _cut(lines: list[str]) -> list[str]:
    more = len(lines) - SHOWN
    return lines if more <= 1 else [*lines[:SHOWN], f"and {more} more"]
