"""hotloop rehearse: runs a script or a recipe on a simulated card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from hotloop.cli.arguments.recipe import add_options, request_of, split
from hotloop.cli.arguments.script import add_script, target_of
from hotloop.cli.terminal.lines import console, keep_json, telling
from hotloop.cli.terminal.rehearsal_text import show
from hotloop.core.errors import UsageError
from hotloop.core.storage.files import write_file
from hotloop.core.storage.rundir import RunDir
from hotloop.core.units import duration
from hotloop.nullcard.cards import CARDS, card_named
from hotloop.recipes.registry import RECIPES, summaries
from hotloop.rehearse.recipe_run import RecipeCommand
from hotloop.rehearse.rehearse import SECONDS, STEPS, rehearse
from hotloop.report.rehearsal import page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hotloop.process.child import Beat

__all__ = ["run"]

_CARD = "rtx4090"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop rehearse",
        description="Runs a training script, or a recipe, on a simulated card for a few optimizer "
        "steps\nand says whether it starts on that card and why not, how much of its memory it "
        "takes, how\nmany kernels the host launches in a step, which lines wait for the card, and "
        "what the\ndoctor's rules on the GPU and the host find. PyTorch's real CUDA build runs; "
        "kernels compute\nnothing, so every loss is 0 and means nothing. No file is changed, and "
        "the network is off.\n\n"
        "It needs Linux, a C compiler, and a build of torch for CUDA 13, but no card.",
        epilog="with a recipe: hotloop rehearse [options] RECIPE, then what hotloop train would be "
        f"given\n\nrecipes:\n{summaries()}\n\ncards: {', '.join(CARDS)}\n\n"
        "how each answer is known, and what is not shown: hotloop explain without-a-card",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--card", default=_CARD, metavar="NAME", help=f"the card to simulate (default: {_CARD})")
    add("--steps", type=int, default=STEPS, metavar="N", help=f"steps to count (default: {STEPS})")
    add(
        "--time",
        type=float,
        default=SECONDS,
        metavar="S",
        help=f"stop after S seconds, the script's start included (default: {SECONDS:.0f})",
    )
    add(
        "--largest-batch",
        action="store_true",
        help="run it again with other batch sizes of its DataLoaders (a recipe: other micro "
        "batches), until the largest one that fits is known; a tenth of the memory is left for "
        "what a simulated card does not count",
    )
    add(
        "--unshielded",
        action="store_true",
        help="let the script write its files and use the network: a checkpoint that it saves "
        "holds zeros",
    )
    add("--json", type=Path, metavar="PATH", help="write the result as JSON")
    add("--html", type=Path, metavar="PATH", help="write the result as a page")
    add("--out", type=Path, metavar="FOLDER", help="write both there, into an empty folder")
    add("-q", "--quiet", action="store_true", help="the report alone, no progress")
    add_script(parser)
    return parser


def _target(options: argparse.Namespace) -> tuple[str, ...] | RecipeCommand:
    """Return the arguments of `python`, or the recipe.

    Raises UsageError if neither is named, and the errors of `request_of`.
    """
    if not options.command or options.command[0] not in RECIPES:
        return target_of(options).command
    parser = argparse.ArgumentParser(prog="hotloop rehearse RECIPE")
    parser.add_argument("what", nargs="*", metavar="RECIPE key=value")
    add_options(parser)
    asked = parser.parse_intermixed_args(options.command)
    recipe, assignments = split(asked.what)
    request_of(asked, recipe, assignments).refuse_series()
    assert recipe is not None
    return RecipeCommand(
        recipe=recipe,
        assignments=tuple(assignments),
        config_file=asked.config and str(asked.config),
        plan_file=asked.plan and str(asked.plan),
        added=tuple(asked.added),
        removed=tuple(asked.removed),
    )


def run(args: Sequence[str]) -> int:
    """Run the verb; return 0 if the script was judged, whatever the answers."""
    options = _parser().parse_args(args)
    if options.steps < 1:
        raise UsageError(f"--steps {options.steps}: at least 1 step must be counted")
    if not 0 < options.time < float("inf"):
        raise UsageError(f"--time {options.time:g}: a time above 0 s is needed")
    card, target = card_named(options.card), _target(options)
    if options.out is not None:
        RunDir(options.out).refuse_if_used()

    def beat(beat: Beat) -> None:
        notify(f"rehearsing on the {card.short_name}: {duration(beat.seconds)}")

    with telling(quiet=options.quiet) as notify:
        result = rehearse(
            card,
            target,
            cwd=Path.cwd(),
            steps=options.steps,
            seconds=options.time,
            shielded=not options.unshielded,
            largest=options.largest_batch,
            progress=beat,
        )
    show(result, console(stdout=True))
    keep_json(options.json, result.to_json())
    if options.html is not None:
        write_file(options.html, page(result))
    if options.out is not None:
        RunDir(options.out).save_rehearsal(result.to_json(), page(result))
    return 0
