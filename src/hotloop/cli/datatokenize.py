"""hotloop data tokenize: turns files of rows into packed tokens once, as Arrow files.

A stopped or killed one goes on where it was when the same command is given again. What is there
already is not made twice; what is there and was made of something else is refused, with what
differs. `datasets.load_from_disk` opens the folder as it is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from hotloop.cli.dataasked import FILE_WIDTH, Line, add_options, at_least, settings
from hotloop.core.env import ENV
from hotloop.core.errors import UsageError
from hotloop.core.files import write_json
from hotloop.core.units import bytes_, count, duration, many
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.data.tokenise import Made

__all__ = ["run"]


def run(args: Sequence[str]) -> int:
    """Run the verb; 0 when the folder is there, whole."""
    options = _parser().parse_args(args)
    at_least(options, pack=1, max_length=1, processes=0)
    if options.pack and options.max_length:
        raise UsageError("--pack and --max-length do not go together: packed rows have one length")
    if options.ray_address and options.engine != "ray":
        raise UsageError("--ray-address is for --engine ray: add that, or leave it out")
    from hotloop.data.preparing import Order
    from hotloop.data.records import find_sources
    from hotloop.data.rows import Packing
    from hotloop.data.tokenise import tokenise
    from hotloop.data.tokenizer import find_tokenizer

    sources = find_sources(options.sources, format=options.format, documents=options.documents)
    vocabulary = find_tokenizer(options.tokenizer)
    address = options.ray_address or ENV.ray
    order = Order(
        vocabulary=vocabulary,
        out=options.out.absolute(),
        packing=Packing(tokens=options.pack, strategy=options.strategy, longest=options.max_length),
        engine=options.engine,
        address=None if address == "local" else address,
        **settings(options),
    )
    line = Line(quiet=options.quiet)
    try:
        made = tokenise(sources.files, order, tell=line.tell)
    except KeyboardInterrupt:
        line.clear()
        print("hotloop: stopped; the same command goes on from here", file=sys.stderr)
        return 130
    finally:
        line.clear()
    _show(made, sources.notes, seconds=line.seconds)
    if options.json is not None:
        write_json(options.json, {"folder": str(made.folder), **made.about})
    print(made.folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hotloop data tokenize", description=__doc__)
    add = parser.add_argument
    add("sources", nargs="+", metavar="SOURCE", help="files, folders or patterns such as 'a/*.gz'")
    add("--tokenizer", required=True, metavar="DIR_OR_ID", help="a model folder, or a hub id")
    add("--out", required=True, type=Path, metavar="DIR", help="the folder to make")
    add("--pack", type=int, metavar="N", help="pack texts into rows of N tokens")
    add("--strategy", choices=("best-fit", "concat"), default="best-fit")
    add("--max-length", type=int, metavar="N", help="without --pack: cut rows off after N tokens")
    add_options(parser)
    add(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="ray: as a Ray Data job, where one machine is not enough; the result is the same",
    )
    add(
        "--ray-address",
        metavar="ADDRESS",
        help="HOST:PORT of a cluster, auto, or local: one started here (default $RAY_ADDRESS)",
    )
    add("--json", type=Path, metavar="PATH", help="write what was made as JSON")
    add("-q", "--quiet", action="store_true", help="no progress")
    return parser


def _show(made: Made, left_out: Sequence[str], *, seconds: float) -> None:
    """Say what was made, on stderr: the folder alone is data."""
    width = None if sys.stderr.isatty() else FILE_WIDTH
    out = Console(file=sys.stderr, no_color=ENV.no_color, highlight=False, width=width)
    about = made.about
    if not made.is_new:
        out.print(Text("it is there already, made of the same data and settings", style="bold"))
    for name, split in about["splits"].items():
        out.print(Text(visible(f"{name}: {', '.join(_facts(split))}")))
        for bad in split["bad"][:3]:
            out.print(Text(visible(f"   {bad}"), style="yellow"))
    for note in (*left_out, *about["notes"]):
        out.print(Text(visible(f"note: {note}")))
    if made.is_new:
        size = sum(path.stat().st_size for path in made.folder.rglob("*") if path.is_file())
        resumed = f", {count(made.resumed)} tokens of it were there" if made.resumed else ""
        out.print(Text(f"{bytes_(size)} in {duration(seconds)}{resumed}"))


_SHOWN: Final = (
    ("rows_without_loss", "row", "without any loss"),
    ("cut_off_tokens", "token", "cut off"),
    ("replaced_rows", "row", "kept with U+FFFD"),
)


def _facts(split: Mapping[str, int]) -> list[str]:
    facts = [
        f"{many(split['rows'], 'row')} of at most {many(split['longest'], 'token')}",
        many(split["documents"], "text"),
        many(split["tokens"], "token"),
    ]
    if split["learned_tokens"] != split["tokens"]:
        facts.append(f"{split['learned_tokens'] / max(1, split['tokens']):.0%} carry loss")
    facts += [f"{many(split[key], what)} {how}" for key, what, how in _SHOWN if split[key]]
    left_out = split["bad_rows"] - split["replaced_rows"]
    return facts + [f"{many(left_out, 'bad row')} left out"] * (left_out > 0)
