"""hotloop tune of a recipe: the plan that hotloop train would use, and what is faster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from rich.text import Text

from hotloop.cli.arguments.recipe import ORDER, add_options, request_of, split
from hotloop.cli.arguments.tuning import add_tuning, most_of, seconds_of
from hotloop.cli.terminal.lines import console, keep_json
from hotloop.cli.terminal.train_screen import Screen
from hotloop.cli.terminal.tune_screen import search
from hotloop.core import codec
from hotloop.core.env import ENV
from hotloop.core.errors import UsageError
from hotloop.core.gpu_specs import gpu_named
from hotloop.core.sharding_ids import launcher
from hotloop.core.units import bytes_
from hotloop.recipes.registry import summaries

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hotloop.core.gpu_specs import GpuSpec
    from hotloop.core.trial import Trial
    from hotloop.jobs.job import PreparedRun
    from hotloop.tuning.moves import Move

__all__ = ["run_recipe"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hotloop tune",
        description="Measures which plan trains a recipe fastest here at the same samples of an "
        "optimizer step: micro batch, memory, techniques.\n\n"
        f"recipes:\n{summaries()}\n\n{ORDER}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="*", metavar="RECIPE key=value")
    add_options(parser)
    add_tuning(parser)
    parser.add_argument(
        "--card",
        metavar="NAME",
        help="run nothing: forecast which micro batches fit on another GPU (rtx3090, t4, ...)",
    )
    return parser


def run_recipe(args: Sequence[str]) -> int:
    """Run the verb for a recipe."""
    if ENV.world > 1:
        raise UsageError("hotloop tune starts its ranks itself: start it once, without torchrun")
    options = _parser().parse_intermixed_args(args)
    recipe, assignments = split(options.what)
    seconds = seconds_of(options.budget)
    gpu = None if options.card is None else gpu_named(options.card)
    request = request_of(options, recipe, assignments)
    request.refuse_series()
    screen = Screen(quiet=options.quiet)
    from hotloop.diagnosis.script import place_named
    from hotloop.jobs.job import assemble

    folder = place_named(f"tune-{request.recipe.name}", options.out)  # before minutes of work
    prepared = assemble(request, screen.notify, lambda: None)
    screen.clear()
    if gpu is not None:
        return _forecast(prepared, gpu, options.json)
    from hotloop.tuning.recipe_target import RecipeTarget, moves
    from hotloop.tuning.recipe_trial import record_of

    target = RecipeTarget(request=record_of(request), prepared=prepared, aside=folder)

    most = most_of(options)

    def propose(base: Trial) -> list[Move]:
        step = base.step_time.median if base.step_time else None
        return moves(target, most=most, seconds_per_step=step)

    return search(
        target,
        folder,
        options,
        seconds,
        most=most,
        run=launcher,
        name=_arguments(request.recipe.name, options.config, assignments),
        propose=propose,
        notes=() if target.note is None else (target.note,),
    )


def _arguments(recipe: str, config: Path | None, assignments: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of `hotloop train` for the same settings."""
    file = () if config is None else ("--config", str(config))
    return (recipe, *file, *assignments)


def _forecast(prepared: PreparedRun, gpu: GpuSpec, path: Path | None) -> int:
    """Print which micro batches fit on a GPU that is not in this machine."""
    from hotloop.tuning.fit_other_gpu import ERROR, MODES, fits

    have = bytes_(gpu.memory_bytes)
    out = console(stdout=True)
    out.print(Text(f"memory forecast for {gpu.name} ({have}), by activation checkpointing"))
    rows = fits(prepared, gpu)
    for fit in rows:
        peaks = [f"{mode} {bytes_(fit.peak_bytes[mode])}" for mode in MODES]
        best = next((mode for mode in MODES if fit.fits(mode)), None)
        word = "does not fit" if best is None else f"fits with {best}"
        shape = f"micro batch {fit.micro_batch} x accumulation {fit.accumulation}"
        out.print(Text(f"{shape}: {word} ({', '.join(peaks)})"))
    out.print(Text(f"error of the forecast: {ERROR}"))
    about = {"schema": 1, "gpu": gpu.name, "memory_bytes": gpu.memory_bytes, "error": ERROR}
    keep_json(path, {**about, "fits": [codec.to_json(fit) for fit in rows]})
    return 0
