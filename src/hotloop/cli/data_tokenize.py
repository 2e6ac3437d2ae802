"""hotloop data tokenize: turns files of rows into packed tokens once, as Arrow files.

A stopped or killed one goes on where it was when the same command is given again. What is there
already is not made twice; what is there and was made of something else is refused, with what
differs. `datasets.load_from_disk` opens the folder as it is.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from hotloop.cli.arguments.data import FILE_WIDTH, ProgressLine, add_options, at_least, settings
from hotloop.cli.terminal.lines import console_of, keep_json
from hotloop.core.env import ENV
from hotloop.core.errors import ConfigError, UsageError
from hotloop.core.units import bytes_, count, duration, many
from hotloop.recipes.registry import RECIPES
from hotloop.report.excerpt import visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hotloop.data.readers.portions import RecordFile
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.tokenize import Made

__all__ = ["run"]

_EXPERTS: Final = next(recipe.name for recipe in RECIPES.values() if recipe.manifests)


def run(args: Sequence[str]) -> int:
    """Run the verb; return 0 if the folder is complete."""
    options = _parser().parse_args(args)
    if options.manifest is not None:
        return _of_manifests(options)
    if not options.sources or options.tokenizer is None or options.out is None:
        raise UsageError("name SOURCE, --tokenizer and --out, or --manifest FILE,FILE")
    at_least(options, pack=1, max_length=1, processes=0)
    if options.pack and options.max_length:
        raise UsageError("--pack and --max-length do not go together: packed rows have one length")
    if options.ray_address and options.engine != "ray":
        raise UsageError("--ray-address is for --engine ray: add that, or leave it out")
    from hotloop.data.readers.records import find_sources
    from hotloop.data.tokenising.plan import TokenizeRequest
    from hotloop.data.tokenising.rows import Packing
    from hotloop.data.tokenising.tokenizer_files import find_tokenizer

    sources = find_sources(options.sources, format=options.format, documents=options.documents)
    vocabulary = find_tokenizer(options.tokenizer)
    address = options.ray_address or ENV.ray
    order = TokenizeRequest(
        vocabulary=vocabulary,
        out=options.out.absolute(),
        packing=Packing(tokens=options.pack, strategy=options.strategy, longest=options.max_length),
        engine=options.engine,
        address=None if address == "local" else address,
        **settings(options),
    )
    made = _make(sources.files, order, sources.notes, quiet=options.quiet)
    if made is None:
        return 130
    keep_json(options.json, {"folder": str(made.folder), **made.about})
    return 0


def _make(
    sources: Sequence[RecordFile], order: TokenizeRequest, notes: Sequence[str], *, quiet: bool
) -> Made | None:
    """Make a token folder and print its facts; return None if the user stopped it."""
    from hotloop.data.tokenising.tokenize import tokenise

    line = ProgressLine(quiet=quiet)
    try:
        made = tokenise(sources, order, notify=line.notify)
    except KeyboardInterrupt:
        line.clear()
        print("hotloop: stopped; the same command goes on from here", file=sys.stderr)
        return None
    finally:
        line.clear()
    _show(made, notes, seconds=line.seconds)
    print(made.folder)
    return made


def _of_manifests(options: argparse.Namespace) -> int:
    """Make the token caches of experts, as `hotloop train` expects them."""
    for name in ["sources", "tokenizer", "out", "pack", "max_length", "shape", "fields", "loss"]:
        if getattr(options, name):
            raise UsageError(f"--manifest says all that decides the tokens: leave {name} out")
    from hotloop.data.sampling.train_and_valid import used
    from hotloop.jobs.request import expert_requests
    from hotloop.models.weights.discovery import find_model

    results = {}
    for name, request in expert_requests(_EXPERTS, [f"manifest={options.manifest}"]):
        recipe, config = request.recipe.load(), request.config
        if config.data.cache is None:
            raise ConfigError(
                f"{config.manifest} has no pretokenized_cache: write its folder there"
            )
        train, valid = recipe.sources_of(config)
        files, more = used(train.files, valid, is_one=False)
        notes = (*train.notes, *more)
        order = recipe.order_of(config, find_model(config.model.name, weights=False))
        folder = Path(config.data.cache)
        made = _make(files, replace(order, out=folder, said={}), notes, quiet=options.quiet)
        if made is None:
            return 130
        results[name] = {"folder": str(made.folder), **made.about}
    keep_json(options.json, results)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hotloop data tokenize", description=__doc__)
    add = parser.add_argument
    add("sources", nargs="*", metavar="SOURCE", help="files, folders or patterns such as 'a/*.gz'")
    add("--tokenizer", metavar="DIR_OR_ID", help="a model folder, or a hub id")
    add("--manifest", metavar="FILE,...", help=f"make the caches of {_EXPERTS}'s manifests")
    add("--out", type=Path, metavar="DIR", help="the folder to make")
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
    """Print the facts of a folder to stderr, as only its path is data."""
    out = console_of(sys.stderr, FILE_WIDTH)
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
