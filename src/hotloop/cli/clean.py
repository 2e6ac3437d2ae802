"""hotloop clean: what runs and caches take on the disk, what of it can go, and --yes removes it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.cleanup.clean import look, remove
from hotloop.cleanup.disk_use import CleanupRequest
from hotloop.cleanup.runs import LEAST
from hotloop.cli.terminal.lines import console_of, facts, keep_json, plain_table, since, telling
from hotloop.core.codec import to_json
from hotloop.core.env import ENV
from hotloop.core.errors import UsageError, WriteError
from hotloop.core.units import bytes_
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from hotloop.cleanup.disk_use import CleanupResult, Item, Shelf
    from hotloop.core.env import Environment

__all__ = ["run"]

NARROW, WIDTH = 100, 120  # columns below which rows become lists; columns without a terminal


def run(
    args: Sequence[str], *, console: Console | None = None, environment: Environment = ENV
) -> int:
    """Run the verb; raise WriteError if an item could not be removed.

    `console` and `environment` are seams.
    """
    options = _parser().parse_args(args)
    order = _order(options, environment)
    with telling(quiet=options.quiet) as notify:
        result = look(options.folder, order, notify)
    out = console or console_of(sys.stdout, WIDTH)
    _show(result, out)
    gone: list[Item] = []
    wrong: list[str] = []
    if options.yes:
        with telling(quiet=options.quiet) as notify:
            gone, wrong = _remove(result, order, notify)
    outcome = {"removed": [to_json(item) for item in gone], "failed": wrong}
    keep_json(options.json, {**result.to_json(), "dry_run": not options.yes, **outcome})
    _end(result, gone, out, removed=options.yes)
    if wrong:
        raise WriteError("not removed:\n  " + "\n  ".join(map(visible, wrong)))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop clean",
        description="Shows what the runs below a folder and this user's caches take, and what can "
        "go: checkpoints beyond those that a run keeps (never its best, never the newest that "
        f"verifies, never fewer than {LEAST}), and what crashed processes left, of hotloop data "
        "tokenize as well. Nothing of a run or of tokens that a process is at, and nothing of "
        "Hugging Face's or torch's. Removes nothing without --yes.",
    )
    add = parser.add_argument
    add("folder", nargs="?", type=Path, default=Path(), metavar="DIR", help="where the runs are")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--dry-run", action="store_true", help="remove nothing: the default")
    either.add_argument("--yes", action="store_true", help="remove what can go")
    add(
        "--keep",
        type=int,
        metavar="N",
        help="of each run, keep the N newest checkpoints that verify, and the best "
        "(default: training.keep of the run)",
    )
    add("--broken", action="store_true", help="broken checkpoints can go too: they are evidence")
    add(
        "--caches",
        type=float,
        metavar="DAYS",
        help="what nobody used for DAYS days in hotloop's own cache can go too (0: all of it)",
    )
    add("--json", type=Path, metavar="PATH", help="write what was found as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _order(options: argparse.Namespace, environment: Environment) -> CleanupRequest:
    if options.keep is not None and options.keep < LEAST:
        raise UsageError(f"--keep {options.keep}: at least {LEAST} checkpoints stay")
    if options.caches is not None and not options.caches >= 0:
        raise UsageError(f"--caches {options.caches:g}: name a number of days, 0 or more")
    return CleanupRequest(
        keep=options.keep, broken=options.broken, unused=options.caches, environment=environment
    )


def _remove(
    result: CleanupResult, order: CleanupRequest, notify: Callable[[str], None]
) -> tuple[list[Item], list[str]]:
    gone: list[Item] = []
    wrong: list[str] = []
    for shelf in result.shelves:
        if shelf.can_go:
            removed, failed = remove(shelf, order, notify)
            gone, wrong = [*gone, *removed], [*wrong, *failed]
    return gone, wrong


def _show(result: CleanupResult, out: Console) -> None:
    run_shelves = [shelf for shelf in result.shelves if shelf.state not in ("cache", "tokens")]
    runs = [run for run in run_shelves if run.items]
    bare = [run for run in run_shelves if not run.items]
    rows = [(visible(run.name), run.state, bytes_(run.bytes), *_columns(run)) for run in runs]
    _print(out, ("run", "", "takes", "can go", "stays"), rows)
    if bare:
        size = bytes_(sum(shelf.bytes for shelf in bare))
        out.print(f"{len(bare):,} {'more ' if runs else ''}run folders without checkpoints: {size}")
    about = ("last use", "takes", "can go", "stays")
    _print(out, ("unfinished tokens", *about), _items(result, "tokens"))
    _print(out, ("hotloop's cache", *about), _items(result, "cache"))
    others = [
        (
            f"{cache.name}: {visible(str(cache.path))}",
            since(cache.last_used),
            bytes_(cache.bytes),
            cache.how,
        )
        for cache in result.caches
    ]
    _print(out, ("other caches", "last use", "takes", "never removed by hotloop"), others)


def _items(result: CleanupResult, state: str) -> list[tuple[str, ...]]:
    """Return a row for each item of the shelves of one kind."""
    return [
        (
            _cache_item_name(item) if state == "cache" else visible(shelf.name),
            since(item.last_used),
            bytes_(item.bytes),
            *_why_columns(item),
        )
        for shelf in result.shelves
        if shelf.state == state
        for item in shelf.items
    ]


def _print(out: Console, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; on a narrow console, a paragraph for each row."""
    if not rows:
        return
    if out.width >= NARROW:
        table = plain_table(*titles, right="takes")
        for row in rows:
            table.add_row(Text(row[0], "bold"), *map(Text, row[1:]))
        out.print(table)
    else:
        for row in rows:
            out.print(Text(row[0], "bold", overflow="fold"))
            pairs = [pair for pair in zip(titles[1:], row[1:], strict=True) if pair[1]]
            facts(out, *(f"{title}: {text}" if title else text for title, text in pairs))
    out.print()


def _columns(run: Shelf) -> tuple[str, str]:
    """Return two texts: the items of a run that can go, and those that stay."""
    size = sum(item.bytes for item in run.can_go)
    goes = f"{bytes_(size)}: {_named(run.can_go)}" if run.can_go else ""
    if run.why is not None:
        return goes, visible(run.why)
    stays = [item for item in run.items if not item.goes]
    reasons = dict.fromkeys(item.why for item in stays)
    sentences = [f"{_named([i for i in stays if i.why == why])} ({why})" for why in reasons]
    return goes, ", ".join(sentences)


def _named(items: Iterable[Item]) -> str:
    """Return "steps 100, 200, .tmp-step-...": checkpoints by step, others by name."""
    steps = [f"{item.step:,}" for item in items if item.step is not None]
    names = [visible(item.path.name) for item in items if item.step is None]
    counted = [f"step{'s' * (len(steps) > 1)} {', '.join(steps)}"] if steps else []
    return ", ".join([*counted, *names])


def _cache_item_name(item: Item) -> str:
    name = visible(item.path.name)
    return name if name == item.kind else f"{item.kind} {name}"


def _why_columns(item: Item) -> tuple[str, str]:
    return (item.why, "") if item.goes else ("", item.why)


def _end(result: CleanupResult, gone: Sequence[Item], out: Console, *, removed: bool) -> None:
    if removed:
        size = bytes_(sum(item.bytes for item in gone))
        out.print(f"removed {size}" if gone else "nothing was removed: nothing can go")
    elif result.can_go:
        out.print(f"{bytes_(result.can_go)} can go; nothing was removed: --yes removes it")
    else:
        out.print("nothing can go (see --keep, --broken and --caches)")
